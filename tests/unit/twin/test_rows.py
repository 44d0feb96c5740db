"""What the client sees is what the scheduler did, to the token; and what ends early is told as a client tells it."""

from __future__ import annotations

import json
from itertools import pairwise
from math import inf

import pytest
from day0.sandboxes.twin.activity import Activity
from day0.sandboxes.twin.rows import Cut, requests_json
from day0.sandboxes.twin.simulate import Load, Noise, play
from day0.tools.rawpoint import Row

from tests.unit.twin.test_simulate import load, server

FREE = Cut(1e6, inf)


def rows(point, cut=FREE, planned=True) -> list[Row]:
    return [Row.model_validate(r) for r in json.loads(requests_json(point, cut, planned=planned))]


@pytest.mark.parametrize("accept", [1.0, 2.5, 3.7])
def test_every_token_has_its_time(accept):
    point = play(server(accept=accept, replicas=2), load(60, 5.0), Noise(1.0, 0.1, 1))
    for number, row in enumerate(rows(point)):
        r = point.requests
        assert row.ok and len(row.itl_ms) + 1 == row.output_tokens == 100
        assert row.ttft_ms == pytest.approx(1e3 * (r.first[number] - r.arrive[number]), abs=0.01)
        assert row.latency_ms == pytest.approx(1e3 * (r.finish[number] - r.arrive[number]), abs=0.01)
        assert row.ttft_ms + sum(row.itl_ms) == pytest.approx(row.latency_ms, abs=0.2)
        assert row.tokens_within(-inf, inf) == 100


def test_what_ended_before_the_window_is_served_too():
    offered = load(30, 5.0)
    early = Load(**{**offered.__dict__, "arrivals": tuple(t - 100.0 for t in offered.arrivals), "begin": -100.0})
    point = play(server(), early, Noise())
    seen = rows(point)
    assert all(r.ok and r.ended_s < 0 and r.output_tokens == 100 for r in seen)
    assert Activity(point, zero=0.0).totals(0.0).finished == 30


def test_a_gap_holds_the_prefill_that_ran_in_between():
    alone = play(server(), Load(1000, 51, 0, 1, (0,), (0.0,)), Noise())
    middle = (alone.requests.first[0] + alone.requests.finish[0]) / 2
    both = play(server(), Load(1000, 51, 0, 1, (0, 0), (0.0, middle)), Noise())
    longest = [max(rows(p)[0].itl_ms) for p in (alone, both)]
    assert longest[1] > longest[0] * 1.5


def test_the_plan_ends_requests_and_a_client_has_only_so_much_patience():
    point = play(server(), load(40, 5.0), Noise())
    cut = rows(point, Cut(1e6, 4.0))
    assert 0 < len(cut) < 40 and {r.error for r in cut} == {"", "cut"}
    for row in (r for r in cut if r.error and r.ttft_ms):
        assert row.output_tokens == len(row.itl_ms) + 1 < 100 and row.ended_s <= 4.001
    impatient = rows(point, Cut(0.5, inf))
    assert all("deadline" in r.error for r in impatient)


def test_a_death_of_the_server_breaks_what_ran_and_refuses_the_rest():
    died = rows(play(server(), load(40, 5.0), Noise()), Cut(1e6, inf, died_s=3.0))
    assert {r.error.split(":")[0] for r in died} == {"", "ClientPayloadError", "ClientConnectorError"}
    assert all(r.ended_s <= 3.001 or r.sent >= 3.0 for r in died)


def test_a_prompt_that_never_fits_is_an_error():
    (row,) = rows(play(server(kv_tokens=500), Load(1000, 51, 0, 1, (0,), (0.0,)), Noise()))
    assert not row.ok and "KV cache" in row.error


def test_counters_grow_to_what_was_served_and_stop_when_told():
    point = play(server(replicas=2), load(60, 5.0), Noise())
    busy = Activity(point, zero=1000.0)
    seen = [busy.totals(1000.0 + 0.1 * n) for n in range(400)]
    assert all(a.generated <= b.generated + 1e-6 and a.prompt <= b.prompt for a, b in pairwise(seen))
    end = busy.totals(1e6)
    assert (end.finished, end.prompt) == (60, 60 * 2000) and end.generated == pytest.approx(60 * 100, rel=1e-6)
    assert end.cached == sum(point.requests.cached)
    busy.stop = 1005.0
    assert busy.totals(1e6).finished < 60 and busy.state(1006.0) == (0, 0, 0.0)
