"""Shared prefixes reach every replica of a simulated server, and its own counters show it."""

from __future__ import annotations

import pytest
from day0.tools.loadplan import open_loop
from day0.tools.summary import summarise

from tests.twin.node.conftest import RULES, SHORT


def at(rate: float, replicas: int, **changes):
    plan = open_loop(SHORT, RULES, rate_rps=rate, seed=1, content_seed=2, replicas=replicas)
    return plan.model_copy(update=changes)


@pytest.mark.parametrize("balance", ["round_robin", "total_tokens"])
def test_s45_every_replica_is_primed_whatever_balances_the_load(bench, balance):
    with bench.serving({"load-balance-method": balance}) as (server, harness):
        replicas = server.facts.replicas
        raw = harness.run(at(1.0, replicas), server)
    assert replicas == 2 and len(raw.primes) == 2 * 2 * SHORT.prefixes
    again = {(p.prefix, p.rank): p.cached_tokens for p in raw.primes}
    assert set(again.values()) == {2000} and {rank for _, rank in again} == {0, 1}
    assert len(raw.primed) == 2 and all(found >= SHORT.prefixes * 2000 for found in raw.primed)
    point = summarise(at(1.0, replicas), raw, RULES)
    assert point.void is None and point.cached_share == pytest.approx(0.5, abs=0.01)


def test_s45_hits_lost_by_a_priming_that_left_a_replica_out_void_the_point(bench):
    """By the server's own balancing, all of it goes to one replica: the first that is free."""
    alone = at(2.0, 1, workload=SHORT.model_copy(update={"prefixes": 16}))
    with bench.serving({"load-balance-method": "total_tokens"}) as (server, harness):
        raw = harness.run(alone, server)
    point = summarise(alone.model_copy(update={"replicas": 2}), raw, RULES)
    assert point.cached_share < 0.4
    assert point.void.endswith("priming did not take: 16 of 16 prefixes on replica 1")


def test_a_point_far_beyond_the_server_is_ended_early_and_is_a_miss(bench):
    slow = SHORT.model_copy(update={"slo": SHORT.slo.model_copy(update={"ttft_ms": 1000.0})})
    rules = RULES.model_copy(update={"point_s": 300.0})
    plan = open_loop(slow, rules, rate_rps=20.0, seed=1, content_seed=2, replicas=2)
    with bench.serving({"max-running-requests": 16}) as (server, harness):
        before = bench.node.clock.now()
        point = summarise(plan, harness.run(plan, server), rules)
        took = bench.node.clock.now() - before
        after = summarise(at(0.5, 2), harness.run(at(0.5, 2), server), RULES)
    assert point.void is None and not point.meets_slo and point.misses[0].startswith("stopped after")
    assert point.window_s < 150 and took < 100 + plan.lead_s + point.window_s, "prompts are cut, prefixes primed"
    assert after.meets_slo, "the next point goes on as if nothing had been"
