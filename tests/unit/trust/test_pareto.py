"""S48, S49, S50: fair comparisons: per accelerator held, at equal interactivity, and never faster but too late."""

from __future__ import annotations

from itertools import pairwise

import pytest
from day0.agent.drawing import Chart, Series, nice
from day0.runs.candidate import Candidate
from day0.runs.facts import LoadPoint, Percentiles
from day0.runs.workload import Slo
from day0.tools.pareto import Spot, at_interactivity, equal, frontier, spots
from day0.tools.summary import misses
from hypothesis import given
from hypothesis import strategies as st


def flat(value: float) -> Percentiles:
    return Percentiles(mean=value, p50=value, p95=value, p99=value)


def point(tok_s: float, tpot: float, ttft: float = 500.0, **more) -> LoadPoint:
    known = {
        "workload": "w", "rate_rps": 1.0, "seed": 0, "window_s": 60.0, "offered": 60, "completed": 60, "failed": 0,
        "output_tok_s": tok_s, "total_tok_s": tok_s, "ttft_ms": flat(ttft), "tpot_ms": flat(tpot),
        "success_share": 1.0, "steady": True, "meets_slo": True,
    }  # fmt: skip
    return LoadPoint(**{**known, **more})


def test_s48_more_throughput_with_six_times_the_latency_is_refused_by_the_slo():
    slo = Slo(ttft_ms=2000.0, tpot_ms=50.0)
    before, after = point(1000.0, 30.0, 900.0), point(1600.0, 180.0, 5400.0)
    assert after.output_tok_s > before.output_tok_s
    assert misses(slo, before.ttft_ms, before.tpot_ms, 1.0) == ()
    assert misses(slo, after.ttft_ms, after.tpot_ms, 1.0) == ("p95 TTFT 5400 ms > 2000 ms", "p50 TPOT 180 ms > 50 ms")


def test_s50_throughput_is_divided_by_accelerators_held_never_by_the_tensor_parallel_width():
    copies = Candidate(engine="sglang", build="b", model="m", revision="r", flags={"tp-size": 2, "dp-size": 4})
    assert copies.gpus_held == 8
    (spot,) = spots([point(2400.0, 25.0)], copies.gpus_held)
    assert (spot.held_tok_s, spot.user_tok_s) == (300.0, 40.0)
    grouped = copies.model_copy(update={"flags": {"tp-size": 8, "attn-dp-size": 4}})
    assert grouped.gpus_held == 8, "attention data parallelism adds none"
    (alone,) = spots([point(2400.0, 25.0)], 0)
    assert alone.held_tok_s == 2400.0, "a node without accelerators is one"


def test_s49_two_configurations_are_compared_at_the_same_interactivity():
    dense = spots([point(4000.0, 50.0), point(2000.0, 25.0)], 8)  # 20 and 40 tok/s per user
    light = spots([point(2400.0, 25.0), point(1200.0, 12.5)], 8)  # 40 and 80
    assert max(s.held_tok_s for s in dense) > max(s.held_tok_s for s in light), "which says nothing"
    same = equal(dense, light)
    assert same == (40.0, 250.0, 300.0)
    assert equal(dense, spots([point(100.0, 5.0)], 8)) is None, "their interactivities do not meet"
    assert equal(dense, ()) is None


def test_void_unsteady_and_warming_points_are_on_no_curve():
    bad = [point(9.0, 1.0, void="cut: x"), point(9.0, 1.0, steady=False), point(9.0, 1.0, warmup=True)]
    assert spots([*bad, point(8.0, 1.0, tpot_ms=None)], 1) == ()
    assert len(spots([point(8.0, 1.0, meets_slo=False)], 1)) == 1, "beyond a limit is still on the curve"


SPOTS = st.lists(st.builds(Spot, st.floats(1, 100), st.floats(1, 1000)), min_size=1, max_size=12)


@given(SPOTS)
def test_nothing_measured_beats_the_frontier_and_it_falls_with_interactivity(found):
    edge = frontier(found)
    assert edge and set(edge) <= set(found)
    for low, high in pairwise(edge):
        assert low.user_tok_s < high.user_tok_s and low.held_tok_s > high.held_tok_s
    for spot in found:
        assert any(e.user_tok_s >= spot.user_tok_s and e.held_tok_s >= spot.held_tok_s for e in edge)
    assert at_interactivity(found, edge[-1].user_tok_s + 1) is None
    for spot in edge:
        assert at_interactivity(found, spot.user_tok_s) == pytest.approx(spot.held_tok_s)


@given(st.floats(1e-6, 1e9))
def test_an_axis_ends_just_above_what_it_shows(value):
    assert value <= nice(value) <= 2.01 * value


def test_a_chart_is_a_picture_of_escaped_text_and_nothing_without_points():
    assert Chart("t", "x", "y", [Series("a", ())]).svg() == ""
    assert nice(0) == nice(-3) == 1.0
    drawn = Chart(
        "<b>&", "x", "y", [Series('"><script>', ((1.0, 2.0), (2.0, 900.0)), notes=("<i>",))], (5.0, "limit <5>")
    ).svg()
    assert "<script" not in drawn and "<b>" not in drawn and "<i>" not in drawn and "limit &lt;5&gt;" in drawn
    assert drawn.count("<circle") == 2 and drawn.count("<polyline") == 1
    from xml.dom.minidom import parseString

    parseString(drawn)
