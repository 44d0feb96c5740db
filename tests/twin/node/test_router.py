"""Separate servers behind the router, on the simulated node: the same command lines, priming and counters."""

from __future__ import annotations

import pytest
from day0.runs.errors import Refused
from day0.sandboxes.twin.replica import ServerSpec
from day0.sandboxes.twin.routing import Router
from day0.sandboxes.twin.simulate import Load
from day0.sandboxes.twin.world import world
from day0.tools.loadplan import open_loop
from day0.tools.summary import summarise

from tests.twin.node.conftest import RULES, SHORT
from tests.twin.node.test_traces import COSTS

ROUTER = {"router-policy": "cache_aware"}


@pytest.fixture
def routed(bench_of):
    """A node whose engine image has the router."""
    builds = tuple(
        b.model_copy(update={"packages": {"sglang-router": "0.3.2"}}) for b in world("glm-5.2").mended().builds
    )
    return bench_of(builds=builds)


def test_a_build_without_the_router_has_no_such_flag(bench):
    with pytest.raises(Refused, match="no flag --router-policy"), bench.serving(ROUTER):
        pass


def test_s45_priming_reaches_every_server_behind_the_router_and_each_ones_counter_shows_it(routed):
    assert routed.facts.flag("router-policy").choices[2] == "cache_aware"
    with routed.serving(ROUTER) as (server, harness):
        assert server.argv[2] == "sglang_router.launch_server"
        assert server.argv[server.argv.index("--router-dp-worker-base-port") + 1] == str(server.port + 1)
        assert server.http.get("/server_info").status_code == server.http.get("/metrics").status_code == 404
        assert server.facts.replicas == 2 and len(server.facts.workers) == 2 and not server.facts.differs
        plan = open_loop(SHORT, RULES, rate_rps=1.0, seed=1, content_seed=2, replicas=2)
        raw = harness.run(plan, server)
    point = summarise(plan, raw, RULES)
    assert point.void is None and point.meets_slo and point.cached_share == pytest.approx(0.5, abs=0.01)
    assert len(raw.primed) == 2 and all(found >= SHORT.prefixes * 2000 for found in raw.primed)


def test_a_prefix_stays_where_it_was_sent_while_loads_are_alike_and_moves_when_they_are_not():
    server = ServerSpec(replicas=2, cap=64, chunk=8192, kv_tokens=100_000, costs=COSTS, routing="cache_aware")
    order = (0, 1, 2, 0, 1, 2, 0, 1, 2)
    router = Router(server, Load(1000, 10, 800, 3, order), None)
    went = [router.pick([3, 3], number) for number in range(9)]
    assert went[3:6] == went[6:9] == went[:3] and set(went) == {0, 1}
    assert router.pick([200, 3], 0) == 1, "far too uneven"


def test_where_caches_are_small_a_router_that_knows_prefixes_finds_more_than_turns_do(routed):
    many = SHORT.model_copy(update={"prefixes": 16, "input_tokens": 6000, "cached_share": 0.9})
    small = {"tp-size": 4, "dp-size": 2, "max-total-tokens": 70_000}
    found = []
    for flags in (small, {**small, **ROUTER}):
        with routed.serving(flags) as (server, harness):
            plan = open_loop(many, RULES, rate_rps=2.0, seed=1, content_seed=2, replicas=2)
            raw = harness.run(plan, server)
        kept = raw.requests.cached_tokens[raw.requests.ok]
        found.append(float(kept.sum() / raw.requests.prompt[raw.requests.ok].sum()))
    assert found[1] > found[0] + 0.1, found
