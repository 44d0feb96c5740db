"""A simulated server that fails in the middle of a load point: the points before it stand, the rest of it is void."""

from __future__ import annotations

import pytest
from day0.agent import twin
from day0.agent.inputs import ClimbInputs
from day0.agent.lease import Lease
from day0.runs.documents import target
from day0.runs.errors import CandidateFailed
from day0.runs.facts import ArtifactKept, PointMeasured, Rung
from day0.sandboxes.twin.conditions import Check, When
from day0.sandboxes.twin.world import Fault
from day0.tools.survey import survey

from tests.twin.node.conftest import RULES, SHORT, bench_of  # noqa: F401 (a fixture)

RUNNER = {"moe-runner-backend": "triton"}


def lease_on(bench, number=1):
    where = target("mi355x-twin").model_copy(update={"measure": RULES})
    inputs = ClimbInputs(
        target=where, workloads=(SHORT,), engine=bench.engine, engine_facts=bench.facts,
        model_facts=survey(bench.model, model="m", revision="r"), model_folder=str(bench.model),
        environments=twin.environments(bench.world), seed=1, noise=0.0,
    )  # fmt: skip
    return Lease(bench.node, "r1.1", 0, bench.candidate(RUNNER), inputs, number)


@pytest.mark.parametrize(
    ("kind", "failure", "log"),
    [("crash", "memory_fault", "Memory access fault by GPU node-3"), ("hang", "hang_deadlock", "")],
)
def test_s31_a_server_that_is_killed_or_stalls_in_a_point_leaves_the_others_valid(bench_of, kind, failure, log):  # noqa: F811
    when = When(flags={k: Check(equals=v) for k, v in RUNNER.items()}, running=7)
    bench = bench_of(faults=(Fault(name="at load", kind=kind, when=when, log=(log,) if log else ()),))
    lease, facts = lease_on(bench), []
    lease.begin()
    with pytest.raises(CandidateFailed) as failed, lease.open() as booted:
        for rate in (0.5, 1.0, 8.0):
            # the last one is long enough for a silence to be noticed within it
            rules = RULES.model_copy(update={"point_s": 400.0}) if rate > 2 else RULES
            for fact in booted.point(SHORT, Rung.MEASURE, rate, 1, f"at-{rate}", rules=rules):
                facts.append(fact)
    assert failed.value.failure == failure
    points = [f.point for f in facts if isinstance(f, PointMeasured)]
    assert [(p.rate_rps, p.void is None, p.meets_slo) for p in points] == [
        (0.5, True, True),
        (1.0, True, True),
        (8.0, False, False),
    ]
    assert points[2].void.startswith("cut: "), "what was seen of it is kept, and counts for nothing"
    assert [f.name for f in facts if isinstance(f, ArtifactKept)] == [
        f"measure-short-at-{rate}.json" for rate in (0.5, 1.0, 8.0)
    ]
    again = lease_on(bench, 2)
    with again.open() as booted:
        later = [f.point for f in booted.point(SHORT, Rung.MEASURE, 0.5, 1, "after") if isinstance(f, PointMeasured)]
    assert later[0].void is None and later[0].meets_slo, "and the node serves the next boot as if nothing had been"
