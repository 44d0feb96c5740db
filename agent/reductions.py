"""Delete-one experiments: the winner without one of its accepted changes, and what is known of it already. Pure.

A waterfall tells what each change brought when it came; what it is worth in the end, beside all the others, only the
winner without it tells.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import exp, hypot, log, sqrt

from day0.agent.policy.decide import Z
from day0.agent.printing import short
from day0.agent.waterfalls import path
from day0.runs.candidate import Candidate
from day0.runs.facts import Knee
from day0.runs.findings import Ablated
from day0.runs.schema import Attempt, AttemptStatus, Run
from day0.runs.workload import Workload


@dataclass(frozen=True)
class Reduction:
    """The winner without the change of one step. Without a candidate there is nothing to boot, and `why` tells."""

    step: Attempt
    candidate: Candidate | None = None
    same: Attempt | None = None
    """an attempt of this run with that very candidate, measured"""
    why: str = ""


def reductions(run: Run, winner: Attempt, attempts: Sequence[Attempt]) -> Iterator[Reduction]:
    """One per accepted change, in their order."""
    by_id = {a.id: a for a in attempts}
    measured = {a.candidate.digest(): a for a in attempts if a.knees}
    for step in path(run, winner, attempts):
        parent = by_id.get(step.parent or "")
        if parent is None:
            continue
        broken = next((v for v in parent.verdicts if not v.passed), None)
        if parent.status == AttemptStatus.FAILED and broken is not None and _repairs(step, parent):
            yield Reduction(step, why=f"without it {short(parent.id)} failed: {broken.rung}: {broken.failure}")
            continue
        candidate = without(winner.candidate, step.candidate, parent.candidate)
        if candidate == winner.candidate:
            yield Reduction(step, why="later changes took its place")
        else:
            yield Reduction(step, candidate, measured.get(candidate.digest()))


def _repairs(step: Attempt, parent: Attempt) -> bool:
    """Whether it mended what its parent failed by: nothing but patches came along."""
    return set(step.candidate.changed(parent.candidate)) == {"patches"}


def without(winner: Candidate, step: Candidate, parent: Candidate) -> Candidate:
    """The winner with what `step` changed set back to what `parent` had, wherever the winner still has it so."""
    flags, env = dict(winner.flags), dict(winner.env)
    for held, new, old in ((flags, step.flags, parent.flags), (env, step.env, parent.env)):
        for key in {*new, *old}:
            if new.get(key) == old.get(key) or held.get(key) != new.get(key):
                continue
            if key in old:
                held[key] = old[key]  # type: ignore[assignment]
            else:
                held.pop(key, None)
    patches = tuple(d for d in winner.patches if d in parent.patches or d not in step.patches)
    tables = tuple(d for d in winner.tables if d in parent.tables or d not in step.tables)
    build = parent.build if step.build != parent.build and winner.build == step.build else winner.build
    change = {"flags": flags, "env": env, "patches": patches, "tables": tables, "build": build}
    return Candidate.model_validate(winner.model_dump() | change)


def worth_in_the_end(winner: Knee, reduced: Knee, noise: float) -> tuple[float, float, float]:
    """(gain, lower, upper) of the winner over itself without a change: one boot each, on the same arrivals.

    The one-sided 95 % bounds come from the noise floor and from how closely the reduced knee was looked at.
    """
    ratio, half = log(winner.rate_rps / reduced.rate_rps), Z * sqrt(2) * noise
    if reduced.low_rps is not None and reduced.high_rps is not None:
        half = hypot(half, log(reduced.high_rps / reduced.low_rps) / 2)
    return exp(ratio) - 1, exp(ratio - half) - 1, exp(ratio + half) - 1


def found(
    reduction: Reduction, winner: Attempt, workload: Workload, booted: Sequence[Ablated], noise: float
) -> Ablated:
    """What is known of a reduction: from a boot of its own, from an attempt that was just that, or why nothing is."""
    told = {"workload": workload.name, "winner": winner.id, "step": reduction.step.id}
    own = next(
        (a for a in booted if (a.winner, a.step, a.workload) == (winner.id, reduction.step.id, workload.name)), None
    )
    if own is not None:
        return own
    mine, same = winner.knee(workload.name), reduction.same
    knee = same.knee(workload.name) if same is not None else None
    if mine is not None and knee is not None and same is not None:
        gain, lower, upper = worth_in_the_end(mine, knee, noise)
        return Ablated(
            **told, without_rps=knee.rate_rps, gain=gain, lower=lower, upper=upper, how=f"measured as {short(same.id)}"
        )
    return Ablated(**told, why_none=reduction.why or "not ablated")


def words(one: Ablated) -> str:
    """The ablation of a change in a few words."""
    if one.gain is None:
        return one.why_none
    return f"{one.gain:+.1%} in the end ({one.lower:+.1%} to {one.upper:+.1%}; {one.how})"
