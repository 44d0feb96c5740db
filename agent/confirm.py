"""Rung `confirm`: boots of challenger and incumbent in alternating order.

A pair is one boot of each arm on the same arrival times and lengths with fresh contents; the arms' order alternates.
A pair that was interrupted half-way is measured again as a whole, so that drift between its halves stays short.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence

from day0.agent.inputs import ClimbInputs
from day0.agent.lease import Booted, Facts, Lease
from day0.runs.errors import CandidateFailed, Infrastructure
from day0.runs.facts import Fact, Knee, LoadPoint, Pair, PairMeasured, Progress, Rung
from day0.runs.schema import Attempt, Comparison
from day0.runs.workload import MeasureRules, Workload
from day0.sandboxes.base import Node
from day0.tools import judge
from day0.tools.knee import fallen

PAIR_POINTS = 2
"""around a knee that is already known; the search may add two to find a missing side, or to look at that rate again"""
LEAST_PAIRS = 2


def pair(
    node: Node, *, challenger: Attempt, incumbent: Attempt, number: int, workload: Workload, inputs: ClimbInputs
) -> Facts:
    """Both boots of pair `number` (from 1), then `PairMeasured`.

    Raises `CandidateFailed` when the challenger fails, `Infrastructure` when the incumbent does: then the pair says
    nothing about the challenger.
    """
    first = judge.first_arm(number)
    order = (incumbent, challenger) if first == "incumbent" else (challenger, incumbent)
    knees: dict[str, Knee] = {}
    boot = challenger.boots
    for arm in order:
        boot += 1
        lease = Lease(node, challenger.id, challenger.epoch, arm.candidate, inputs, boot, repeat=number)
        yield Progress(text=f"pair {number}: {'incumbent' if arm is incumbent else 'challenger'}")
        try:
            knees[arm.id] = yield from _arm(lease, arm, workload, inputs, number)
        except CandidateFailed as failed:
            yield from lease.end()
            if arm is incumbent:
                raise Infrastructure(f"the incumbent {arm.id} failed in pair {number}: {failed}") from failed
            raise
        yield from lease.end()
    yield PairMeasured(pair=judge.pair(number, first, knees[incumbent.id], knees[challenger.id]))


def _arm(
    lease: Lease, arm: Attempt, workload: Workload, inputs: ClimbInputs, number: int
) -> Generator[Fact, None, Knee]:
    known = arm.knee(workload.name)
    if known is None:
        raise Infrastructure(f"{arm.id} has no knee on {workload.name}")
    yield lease.begin()
    with lease.open() as booted:
        yield booted.ready()
        knee, _ = yield from around(booted, workload, Rung.CONFIRM, known.rate_rps, inputs.seed * 1000 + number)
    return knee


def around(
    booted: Booted, workload: Workload, rung: Rung, rate: float, seed: int
) -> Generator[Fact, None, tuple[Knee, tuple[LoadPoint, ...]]]:
    """A boot's warm-up and its knee where one is known: few points, only its place on this boot is asked.

    One burst in one point says nothing: where the knee seems to have fallen, the known rate is looked at once more.
    Raises `CandidateFailed` (`below_slo`) when no rate passed.
    """
    inputs = booted.lease.inputs
    yield from booted.warm(workload, rung, inputs.seed)
    rules, doubt = narrow(inputs.target.measure), fallen(inputs.noise)
    return (yield from booted.bracket(workload, rung, rate, rules, seed, doubt=doubt))


def narrow(rules: MeasureRules) -> MeasureRules:
    """The target's rules with few points: the knee is known, only its place on this boot is asked."""
    return rules.model_copy(update={"max_points": PAIR_POINTS})


def enough(pairs: Sequence[Pair], comparison: Comparison | None, most: int) -> bool:
    """Whether the pairs settle it, or no further pair is allowed."""
    if comparison is None or len(pairs) < LEAST_PAIRS:
        return False
    return comparison.verdict != "open" or len(pairs) >= most


def told(comparison: Comparison) -> str:
    """Its verdict, gain and lower bound in a few words."""
    return f"{comparison.verdict}: {comparison.gain:+.1%}, 95 % bound {comparison.lower:+.1%}"
