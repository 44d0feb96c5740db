"""What the client sees is what the scheduler did, to the token; and what ends early is told as a client tells it."""

from __future__ import annotations

import json
from itertools import pairwise
from math import inf

import numpy as np
import pytest
from day0.sandboxes.twin.activity import Activity
from day0.sandboxes.twin.rows import Cut, requests_json
from day0.sandboxes.twin.simulate import Load, Noise, play
from day0.tools.columns import Columns, read

from tests.twin.node.test_simulate import load, server

FREE = Cut(1e6, inf)


def seen(point, cut=FREE, planned=True, window_s=inf) -> Columns:
    return read(json.loads(requests_json(point, cut, window_s=window_s, planned=planned)))


def token_times(point, number) -> list[float]:
    """When each token of a request came, one step after the other; a step's tokens as spread over the step."""
    r = point.requests
    left, steps, last = r.outputs[number] - 1, r.steps[number], r.first[number]
    times, done = [last], 0
    for begin, stop, before, after in point.jumps[r.replica[number]]:
        if before < r.step[number] or done == steps:
            continue
        for step in range(after - before):
            end = begin + (step + 1) * (stop - begin) / (after - before)
            told, done = done * left // steps, done + 1
            count = done * left // steps - told
            times += [last + (n + 1) * (end - last) / count for n in range(count)]
            last = end
    return times


@pytest.mark.parametrize("accept", [1.0, 2.5, 3.7])
def test_every_token_has_its_time(accept):
    point = play(server(accept=accept, replicas=2), load(60, 5.0), Noise(1.0, 0.1, 1))
    r, told = point.requests, seen(point, window_s=5.0)
    assert told.ok.all() and set(told.output_tokens) == {100.0}
    streamed = np.bincount(told.owner, weights=told.itl_ms * told.times)
    assert list(np.bincount(told.owner, weights=told.times)) == [99.0] * 60
    for number in range(60):
        times = token_times(point, number)
        assert len(times) == 100 and times[-1] == pytest.approx(r.finish[number])
        assert told.ttft_ms[number] == pytest.approx(1e3 * (r.first[number] - r.arrive[number]), abs=0.01)
        assert told.latency_ms[number] == pytest.approx(1e3 * (r.finish[number] - r.arrive[number]), abs=0.01)
        assert told.ttft_ms[number] + streamed[number] == pytest.approx(told.latency_ms[number], abs=0.2)
        assert told.in_window[number] == pytest.approx(sum(0.0 <= t < 5.0 for t in times), abs=accept)


def test_steps_that_last_alike_are_one_length():
    point = play(server(replicas=2), load(60, 5.0), Noise())
    told = seen(point)
    gaps = sorted(1e3 * (b - a) for n in range(60) for a, b in pairwise(token_times(point, n)))
    ordered = np.sort(np.repeat(told.itl_ms, told.times))
    assert len(told.itl_ms) < 20 * 60 < len(gaps) == len(ordered)
    for share in (0.05, 0.5, 0.9):
        place = int(share * len(gaps))
        assert ordered[place] == pytest.approx(gaps[place], rel=0.1)
    assert sum(ordered) == pytest.approx(sum(gaps), rel=1e-4)


def test_what_ended_before_the_window_is_served_too():
    offered = load(30, 5.0)
    early = Load(**{**offered.__dict__, "arrivals": tuple(t - 100.0 for t in offered.arrivals), "begin": -100.0})
    point = play(server(), early, Noise())
    told = seen(point)
    assert told.ok.all() and (told.ended_s < 0).all() and set(told.output_tokens) == {100.0}
    assert told.in_window.sum() == 0
    assert Activity(point, zero=0.0).totals(0.0).finished == 30


def test_a_gap_holds_the_prefill_that_ran_in_between():
    alone = play(server(), Load(1000, 51, 0, 1, (0,), (0.0,)), Noise())
    middle = (alone.requests.first[0] + alone.requests.finish[0]) / 2
    both = play(server(), Load(1000, 51, 0, 1, (0, 0), (0.0, middle)), Noise())
    longest = [seen(p).itl_ms[seen(p).owner == 0].max() for p in (alone, both)]
    assert longest[1] > longest[0] * 1.5


def test_the_plan_ends_requests_and_a_client_has_only_so_much_patience():
    point = play(server(), load(40, 5.0), Noise())
    cut = seen(point, Cut(1e6, 4.0), window_s=4.0)
    assert 0 < cut.count < 40 and set(cut.errors) == {"", "cut"}
    broken = ~cut.ok & (cut.ttft_ms > 0)
    gaps = np.bincount(cut.owner, weights=cut.times, minlength=cut.count)
    assert (cut.output_tokens == gaps + 1)[broken].all() and (cut.output_tokens < 100)[broken].all()
    assert (cut.ended_s <= 4.001).all()
    for number in broken.nonzero()[0]:
        came = sum(t <= 4.0 for t in token_times(point, number))
        assert cut.output_tokens[number] == pytest.approx(came, abs=3) == pytest.approx(cut.in_window[number], abs=3)
    impatient = seen(point, Cut(0.5, inf))
    assert all("deadline" in e for e in impatient.errors)


def test_a_death_of_the_server_breaks_what_ran_and_refuses_the_rest():
    died = seen(play(server(), load(40, 5.0), Noise()), Cut(1e6, inf, died_s=3.0))
    assert {e.split(":")[0] for e in died.errors} == {"", "ClientPayloadError", "ClientConnectorError"}
    assert ((died.ended_s <= 3.001) | (died.sent >= 3.0)).all()


def test_a_prompt_that_never_fits_is_an_error():
    told = seen(play(server(kv_tokens=500), Load(1000, 51, 0, 1, (0,), (0.0,)), Noise()))
    assert not told.ok[0] and "KV cache" in told.errors[0]


def test_a_load_without_requests_has_columns_too():
    told = seen(play(server(), Load(1000, 51, 0, 1, (), ()), Noise()))
    assert told.count == 0 and told.in_window.sum() == 0


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
