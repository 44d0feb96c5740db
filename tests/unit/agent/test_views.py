"""What people see of a finished run: the best on top, why it is faster, what holds it back; and the page."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from day0.agent import report
from day0.agent.settings import load
from day0.agent.show import best_line, summary
from day0.runs.candidate import Candidate
from day0.runs.documents import target
from day0.runs.facts import BootStarted, Knee, KneeFound, LoadPoint, Percentiles, PointMeasured, Rung, Verdict
from day0.runs.findings import Diagnosis, Explained
from day0.runs.ledger import Ledger
from day0.runs.schema import AttemptStatus, RunRequest
from day0.runs.workload import Slo, Workload

EVIL = "<script>alert(1)</script>\x1b[31m"
WORK = Workload(name="w", input_tokens=4000, output_tokens=100, slo=Slo(ttft_ms=2000.0, tpot_ms=50.0))


def flat(value: float) -> Percentiles:
    return Percentiles(mean=value, p50=value, p95=value, p99=value)


def point(rate: float, tok_s: float, *, good: bool = True) -> LoadPoint:
    return LoadPoint(
        workload="w", rate_rps=rate, seed=0, window_s=60.0, offered=60, completed=60, failed=0, output_tok_s=tok_s,
        total_tok_s=tok_s, ttft_ms=flat(400.0 if good else 4000.0), tpot_ms=flat(20.0 + 10 * rate), success_share=1.0,
        steady=True, meets_slo=good,
    )  # fmt: skip


def knee(rate: float) -> Knee:
    return Knee(workload="w", rate_rps=rate, goodput_tok_s=100 * rate, passed_rps=rate, failed_rps=1.2 * rate)


def climb(ledger: Ledger, run: str, rate: float, flags: dict, parent: str | None, hypothesis: str) -> str:
    """An attempt that was measured and kept."""
    base = {"tp-size": 2, "dp-size": 4, **flags}
    candidate = Candidate(engine="sglang", build="b", model="m", revision="r", flags=base)
    with ledger.write(run) as writer:
        made = writer.add_attempt(
            candidate=candidate, proposer="playbook", parent=parent, action="axis", hypothesis=hypothesis
        )
        epoch = writer.start_attempt(made.id, "n")
        facts = [
            BootStarted(boot=1, argv=("x",)),
            PointMeasured(boot=1, rung=Rung.MEASURE, point=point(rate, 100 * rate)),
            PointMeasured(boot=1, rung=Rung.MEASURE, point=point(1.2 * rate, 110 * rate, good=False)),
            Explained(
                boot=1,
                workload="w",
                found=(Diagnosis(name="admission cap", evidence="48 of 48 ran", experiment="raise it"),),
            ),
            KneeFound(
                boot=1,
                rung=Rung.MEASURE,
                knee=Knee(
                    workload="w", rate_rps=rate, goodput_tok_s=100 * rate, passed_rps=rate, failed_rps=1.2 * rate
                ),
            ),
            *(Verdict(rung=r, passed=True) for r in (Rung.ANSWER, Rung.ACCURACY, Rung.MEASURE)),
        ]
        for fact in facts:
            writer.record(made.id, epoch, fact)
        writer.finish_attempt(made.id, epoch, AttemptStatus.KEPT, f"good {EVIL}")
        writer.set_leader(made.id)
        if parent is None:
            writer.set_baseline(made.id)
    return made.id


@pytest.fixture
def finished(home: Path):
    ledger = Ledger.open(load().database)
    aim = target("mi355x-twin")
    run = ledger.submit(
        RunRequest(model=f"m{EVIL}", revision="r", target=aim, workloads=(WORK,), policy="playbook")
    ).run
    first = climb(ledger, run.id, 2.0, {}, None, "")
    second = climb(ledger, run.id, 3.0, {"chunked-prefill-size": 8192}, first, f"larger {EVIL}")
    third = climb(
        ledger, run.id, 4.0, {"chunked-prefill-size": 8192, "max-running-requests": 96}, second, "more at once"
    )
    yield ledger, run.id, (first, second, third)
    ledger.close()


def test_the_waterfall_holds_each_accepted_change_with_what_it_brought(finished):
    ledger, run, (_, second, third) = finished
    (won,) = summary(ledger, run)["winners"]
    steps = [(w["attempt"], w["change_words"], round(w["gain"], 3), round(w["total"], 3)) for w in won["waterfall"]]
    assert steps == [
        (second, "--chunked-prefill-size=8192", 0.5, 0.5),
        (third, "--max-running-requests=96", 0.333, 1.0),
    ]
    assert [d["name"] for d in won["explained"]] == ["admission cap"]


def test_s50_the_best_line_names_goodput_its_interval_and_its_labels(finished):
    ledger, run, _ = finished
    (won,) = summary(ledger, run)["winners"]
    told = best_line(won, simulated=True)
    assert "400 tok/s a node, 50 per accelerator held [simulated, not confirmed]" in told
    assert "knee 4/s (4 to 4.8, between what passed and what failed)" in told
    assert best_line({**won, "best": None}, simulated=True) == "w: nothing works yet"


def test_show_says_the_best_first_and_s47_what_holds_it_back(finished, day0):
    _, run, _ = finished
    code, out, _ = day0("show", run)
    assert code == 0 and out.startswith("w: best is 1.3: 400 tok/s a node")
    assert "why w is faster (simulated)" in out
    assert "w is held back by: admission cap (48 of 48 ran): raise it" in out and "\x1b[31m" not in out


class Reader(HTMLParser):
    """Tags that were opened, and text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.words: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)

    def handle_data(self, data):
        self.words.append(data)


