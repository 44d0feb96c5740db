"""A winner without one of its changes: what is set back, what is known already, what it is worth in the end."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from day0.agent.reductions import found, reductions, without, words, worth_in_the_end
from day0.runs.candidate import Candidate
from day0.runs.documents import target
from day0.runs.facts import FailureClass, Knee, Rung, Verdict
from day0.runs.findings import Ablated
from day0.runs.schema import Attempt, AttemptStatus, Run, RunRequest, RunStatus
from day0.runs.workload import Workload

WORK = Workload(name="w", input_tokens=100, output_tokens=10)
REQUEST = RunRequest(model="m", revision="r", target=target("mi355x-twin"), workloads=(WORK,))
RUN = Run(id="r1-1", key="k", request=REQUEST, status=RunStatus.DONE, baseline="r1-1.1", created_at=datetime.now(UTC))


def candidate(patches: tuple[str, ...] = (), tables: tuple[str, ...] = (), **flags: object) -> Candidate:
    named = {key.replace("_", "-"): value for key, value in flags.items()}
    return Candidate(
        engine="sglang", build="b", model="m", revision="r", flags={"tp-size": 8, **named}, patches=patches,
        tables=tables,
    )  # fmt: skip


def knee(rate: float, **more: float) -> Knee:
    return Knee(workload="w", rate_rps=rate, goodput_tok_s=rate, passed_rps=rate, failed_rps=None, **more)


def attempt(number: int, made: Candidate, rate: float | None, *, failed: bool = False) -> Attempt:
    broken = Verdict(rung=Rung.BOOT, passed=False, failure=FailureClass.HEADER_COMPILE)
    good = tuple(Verdict(rung=r, passed=True) for r in (Rung.ANSWER, Rung.ACCURACY, Rung.MEASURE))
    return Attempt(
        id=f"r1-1.{number}",
        run="r1-1",
        number=number,
        candidate=made,
        proposer="playbook",
        status=AttemptStatus.FAILED if failed else AttemptStatus.KEPT,
        parent=f"r1-1.{number - 1}" if number > 1 else None,
        verdicts=(broken,) if failed else good,
        knees=() if rate is None else ((1, Rung.MEASURE, knee(rate)),),
    )


def test_only_what_the_step_brought_and_the_winner_still_has_is_set_back():
    parent, step = candidate(a=1, gone=True), candidate(a=2, b=3)
    winner = candidate(a=2, b=4, c=5, tables=("t",))
    assert without(winner, step, parent) == candidate(a=1, gone=True, b=4, c=5, tables=("t",))
    tuned = candidate(a=2, tables=("t",))
    assert without(tuned, tuned, candidate(a=2)) == candidate(a=2)
    assert without(candidate(a=9), candidate(a=2), candidate(a=1)) == candidate(a=9), "a later change took its place"


def test_each_change_has_an_experiment_or_a_reason():
    chain = (
        attempt(1, candidate(), 1.0),
        attempt(2, candidate(a=1), None, failed=True),
        attempt(3, candidate(a=1, patches=("p",)), 2.0),
        attempt(4, candidate(a=1, b=1, patches=("p",)), 3.0),
        attempt(5, candidate(a=1, b=1, c=1, patches=("p",)), 4.0),
    )
    winner = chain[-1]
    of = {r.step.number: r for r in reductions(RUN, winner, chain)}
    assert of[2].candidate == candidate(b=1, c=1, patches=("p",)) and of[2].same is None
    assert of[3].candidate is None and of[3].why == "without it 1.2 failed: boot: header_compile"
    assert of[4].candidate == candidate(a=1, c=1, patches=("p",))
    assert of[5].same == chain[3], "the winner without its last change was measured on the way"
    told = {n: found(r, winner, WORK, (), 0.01) for n, r in of.items()}
    assert words(told[2]) == "not ablated" and words(told[3]).startswith("without it 1.2 failed")
    assert told[5].gain == pytest.approx(1 / 3) and told[5].how == "measured as 1.4"
    booted = Ablated(
        workload="w", winner=winner.id, step=chain[1].id, gain=0.5, lower=0.4, upper=0.6, how="a boot without it"
    )
    assert found(of[2], winner, WORK, (booted,), 0.01) == booted
    assert words(booted) == "+50.0% in the end (+40.0% to +60.0%; a boot without it)"


def test_the_bounds_of_an_ablation_are_no_narrower_than_the_noise_and_the_look():
    gain, lower, upper = worth_in_the_end(knee(2.0), knee(1.0), 0.02)
    assert gain == pytest.approx(1.0) and lower < 1.0 < upper and upper - lower == pytest.approx(0.186, abs=0.002)
    wide = worth_in_the_end(knee(2.0), knee(1.0, low_rps=0.8, high_rps=1.25), 0.02)
    assert wide[1] < 0.62 and wide[2] > 1.45
