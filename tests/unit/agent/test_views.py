"""What people see of a finished run: the best on top, why it is faster, what holds it back; and the page."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from day0.agent import report
from day0.agent.settings import load
from day0.agent.show import summary
from day0.agent.show_best import best_line, kernels_line, stability_line
from day0.runs.candidate import Candidate
from day0.runs.documents import target
from day0.runs.facts import BootStarted, Knee, KneeFound, LoadPoint, Percentiles, PointMeasured, Rung, Verdict
from day0.runs.findings import Diagnosis, Explained, Kernels, NoiseFloor, Stability
from day0.runs.ledger import Ledger
from day0.runs.schema import AttemptStatus, Comparison, Pair, RunRequest
from day0.runs.workload import Slo, Workload

EVIL = "<script>alert(1)</script>\x1b[31m"
WORK = Workload(name="w", input_tokens=4000, output_tokens=100, slo=Slo(ttft_ms=2000.0, tpot_ms=50.0))


def flat(value: float) -> Percentiles:
    return Percentiles(mean=value, p50=value, p95=value, p99=value)


def point(rate: float, tok_s: float, *, good: bool = True, pace: float | None = None) -> LoadPoint:
    return LoadPoint(
        workload="w", rate_rps=rate, seed=0, window_s=60.0, offered=60, completed=60, failed=0, output_tok_s=tok_s,
        total_tok_s=tok_s, ttft_ms=flat(400.0 if good else 4000.0), tpot_ms=flat(20.0 + 10 * (pace or rate)),
        success_share=1.0, steady=True, meets_slo=good,
    )  # fmt: skip


def knee(rate: float) -> Knee:
    return Knee(workload="w", rate_rps=rate, goodput_tok_s=100 * rate, passed_rps=rate, failed_rps=1.2 * rate)


def climb(
    ledger: Ledger, run: str, rate: float, flags: dict, parent: str | None, hypothesis: str, pace: float | None = None
) -> str:
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
            PointMeasured(boot=1, rung=Rung.MEASURE, point=point(rate, 100 * rate, pace=pace)),
            PointMeasured(
                boot=1, rung=Rung.MEASURE, point=point(1.2 * rate, 110 * rate, good=False, pace=pace and 1.2 * pace)
            ),
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
    ledger, run, (_, _, third) = finished
    code, out, _ = day0("show", run)
    assert code == 0 and out.startswith("w: best is 1.3: 400 tok/s a node")
    assert "why w is faster (simulated)" in out.split("attempts")[0], "before the attempts"
    assert "not ablated" in out and "measured as 1.2" in " ".join(out.split())
    with ledger.write(run) as writer:
        writer.event("floor", NoiseFloor(workload="w", why_none="not asked for"), attempt=third)
    assert "w: noise floor 3.0%, assumed and not measured: not asked for (simulated)" in day0("show", run)[1]
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


def test_s70_a_report_is_one_page_without_scripts_and_what_came_from_outside_is_text(finished):
    ledger, run, _ = finished
    page = report.page(ledger, run)
    seen = Reader()
    seen.feed(page)
    assert "script" not in seen.tags and "\x1b" not in page and not re.search(r"(src|href)=", page)
    words = " ".join(seen.words)
    assert "<script>alert(1)</script>" in words, "shown as it is"
    assert seen.tags.count("svg") == 4 and words.count("--max-running-requests=96") == 3
    for told in ("Simulated", "Throughput against interactivity", "Latency against load", "limit 2000 ms", "+33.3%"):
        assert told in words


def test_s49_the_report_compares_at_one_interactivity_per_accelerator_held(finished):
    ledger, run, (first, *_) = finished
    page = report.page(ledger, run)
    assert "output tok/s per accelerator held" in page
    # 22.7 to 25 tok/s per user against 14.7 to 16.7: nothing may be set against anything
    assert "were not measured at the same interactivity" in page and "tok/s per user: baseline" not in page
    climb(ledger, run, 5.0, {"max-running-requests": 7}, first, "denser at the same pace", pace=2.0)
    page = report.page(ledger, run)
    found = re.search(r"At ([\d.]+) tok/s per user: baseline ([\d.]+), \S+ ([\d.]+)", page)
    assert found is not None and [float(f) for f in found.groups()] == [22.7, 27.5, 68.75]


def test_a_report_needs_a_run_and_a_place(finished, day0, tmp_path):
    _, run, _ = finished
    assert day0("report", "r0-9", "-o", str(tmp_path / "x.html"))[0] == 2
    code, _, err = day0("report", run, "-o", str(tmp_path / "none" / "x.html"))
    assert code == 2 and "can't be written" in err


def compared(ledger: Ledger, run: str, challenger: str, incumbent: str, verdict: str) -> None:
    """A comparison of which nothing came, or a gain."""
    pairs = tuple(
        Pair(number=n, first="incumbent", incumbent=knee(2.0), challenger=knee(2.1), log_ratio=0.05) for n in (1, 2)
    )
    with ledger.write(run) as writer:
        writer.add_comparison(
            Comparison(
                incumbent=incumbent, challenger=challenger, pairs=pairs, gain=0.05, lower=-0.02, upper=0.13,
                better=verdict == "better", method="test", verdict=verdict,
            )
        )  # fmt: skip


def test_s40_a_comparison_is_never_printed_without_its_verdict(finished, day0):
    ledger, run, (first, second, _) = finished
    compared(ledger, run, second, first, "not shown")
    told = "+5.0% (95 % bounds -2.0% to +13.0%; 2 pairs; verdict: not shown)"
    assert f"w: 1.2 against the baseline: {told} (simulated)" in " ".join(day0("show", run)[1].split())
    assert told in report.page(ledger, run)
    (won,) = summary(ledger, run)["winners"]
    assert [c["verdict"] for c in won["comparisons"]] == ["not shown"] and won["compared"] is None


def test_what_was_not_available_under_load_is_said(finished):
    ledger, run, _ = finished
    (won,) = summary(ledger, run)["winners"]
    found = Stability(rate_rps=3.6, seconds=120.0, requests=430, failed=0, unknown="amd-smi is not on this node")
    told = stability_line({**won, "stability": found.model_dump(mode="json")})
    assert told.startswith("w: under load for 2 min at 3.6/s, 0.9 x the knee: 0 of 430 requests failed; memory unknown")
    assert "clocks and power not available" in told and told.endswith("amd-smi is not on this node")
    assert stability_line(won) == ""


def test_what_the_log_of_the_best_told_of_its_kernels_stands_beside_its_figures(finished):
    ledger, run, _ = finished
    (won,) = summary(ledger, run)["winners"]
    assert won["kernels"] is None and kernels_line(won) == ""
    seen = Kernels(fallback_lines=2, tuned=3, untuned=1)
    told = kernels_line({**won, "kernels": seen.model_dump(mode="json") | {"coverage": seen.coverage}})
    assert told == "w: kernels of the best: 3 of 4 expert-kernel shapes ran with tuned rows (75%); 2 lines of fallbacks"


def test_the_pictures_of_a_report_lie_beside_it(finished, day0, tmp_path):
    ledger, run, _ = finished
    code, out, _ = day0("report", run, "-o", str(tmp_path / "run.html"))
    files = sorted(file.name for file in tmp_path.glob("*.png"))
    kinds = ("changes", "interactivity", "latency", "tpot")
    assert code == 0 and files == [f"run-w-{kind}.png" for kind in kinds] and all(name in out for name in files)
    assert (tmp_path / "run.html").read_text() == report.page(ledger, run)
    for file in tmp_path.glob("*.png"):
        data = file.read_bytes()
        assert data[:8] == b"\x89PNG\r\n\x1a\n" and len(data) > 10_000


def test_every_picture_names_its_axes_its_limit_its_knees_and_that_it_is_simulated(finished):
    ledger, run, _ = finished
    made = dict(report.pictures(ledger, run))
    latency, wide = made["w-latency"], made["w-interactivity"]
    assert (latency.x, latency.y) == ("offered requests/s per node", "p95 TTFT, ms")
    assert latency.limit == (2000.0, "limit 2000 ms")
    assert [s.name for s in latency.shown] == ["baseline 1.1", "leader 1.3"]
    assert [(m.name, m.low, m.high) for m in latency.marks] == [
        ("knee of baseline 2/s", 2.0, 2.4),
        ("knee of leader 4/s", 4.0, 4.8),
    ]
    assert wide.y == "output tok/s per accelerator held"
    assert wide.wall == (20.0, "limit 50 ms TPOT: at least 20 tok/s per user")
    assert {picture.label for picture in made.values()} == {"simulated"}
    assert all("simulated" in picture.svg() for picture in made.values())
    (first, last) = made["w-changes"].bars
    assert (first.note, last.note) == ("not ablated", "without it the winner loses 25.0%")
    assert last.without == pytest.approx(0.5) and last.end == pytest.approx(1.0)
