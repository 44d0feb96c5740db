"""Two equal runs are the same bytes, whatever was interrupted between."""

import json

from day0.runs.canonical import canonical, clean
from day0.runs.engine_facts import BootFacts
from day0.runs.facts import BootReady, Rung, Verdict
from day0.runs.schema import AttemptStatus, RunStatus


def climb(writer, make, attempt, epoch, boot, *, rungs):
    """What a climb records on one boot; `rungs` are those it still has to pass."""
    writer.record(attempt, epoch, make.started(boot))
    facts = BootFacts(ready_s=boot * 7.5, version="0.5.23", model_path="/tmp/x/tiny")
    writer.record(attempt, epoch, BootReady(boot=boot, facts=facts))
    for rung in rungs:
        told = f"/tmp/run{boot}/server.log: http://127.0.0.1:3{boot}234 pid={boot}77"
        writer.record(attempt, epoch, Verdict(rung=rung, passed=True, evidence=told))


def measured(writer, make, attempt, epoch, boot):
    writer.record(attempt, epoch, make.point(boot))
    writer.record(attempt, epoch, make.knee(boot))
    writer.record(attempt, epoch, Verdict(rung=Rung.MEASURE, passed=True))
    writer.record(attempt, epoch, make.ended(boot))
    writer.finish_attempt(attempt, epoch, AttemptStatus.KEPT, "42.0 tok/s")
    writer.spend(1000 * boot)
    writer.set_incumbent(attempt)
    writer.move_run(RunStatus.DONE)


def begun(ledger, make):
    run = ledger.submit(make.request(), again=True).run.id
    with ledger.write(run) as writer:
        writer.move_run(RunStatus.RUNNING)
        attempt = writer.add_attempt(candidate=make.candidate(), proposer="baseline").id
        writer.start_attempt(attempt, "node1")
    return run, attempt


def test_an_interrupted_run_and_a_smooth_one_are_the_same_bytes(ledger, make):
    smooth, attempt = begun(ledger, make)
    with ledger.write(smooth) as writer:
        climb(writer, make, attempt, 0, 1, rungs=(Rung.BOOT, Rung.ANSWER))
        measured(writer, make, attempt, 0, 1)
    rough, attempt = begun(ledger, make)
    with ledger.write(rough) as writer:
        climb(writer, make, attempt, 0, 1, rungs=(Rung.BOOT, Rung.ANSWER))
        writer.record(attempt, 0, make.point(1, rate=3.0))
        writer.interrupt(attempt)
    ledger.resume(rough, budget_hours=48)
    with ledger.write(rough) as writer:
        epoch = writer.start_attempt(attempt, "node2")
        climb(writer, make, attempt, epoch, 2, rungs=())
        measured(writer, make, attempt, epoch, 2)
    first = canonical(ledger, smooth)
    assert canonical(ledger, rough).replace(rough, smooth) == first
    shown = json.loads(first)
    assert [point["rate_rps"] for point in shown["attempts"][0]["points"]] == [1.0]
    assert shown["attempts"][0]["verdicts"][0]["evidence"] == "<path>: http://127.0.0.1:<port> pid=<pid>"


def test_what_differs_between_two_configurations_shows(ledger, make):
    told = []
    for number in (0, 1):
        run = ledger.submit(make.request(seed=1), again=True).run.id
        with ledger.write(run) as writer:
            writer.add_attempt(candidate=make.candidate(number), proposer="baseline")
            writer.move_run(RunStatus.CANCELLED)
        told.append(canonical(ledger, run).replace(run, "RUN"))
    assert told[0] != told[1]


def test_cleaning_leaves_units_ratios_and_times_of_day_alone():
    for text in (
        "42.0 tok/s",
        "requests/s",
        "TP4/DP2",
        "a 1:2 mix",
        "day0/recipe/v1",
        "agreed on 200/200",
        "{model}/x",
    ):
        assert clean(text) == text
    assert clean("see /root/a/b.log, port 31234") == "see <path>, port <port>"
    assert clean("[2026-01-01 01:34:21 TP0] x.h:3:1: error") == "[<time> TP0] x.h:3:1: error"