def test_s70_a_report_is_one_page_without_scripts_and_what_came_from_outside_is_text(finished, day0, tmp_path):
    _, run, _ = finished
    code, out, _ = day0("report", run, "-o", str(tmp_path / "run.html"))
    assert code == 0 and "run.html" in out
    page = (tmp_path / "run.html").read_text()
    seen = Reader()
    seen.feed(page)
    assert "script" not in seen.tags and "\x1b" not in page and not re.search(r"(src|href)=", page)
    words = " ".join(seen.words)
    assert "<script>alert(1)</script>" in words, "shown as it is"
    assert seen.tags.count("svg") == 2 and words.count("--max-running-requests=96") == 2
    for told in ("Simulated", "Throughput against interactivity", "Latency against load", "limit 2000 ms", "+33.3%"):
        assert told in words


def test_s49_the_report_compares_at_one_interactivity_per_accelerator_held(finished):
    ledger, run, _ = finished
    page = report.page(ledger, run)
    assert "output tok/s per accelerator held" in page
    found = re.search(r"At ([\d.]+) tok/s per user: baseline ([\d.]+), winner ([\d.]+)", page)
    assert found is None or float(found[3]) > float(found[2])
    assert found is not None or "were not measured at the same interactivity" in page


def test_a_report_needs_a_run_and_a_place(finished, day0, tmp_path):
    _, run, _ = finished
    assert day0("report", "r0-9", "-o", str(tmp_path / "x.html"))[0] == 2
    code, _, err = day0("report", run, "-o", str(tmp_path / "none" / "x.html"))
    assert code == 2 and "can't be written" in err


def test_s49_two_runs_are_compared_at_one_interactivity(finished, day0):
    _, run, _ = finished
    code, out, _ = day0("compare", run, run, "--json")
    same = json.loads(out)["same_interactivity"]["w"]
    assert code == 0 and same["first"] == same["second"] == 55.0, "440 tok/s over eight accelerators held"
    assert same["user_tok_s"] == pytest.approx(1e3 / 68)
    code, out, _ = day0("compare", run, run)
    assert "w at 14.7 tok/s per user, per accelerator held" in " ".join(out.split())
