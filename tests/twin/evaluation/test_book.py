"""What the arena keeps in memory adds up as the ledger's rows do."""

from __future__ import annotations

from pathlib import Path

from day0.agent.evaluation.book import Book
from day0.runs.candidate import Candidate
from day0.runs.documents import target, workload
from day0.runs.facts import (
    BootEnded,
    BootStarted,
    Fact,
    Knee,
    KneeFound,
    LoadPoint,
    PointMeasured,
    Progress,
    Rung,
    RungStarted,
    Verdict,
)
from day0.runs.ledger import Ledger
from day0.runs.schema import AttemptStatus, RunRequest

KNEE = Knee(workload="chat", rate_rps=2.0, goodput_tok_s=120.0, passed_rps=2.0, failed_rps=2.2)
POINT = LoadPoint(
    workload="chat", rate_rps=2.0, seed=1, window_s=8, offered=16, completed=16, failed=0, output_tok_s=120.0,
    total_tok_s=200.0, success_share=1.0, steady=True, meets_slo=True,
)  # fmt: skip
STORY: tuple[Fact, ...] = (
    RungStarted(rung=Rung.PREPARE),
    Verdict(rung=Rung.PREPARE, passed=True),
    BootStarted(boot=1, argv=("server",)),
    BootEnded(boot=1, reason="lost", node_s=30.0),
    BootStarted(boot=2, argv=("server",)),
    Verdict(rung=Rung.BOOT, passed=True),
    Progress(text="measuring"),
    PointMeasured(boot=2, rung=Rung.MEASURE, point=POINT),
    KneeFound(boot=2, rung=Rung.MEASURE, knee=KNEE),
    Verdict(rung=Rung.MEASURE, passed=True),
    BootEnded(boot=2, reason="stopped", node_s=600.0),
)


def request() -> RunRequest:
    return RunRequest(
        model="org/m", revision="r", target=target("mi355x-twin"), workloads=(workload("chat-1k1k"),), policy="default"
    )


def test_the_same_facts_make_the_same_attempt_in_the_ledger_and_in_memory(tmp_path: Path) -> None:
    asked, candidate = request(), Candidate(engine="sglang", build="b", model="org/m", revision="r")
    ledger = Ledger.open(f"sqlite:///{tmp_path / 'l.sqlite'}")
    run = ledger.submit(asked).run
    book = Book(run.id, asked)
    with ledger.write(run.id) as writer:
        stored = writer.add_attempt(candidate=candidate, proposer="baseline", action="baseline", hypothesis="why")
        writer.start_attempt(stored.id, "n")
        for fact in STORY:
            writer.record(stored.id, 0, fact)
        writer.finish_attempt(stored.id, 0, AttemptStatus.KEPT, "it works")
    mine = book.add(candidate, "baseline", action="baseline", hypothesis="why")
    book.move(mine.id, AttemptStatus.RUNNING)
    for fact in STORY:
        book.take(mine.id, fact)
    assert book.ended(mine.id)
    book.move(mine.id, AttemptStatus.KEPT, "it works")
    told = ledger.attempt(stored.id)
    ledger.close()
    assert book.attempt(mine.id).model_copy(update={"node": told.node}) == told
    assert told.boots == 2
    assert told.node_s == 630.0


def test_a_verdict_is_final_and_the_same_candidate_is_one_attempt() -> None:
    book, candidate = Book("r1", request()), Candidate(engine="sglang", build="b", model="org/m", revision="r")
    first = book.add(candidate, "baseline")
    assert book.add(candidate, "tpe") == first
    book.take(first.id, Verdict(rung=Rung.BOOT, passed=True))
    book.take(first.id, Verdict(rung=Rung.BOOT, passed=False))
    assert [v.passed for v in book.attempt(first.id).verdicts] == [True]
    book.take("craft", Verdict(rung=Rung.BOOT, passed=False))  # no attempt's
    assert len(book.attempts()) == 1
