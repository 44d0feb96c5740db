"""A point that is lost is ended early, and is a miss: never void, never a pass."""

from __future__ import annotations

import pytest
from day0.tools.columns import of_rows
from day0.tools.engines.base import Counters
from day0.tools.hopeless import Hopeless
from day0.tools.knee import KneeSearch
from day0.tools.loadplan import arrivals, closed_loop
from day0.tools.summary import summarise

from tests.unit.bench.points import RULES, WORK, plan, raw, row
from tests.unit.bench.test_bench import Server, loadgen, opened

NOTHING = {"itl_ms": (), "output_tokens": 0, "cached_tokens": None, "ok": False, "error": "cut"}
OVER = plan(6.0)
"""6 requests/s for 20 s after 7.5 s; a p95 TTFT of 1.5 s: 2 x 6 x 1.5 + 0.05 x 120 = 24 may wait"""


def first_word(of, queue, every=0.5, until=27.5) -> tuple[float, str]:
    """When it is said, and what; `queue` by seconds of load."""
    watch, at = Hopeless(of), 0.0
    while at < until:
        queued = queue(at)
        if why := watch.after(at + 100.0, Counters(running=6.0, queued=queued)):
            return at, why
        at += every
    return at, ""


def test_a_queue_that_grows_beyond_rescue_ends_the_point():
    at, why = first_word(OVER, lambda t: 3.0 * t)
    assert 12.5 <= at < 14 and why == "stopped after 12 s of load: 38 requests waited, and ever more"


@pytest.mark.parametrize(
    "queue",
    [
        lambda t: 0.8 * t,  # too long, but nobody knows that it can't be worked off
        lambda t: 200.0,  # does not grow: an admission cap with a backlog from before
        lambda t: max(0.0, 100.0 - 6 * t),  # is worked off
        lambda t: 80.0 if 4 < t < 10 else 0.0,  # a burst
        lambda t: None,  # not said
    ],
    ids=["slow growth", "flat", "shrinks", "burst", "unknown"],
)
def test_what_may_still_pass_is_not_ended(queue):
    assert first_word(OVER, queue)[1] == ""


def test_priming_and_closed_loops_are_not_load():
    watch = Hopeless(OVER.model_copy(update={"replicas": 4}))
    assert all(watch.after(float(t), Counters(running=4.0, queued=0.0)) == "" for t in range(100))
    assert watch.began is None
    closed = closed_loop(WORK, RULES, concurrency=64, content_seed=1)
    assert first_word(closed, lambda t: 50.0 * t)[1] == ""


def test_without_a_ttft_limit_half_of_the_window_must_wait():
    of = OVER.model_copy(
        update={"workload": WORK.model_copy(update={"slo": WORK.slo.model_copy(update={"ttft_ms": None})})}
    )
    assert first_word(of, lambda t: 3.0 * t)[0] > 20 and first_word(of, lambda t: 2.0 * t)[1] == ""


def lost():
    """The load generator's result of a server that serves 2 of 6 a second and was given up after 10 s."""
    rows, free = [], -OVER.lead_s
    for at in arrivals(OVER):
        if at > 10:
            break
        start = free = max(at, free + 0.5)
        wait = 1e3 * (start - at) + 200
        if start > 8:
            rows.append(row(at, ttft=0.0).model_copy(update=NOTHING | {"latency_ms": 1e3 * (10 - at)}))
        else:
            rows.append(row(at, ttft=wait))
    return raw(OVER, rows, stopped="stopped after 17 s of load: 60 requests waited, and ever more", ended_s=10.0)


def test_a_point_that_was_ended_early_is_a_miss_and_says_so():
    point = summarise(OVER, lost(), RULES)
    assert point.void is None and not point.meets_slo and not point.steady
    assert point.misses[0].startswith("stopped after 17 s of load") and "p95 TTFT" in point.misses[1]
    assert point.window_s == 10.0 and point.offered == pytest.approx(60, abs=12) and point.completed < point.offered
    assert point.ttft_ms.p95 > 9e3, "whoever still waits counts with what they waited"
    assert point.output_tok_s == pytest.approx(2 * WORK.output_tokens, rel=0.3), "over the time that it ran"


def test_a_search_goes_on_below_a_point_that_was_ended_early():
    search = KneeSearch(6.0, RULES, WORK)
    search.add(summarise(OVER, lost(), RULES))
    rate, number = search.next()
    assert number == 1 and 1.0 < rate < 5.0
    assert search.bracket()[1].rate == 6.0


def test_ended_before_its_window_it_does_not_count():
    early = raw(OVER, [], stopped="stopped after 8 s of load", ended_s=-1.0)
    assert summarise(OVER, early, RULES).void == "cut: stopped after 8 s of load"


def test_nothing_completed_is_a_miss_too():
    rows = [
        row(t, ttft=0.0, ok=False, error="cut").model_copy(update=NOTHING | {"latency_ms": 1e4 - 1e3 * t})
        for t in arrivals(OVER)
        if t < 10
    ]
    point = summarise(OVER, raw(OVER, rows, stopped="stopped", ended_s=10.0), RULES)
    assert point.void is None and not point.meets_slo and point.tpot_ms is None


def test_the_load_generator_is_told_to_end_such_a_point():
    with opened(loadgen(after_s=1000, ended_s=9.0)) as (harness, node):
        server = Server(node.clock)
        server.engine.counters = lambda http: Counters(running=4.0, queued=max(0.0, 5 * (node.clock.t - 2)))
        server.engine.counters(None)
        harness._idle = lambda server: None
        told = harness.run(OVER, server)
    assert told.stopped.startswith("stopped after") and told.cut == ""
    assert [p for p in node.box.files if p.startswith("cancel-")] == ["cancel-1"]
    assert node.clock.t < OVER.lead_s + OVER.window_s
    assert of_rows([]).count == 0
