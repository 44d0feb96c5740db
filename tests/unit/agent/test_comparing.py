"""Two runs side by side: what may be said of them, and what is refused in one sentence."""

from __future__ import annotations

import json

import pytest
from day0.agent.comparing import compared, refuse, words
from day0.agent.settings import load
from day0.runs.candidate import Candidate
from day0.runs.documents import target
from day0.runs.errors import UserError
from day0.runs.facts import BootStarted, Knee, KneeFound, PointMeasured, Rung, Verdict
from day0.runs.ledger import Ledger
from day0.runs.points import LoadPoint, Percentiles
from day0.runs.schema import AttemptStatus, RunRequest
from day0.runs.workload import Slo, Target, Workload

WORK = Workload(name="w", input_tokens=4000, output_tokens=100, slo=Slo(ttft_ms=2000.0, tpot_ms=50.0))
TWIN = target("mi355x-twin")


def flat(value: float) -> Percentiles:
    return Percentiles(mean=value, p50=value, p95=value, p99=value)


def point(rate: float, tpot_ms: float) -> LoadPoint:
    return LoadPoint(
        workload="w", rate_rps=rate, seed=0, window_s=60.0, offered=60, completed=60, failed=0, output_tok_s=100 * rate,
        total_tok_s=100 * rate, ttft_ms=flat(400.0), tpot_ms=flat(tpot_ms), success_share=1.0, steady=True,
        meets_slo=True,
    )  # fmt: skip


@pytest.fixture
def ledger(home):
    made = Ledger.open(load().database)
    yield made
    made.close()


@pytest.fixture
def run_of(ledger):
    """A run whose only attempt has its knee at a rate."""

    def make(
        rate: float | None, *, aim: Target = TWIN, work: Workload = WORK, model: str = "m", revision: str = "r", seed=0
    ) -> str:
        request = RunRequest(
            model=model, revision=revision, target=aim, workloads=(work,), policy="playbook", seed=seed
        )
        run = ledger.submit(request).run.id
        if rate is None:
            return run
        held = Candidate(engine="sglang", build="b", model=model, revision=revision, flags={"tp-size": 8})
        found = Knee(workload=work.name, rate_rps=rate, goodput_tok_s=100 * rate, passed_rps=rate, failed_rps=None)
        with ledger.write(run) as writer:
            only = writer.add_attempt(candidate=held, proposer="baseline", action="baseline", hypothesis="")
            epoch = writer.start_attempt(only.id, "n")
            for fact in (
                BootStarted(boot=1, argv=("x",)),
                PointMeasured(boot=1, rung=Rung.MEASURE, point=point(rate, 40.0)),
                PointMeasured(boot=1, rung=Rung.MEASURE, point=point(rate / 2, 20.0)),
                KneeFound(boot=1, rung=Rung.MEASURE, knee=found),
                *(Verdict(rung=r, passed=True) for r in (Rung.ANSWER, Rung.ACCURACY, Rung.MEASURE)),
            ):
                writer.record(only.id, epoch, fact)
            writer.finish_attempt(only.id, epoch, AttemptStatus.KEPT, "good")
            writer.set_baseline(only.id)
            writer.set_leader(only.id)
        return run

    return make


def test_s49_two_runs_are_compared_at_one_interactivity(ledger, run_of, day0):
    first, second = run_of(4.0), run_of(6.0, seed=1)
    (row,) = compared(ledger, first, second)["workloads"]
    same = row["same_interactivity"]
    assert (same["user_tok_s"], same["first"], same["second"]) == (25.0, 50.0, 75.0), (
        "400 and 600 tok/s over eight held"
    )
    assert same["gain"] == pytest.approx(0.5) and same["lower"] < 0.5 < same["upper"] and same["verdict"] == "better"
    assert row["knee"]["gain"] == pytest.approx(0.5)
    code, out, _ = day0("compare", first, second)
    told = " ".join(out.split())
    assert code == 0 and "two runs (simulated)" in told
    assert (
        "w: at 25.0 tok/s per user 50 and 75 tok/s per accelerator held: +50.0%" in told and "not interleaved" in told
    )
    assert json.loads(day0("compare", first, second, "--json")[1])["same_interactivity"]["w"]["second"] == 75.0


def test_a_difference_within_both_noise_floors_is_not_shown(ledger, run_of):
    (row,) = compared(ledger, run_of(4.0), run_of(4.2, seed=1))["workloads"]
    assert row["knee"]["verdict"] == row["same_interactivity"]["verdict"] == "not shown"
    assert all("verdict: not shown" in told for told in words(row))


def test_s49_other_hardware_is_compared_at_equal_interactivity_only(ledger, run_of):
    other = TWIN.model_copy(update={"name": "other", "accelerator": "mi300x"})
    (row,) = compared(ledger, run_of(4.0), run_of(6.0, aim=other))["workloads"]
    assert row["knee"] is None and row["same_interactivity"]["verdict"] == "better"
    assert "only equal interactivity counts" in next(words(row))


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ({"aim": target("cpu")}, "is simulated and .* is measured"),
        ({"model": "n", "revision": "s"}, "serves m and .* n: tokens of different models are not compared"),
        ({"work": WORK.model_copy(update={"name": "v"})}, "share no workload: .* has w, .* has v"),
        ({"work": WORK.model_copy(update={"input_tokens": 8000})}, "compared: input_tokens 4000 against 8000"),
        ({"rate": None, "seed": 1}, "has nothing measured on w yet"),
    ],
)
def test_what_says_nothing_of_each_other_is_refused(ledger, run_of, day0, other, why):
    first, second = run_of(4.0), run_of(**{"rate": 4.0, **other})
    with pytest.raises(UserError, match=why):
        compared(ledger, first, second)
    code, _, err = day0("compare", first, second)
    assert code == 2 and len(err.strip().splitlines()) == 1


def test_a_run_is_not_compared_with_itself(ledger, run_of):
    run = ledger.run(run_of(4.0))
    with pytest.raises(UserError, match="name two runs"):
        refuse(run, run)
