"""Priming on every replica, as the server itself tells of it (S45)."""

from __future__ import annotations

import asyncio

import pytest
from day0.tools.fidelity import unprimed
from day0.tools.loadplan import arrivals, document, prefix_tokens
from day0.tools.loadplan import primes as rounds
from day0.tools.rawpoint import Prime
from day0.tools.summary import summarise

from tests.unit.bench.points import RULES, WORK, plan, raw, row
from tests.unit.bench.test_loadgen import PLAN, at_once, loadgen, point  # noqa: F401 (a fixture)

TWO = plan(replicas=2)
SHARED = prefix_tokens(WORK)
WHOLE = tuple(Prime(prefix=p, replica=r, rank=r, cached_tokens=SHARED) for p in range(4) for r in (0, 1))
COLD = [row(t, cached_tokens=0) for t in arrivals(TWO)]


def void(primes=WHOLE, **changes):
    return summarise(TWO, raw(TWO, COLD, primes=primes, **changes), RULES).void


def test_s45_evictions_after_a_priming_that_took_are_the_candidates_own():
    assert void() is None
    assert void(primed=(4.0 * SHARED, 5.0 * SHARED)) is None


def test_s45_a_replica_that_priming_did_not_reach_voids_and_is_named():
    missed = tuple(p.model_copy(update={"cached_tokens": 0}) if p.replica == 1 else p for p in WHOLE)
    want = "cache: 0% of the input came from the cache instead of 75%, and priming did not take: 4 of 4 prefixes on"
    assert void(missed) == f"{want} replica 1"
    one = tuple(p.model_copy(update={"cached_tokens": None}) if (p.prefix, p.replica) == (2, 0) else p for p in WHOLE)
    assert void(one).endswith("1 of 4 prefixes on replica 0")


def test_s45_a_server_that_sends_priming_elsewhere_is_noticed():
    elsewhere = tuple(p.model_copy(update={"rank": 0}) for p in WHOLE)
    assert void(elsewhere).endswith("4 of 4 prefixes on replica 1")


def test_s45_a_replicas_own_counter_is_asked_too():
    silent = tuple(p.model_copy(update={"rank": None}) for p in WHOLE)
    assert void(silent, primed=(8.0 * SHARED, 0.0)).endswith("4 of 4 prefixes on replica 1")
    assert unprimed(TWO, raw(TWO, primes=silent)) == "", "a server without such a counter"


def test_priming_asks_each_replica_by_its_number_all_at_once():
    told = document(TWO, 1, base_url="http://h", tokenizer="m", corpus="c", corpus_chars=200_000)["primes"]
    assert [(p, r) for p, _, r in told] == [(p, r) for p in range(4) for _ in range(2) for r in (0, 1)]
    assert len({place for _, place, _ in told}) == 16 and rounds(TWO) == 8


def test_the_load_generator_sends_priming_where_it_belongs(loadgen):  # noqa: F811
    told = [[0, 50, 0], [0, 60, 1], [0, 70, 0], [0, 80, 1]]
    one, asked = point(loadgen, at_once, PLAN | {"primes": told})
    result = asyncio.run(one.run())
    bodies = [i.extra_request_body for i in asked]
    assert [b.get("routed_dp_rank") for b in bodies] == [0, 1, 0, 1, None, None]
    assert [b.get("data_parallel_rank") for b in bodies[:4]] == [0, 1, 0, 1]
    assert [(p["prefix"], p["replica"]) for p in result["primes"]] == [(0, 0), (0, 1), (0, 0), (0, 1)]


def test_s31_one_stream_that_never_ends_costs_only_itself(loadgen):  # noqa: F811
    async def answers(number: int) -> None:
        if number == 5:
            await asyncio.sleep(60)

    one, _ = point(loadgen, answers, PLAN | {"request_deadline_s": 0.15, "drain_s": 5.0})
    told = asyncio.run(one.run())
    assert not told["early"] and sorted(r["error"][:9] for r in told["requests"]) == ["", "deadline:"]
    again, _ = point(loadgen, at_once)
    assert all(r["ok"] for r in asyncio.run(again.run())["requests"]), "other points go on"


@pytest.mark.parametrize("good", [1648, 2990])
def test_s32_a_point_of_which_too_many_requests_failed_is_void(good):
    of = plan(150.0)
    rows = [
        row(t, ok=i < good, error="" if i < good else "HTTP 500")
        for i, t in enumerate(sorted(arrivals(of), key=lambda t: t < 0))
    ]
    seen = summarise(of, raw(of, rows), RULES)
    assert of.offered == 3000
    assert (seen.void or "").startswith("failures: 1648 of 3000 requests succeeded") == (good == 1648)
