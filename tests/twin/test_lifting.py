"""S47 on the simulated node: each cause of a plateau planted, named by the boot's own points, and its lift proposed."""

from __future__ import annotations

from day0.agent.policy.axes import offers, site_of
from day0.agent.policy.lifting import lifts
from day0.agent.policy.playbook import Playbook
from day0.agent.policy.trials import standing
from day0.runs.findings import Explained
from day0.runs.workload import Slo
from day0.tools.explain import explain
from day0.tools.loadplan import closed_loop, open_loop
from day0.tools.summary import capacity_rps, summarise

from tests.twin.node.conftest import RULES, SHORT, bench_of  # noqa: F401 (a fixture)
from tests.unit.policy.conftest import GLM, MI355X, Node

LONG = SHORT.model_copy(update={"input_tokens": 16_000, "output_tokens": 16, "prefixes": 1, "cached_share": 0.0})
PLAIN = SHORT.model_copy(update={"prefixes": 1, "cached_share": 0.0})


def points_of(bench, work, flags, rates, most=None):
    """Points of one boot at rates in units of `most`: what it delivers at saturation; and what the server resolved."""
    with bench.serving(flags) as (server, harness):
        probe = closed_loop(work, RULES, concurrency=64, content_seed=1, replicas=server.facts.replicas)
        most = most or capacity_rps(summarise(probe, harness.run(probe, server), RULES), work.output_tokens)
        out = []
        for number, share in enumerate(rates):
            plan = open_loop(
                work, RULES, rate_rps=share * most, seed=3, content_seed=10 + number, replicas=server.facts.replicas
            )
            out.append(summarise(plan, harness.run(plan, server), RULES))
        return out, server.facts


def proposed(found, boot):
    """What the playbook proposes on a leader that is held back so, best first, each as its axis and flags."""
    node = Node(lambda candidate: 2.0, target=MI355X, model=GLM)
    told = Explained(boot=1, workload=node.work.name, found=found)
    leader = node.attempts[0].model_copy(update={"explained": (told,)})
    view = node.view(attempts=(leader,), boots={leader.id: boot})
    actions = Playbook(batch=200).decide(view).actions
    now = standing(view, offers(site_of(view)))
    offered = [(i.axis, dict(i.option.flags)) for i in lifts(now, offers(site_of(view)))]
    return [(a.axis, dict(a.flags)) for a in actions], offered


def lifted(found, boot):
    """The flags of the first diagnosis are among what is proposed."""
    flags = dict(found[0].flags)
    actions, offered = proposed(found, boot)
    assert flags and flags in [f for _, f in offered], (found, offered)
    assert any(flags.items() <= f.items() for _, f in actions), (flags, actions)
    return flags


def test_a_kv_cap_is_named_and_more_memory_lifts_it(bench_of):  # noqa: F811
    work = PLAIN.model_copy(update={"slo": Slo(ttft_ms=1500.0), "output_tokens": 400})
    tight = {"tp-size": 4, "dp-size": 1, "mem-fraction-static": TIGHT}
    points, boot = points_of(bench_of(), work, tight, (0.4, 2.0))
    found = explain(points, boot, work)
    assert found[0].name == "kv cap", (found, boot.kv_tokens)
    flags = lifted(found, boot)
    more, roomy = points_of(bench_of(), work, {**tight, **flags}, (1.0,), most=points[1].rate_rps)
    assert roomy.kv_tokens > boot.kv_tokens and more[0].running_max > points[1].running_max


def test_bunches_of_arrivals_are_queueing_and_replicas_or_routing_are_proposed(bench_of):  # noqa: F811
    shape = PLAIN.model_copy(update={"input_tokens": 12_000, "output_tokens": 64})
    points, boot = points_of(bench_of(), shape, {"tp-size": 8, "dp-size": 1}, (0.5,), most=1.0)
    ttft = points[0].ttft_ms
    assert ttft.p50 < 0.5 * 0.95 * ttft.p95, ttft
    work = shape.model_copy(update={"slo": Slo(ttft_ms=0.95 * ttft.p95)})
    missed = points[0].model_copy(update={"meets_slo": False})
    found = explain([missed], boot, work)
    assert found[0].name == "queueing", (found, points[0])
    actions, offered = proposed(found, boot)
    assert {"topology", "routing"} & {axis for axis, _ in offered} and "topology" in {
        part for axis, _ in actions for part in axis.split("+")
    }


def test_long_prompts_are_prefill_bound_and_larger_chunks_are_proposed(bench_of):  # noqa: F811
    work = LONG.model_copy(update={"slo": Slo(ttft_ms=2000.0)})
    points, boot = points_of(bench_of(), work, {"chunked-prefill-size": 4096}, (1.0, 8.0), most=1.0)
    found = explain(points, boot, work)
    assert found[0].name == "prefill-bound", (found, points)
    assert lifted(found, boot) == {"chunked-prefill-size": 8192}


def test_slow_steps_are_decode_bound_and_speculation_is_proposed(bench_of):  # noqa: F811
    work = PLAIN.model_copy(update={"slo": Slo(tpot_ms=8.0)})
    points, boot = points_of(bench_of(), work, {}, (0.3, 0.8))
    found = explain(points, boot, work)
    assert found[0].name == "decode-bound" and "speculation" in found[0].experiment, (found, points)
    actions, offered = proposed(found, boot)
    assert "speculation" in {axis for axis, _ in offered}
    assert any("speculation" in axis.split("+") for axis, _ in actions[:3])


def test_s41_a_slow_load_generator_is_named_and_nothing_is_changed_for_it(bench_of):  # noqa: F811
    world = bench_of().world
    bench = bench_of(node=world.node.model_copy(update={"client_time": 40.0}))
    work = PLAIN.model_copy(update={"slo": Slo(ttft_ms=9000.0)})
    points, boot = points_of(bench, work, {}, (0.6,))
    (found, *_) = explain(points, boot, work)
    assert found.name == "load generator" and points[0].void.startswith("harness: "), (found, points)
    assert "cores" in found.experiment and not proposed((found,), boot)[1], "it is the operator's to lift"


def test_a_cliff_is_named_and_fewer_requests_at_once_are_proposed(bench_of):  # noqa: F811
    """The simulated scheduler levels off and never falls, so a fallen point stands beside the measured ones."""
    points, boot = points_of(bench_of(), PLAIN, {"tp-size": 8, "dp-size": 1}, (0.3, 0.6))
    fallen = {"rate_rps": 2 * points[1].rate_rps, "meets_slo": False}
    fallen |= {name: 0.4 * getattr(points[1], name) for name in ("output_tok_s", "total_tok_s")}
    found = explain([*points, points[1].model_copy(update=fallen)], boot, PLAIN)
    assert found[0].name == "cliff"
    assert lifted(found, boot) == {"max-running-requests": int(points[1].running_max)}


TIGHT = 0.42
