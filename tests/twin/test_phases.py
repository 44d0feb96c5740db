"""What a boot is loaded with, phase by phase: the plans that reach the load generator of a simulated node."""

from __future__ import annotations

from dataclasses import replace

import pytest
from day0.agent import climb, confirm
from day0.agent.loads import content_seed
from day0.runs.facts import BootStarted, Knee, PairMeasured, PointMeasured, Rung
from day0.runs.schema import Attempt, AttemptStatus

from tests.twin.node.conftest import SHORT, bench_of  # noqa: F401 (a fixture)
from tests.twin.test_mid_point import RUNNER, lease_on


def loaded(lease):
    """(plans in their order, facts) of one boot that is measured, and screened first where there is a knee to beat."""
    plans, facts = [], []
    with lease.open() as booted:
        run = booted.harness.run

        def noted(plan, *more, **named):
            plans.append(plan)
            return run(plan, *more, **named)

        booted.harness.run = noted
        if lease.inputs.incumbent:
            facts += climb.screen(booted, lease.inputs)
        facts += climb.measure(booted, lease.inputs)
    return plans, facts


def knee_at(rate):
    return Knee(workload=SHORT.name, rate_rps=rate, goodput_tok_s=1.0, passed_rps=rate, failed_rps=None)


def with_incumbent(lease, rate=0.5):
    knee = knee_at(rate)
    lease.inputs = replace(lease.inputs, incumbent={SHORT.name: knee})
    return lease


@pytest.mark.parametrize("screened", [False, True])
def test_s33_a_boot_is_warmed_in_the_workloads_own_shapes_before_any_point_counts(bench_of, screened):  # noqa: F811
    lease = lease_on(bench_of())
    plans, facts = loaded(with_incumbent(lease) if screened else lease)
    first, *rest = plans
    assert first.warmup and first.rate_rps is None and first.concurrency > 1
    assert first.workload == SHORT, "its lengths, its prefixes: the shapes that the timed window will have"
    assert len(rest) > 2 and not any(plan.warmup for plan in rest), "one boot is warmed once"
    counted = [f.point for f in facts if isinstance(f, PointMeasured)]
    assert counted and not any(point.warmup for point in counted)


def test_s38_every_phase_of_every_boot_has_contents_of_its_own_on_shared_arrivals(bench_of):  # noqa: F811
    bench = bench_of()
    boots = [with_incumbent(lease_on(bench, number)) for number in (1, 2)]
    for number, lease in enumerate(boots, 1):
        lease.repeat = number
    first, second = (loaded(lease)[0] for lease in boots)
    seeds = [plan.content_seed for plan in (*first, *second)]
    assert len(set(seeds)) == len(seeds), "a prompt is never met twice"
    assert [p.seed for p in first if p.rate_rps] == [p.seed for p in second if p.rate_rps], "what arms share"


def test_s38_contents_hang_on_everything_that_tells_two_phases_apart(bench_of):  # noqa: F811
    lease = lease_on(bench_of())
    mine, other = lease.candidate, lease.candidate.model_copy(update={"flags": {"tp-size": 4}})
    base = content_seed(1, mine, 0, SHORT, Rung.MEASURE, "0")
    changed = [
        content_seed(2, mine, 0, SHORT, Rung.MEASURE, "0"),
        content_seed(1, other, 0, SHORT, Rung.MEASURE, "0"),
        content_seed(1, mine, 1, SHORT, Rung.MEASURE, "0"),
        content_seed(1, mine, 0, SHORT.model_copy(update={"name": "x"}), Rung.MEASURE, "0"),
        content_seed(1, mine, 0, SHORT, Rung.CONFIRM, "0"),
        content_seed(1, mine, 0, SHORT, Rung.MEASURE, "1"),
    ]
    assert len({base, *changed}) == 1 + len(changed)
    assert base == content_seed(1, mine, 0, SHORT, Rung.MEASURE, "0"), "the same in every repetition of a run"


def test_s36_what_no_such_accelerators_can_do_counts_for_nothing_in_a_boot(bench_of):  # noqa: F811
    """The checkpoint is said to be five thousand times as deep as what this node really answers with."""
    lease = lease_on(bench_of())
    facts = lease.inputs.model_facts
    lease.inputs = replace(lease.inputs, model_facts=facts.model_copy(update={"layers": 5000 * facts.layers}))
    with lease.open() as booted:
        told = [f.point for f in booted.point(SHORT, Rung.MEASURE, 1.0, 1, "0") if isinstance(f, PointMeasured)]
    assert told[0].void is not None and told[0].void.startswith("roofline: ") and not told[0].meets_slo


def test_s40_arms_of_a_pair_boot_in_alternating_order_and_meet_the_same_arrivals(bench_of):  # noqa: F811
    bench = bench_of()
    inputs, arms = lease_on(bench).inputs, {}
    for name, flags in (("incumbent", {}), ("challenger", RUNNER)):
        arms[name] = Attempt(
            id=f"r1.{len(arms) + 1}", run="r1", number=len(arms) + 1, candidate=bench.candidate(flags),
            status=AttemptStatus.KEPT, proposer="playbook", knees=((1, Rung.MEASURE, knee_at(0.5)),),
        )  # fmt: skip
    orders, seeds = [], []
    for number in (1, 2):
        facts = list(confirm.pair(bench.node, **arms, number=number, workload=SHORT, inputs=inputs))
        booted = ["challenger" if "triton" in f.argv else "incumbent" for f in facts if isinstance(f, BootStarted)]
        first = {f.boot: f.point.seed for f in reversed(facts) if isinstance(f, PointMeasured)}
        orders.append(booted)
        seeds.append(set(first.values()))
        (pair,) = [f.pair for f in facts if isinstance(f, PairMeasured)]
        assert pair.first == booted[0]
    assert orders == [["incumbent", "challenger"], ["challenger", "incumbent"]]
    assert [len(s) for s in seeds] == [1, 1] and seeds[0] != seeds[1], "shared within a pair, new in the next"
