"""The end of rung `confirm`: the winner under load for long, watched (design: 45 minutes at 0.9 x the knee)."""

from __future__ import annotations

from dataclasses import replace

from day0.agent.inputs import ClimbInputs
from day0.agent.lease import Facts, Lease
from day0.runs.errors import CandidateFailed, Infrastructure
from day0.runs.facts import FailureClass, Rung, Verdict
from day0.runs.findings import Held
from day0.runs.schema import Attempt
from day0.runs.workload import Workload
from day0.sandboxes.base import Node
from day0.tools import health

STABLE_SHARE = 0.9
LOOKS = 12
"""readings of the accelerators within the time"""


def stability(node: Node, *, challenger: Attempt, workload: Workload, inputs: ClimbInputs) -> Facts:
    """`stability_s` at 0.9 of the knee on one boot; ends with `Held` and a verdict on `confirm`.

    It fails when the point does not hold, or when the accelerators' memory grows. Clocks and power are recorded.
    """
    rules, known = inputs.target.measure, challenger.knee(workload.name)
    if known is None:
        raise Infrastructure(f"{challenger.id} has no knee on {workload.name}")
    lease = Lease(node, challenger.id, challenger.epoch, challenger.candidate, inputs, challenger.boots + 1, repeat=99)
    steady = rules.model_copy(update={"point_s": rules.stability_s})
    rate, accelerated = STABLE_SHARE * known.rate_rps, inputs.target.accelerator != "cpu"
    try:
        yield lease.begin()
        with lease.open() as booted:
            yield booted.ready()
            yield from booted.warm(workload, Rung.CONFIRM, inputs.seed)
            watched = health.Watched(booted.server, node, rules.stability_s / LOOKS, accelerated=accelerated)
            under = replace(booted, watched=watched)
            point = yield from under.point(workload, Rung.CONFIRM, rate, inputs.seed, "stability", rules=steady)
            booted.unharmed()
            found = health.stability(
                watched.readings, rate, point.window_s, point.completed, point.failed, watched.unknown
            )
            yield Held(boot=lease.boot, workload=workload.name, readings=len(watched.readings), found=found)
            if not point.meets_slo:
                raise CandidateFailed(FailureClass.NOT_STABLE, point.void or "; ".join(point.misses))
            if leak := health.leaking(found, challenger.candidate.gpus_held):
                raise CandidateFailed(FailureClass.NOT_STABLE, leak)
        detail = f"held {point.window_s:.0f} s at 0.9 x the knee; {health.words(found)}"
        verdict = Verdict(rung=Rung.CONFIRM, passed=True, detail=detail)
    except CandidateFailed as failed:
        verdict = Verdict(
            rung=Rung.CONFIRM,
            passed=False,
            failure=FailureClass.NOT_STABLE,
            evidence=failed.evidence,
            issue=failed.issue,
        )
    yield from lease.end()
    yield verdict
