from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from day0.tools.loadplan import arrivals, closed_loop
from day0.tools.rawpoint import Prime, Row, Sample
from day0.tools.summary import capacity_rps, percentiles, summarise
from day0.tools.trend import growth
from scipy import stats

_spec = importlib.util.spec_from_file_location("points", Path(__file__).parent / "points.py")
assert _spec and _spec.loader
points = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(points)
RULES, WORK, plan, raw, row = points.RULES, points.WORK, points.plan, points.raw, points.row


def test_a_healthy_point_passes_with_its_figures() -> None:
    of = plan()
    point = summarise(of, raw(of), RULES)
    assert point.meets_slo and point.steady and point.void is None and point.misses == ()
    assert (point.offered, point.completed, point.failed) == (80, 80, 0)
    assert point.ttft_ms and point.ttft_ms.p95 == pytest.approx(200)
    assert point.tpot_ms and point.tpot_ms.p50 == pytest.approx(20)
    assert point.cached_share == pytest.approx(0.75)
    assert point.short


def test_throughput_counts_what_was_delivered_within_the_window() -> None:
    of = plan()
    point = summarise(of, raw(of), RULES)
    # a steady 4/s of 64 tokens: the lead-in's tail comes in for what spills over the end
    assert point.output_tok_s == pytest.approx(4 * 64, rel=0.08)
    assert point.total_tok_s == pytest.approx(4 * (64 + 256), rel=0.08)
    assert point.uncached_tok_s == pytest.approx(4 * 64, rel=0.08)
    assert point.duty == pytest.approx(point.output_tok_s * 0.020)
    late = raw(of, [row(t, ttft=30_000.0) for t in arrivals(of)])
    assert summarise(of, late, RULES).output_tok_s == 0


def test_percentiles_are_linear_between_order_statistics() -> None:
    got = percentiles([1.0, 2.0, 3.0, 4.0])
    assert got is not None
    assert (got.p50, got.p95) == (2.5, pytest.approx(3.85))
    assert percentiles([]) is None


def test_s48_throughput_up_latency_up_is_refused_by_the_slo() -> None:
    of = plan()
    point = summarise(of, raw(of, [row(t, tpot=120.0) for t in arrivals(of)]), RULES)
    assert not point.meets_slo
    assert point.misses[0] == "p50 TPOT 120 ms > 60 ms"


def test_s32_too_many_failures_void_the_point() -> None:
    of = plan()
    rows = [row(t, ok=i % 2 == 0, error="HTTP 500") for i, t in enumerate(arrivals(of))]
    point = summarise(of, raw(of, rows), RULES)
    assert point.void is not None and point.void.startswith("failures: 40 of 80") and "HTTP 500" in point.void
    assert not point.meets_slo


def test_s31_requests_never_sent_or_finished_count_as_failed() -> None:
    of = plan()
    rows = [row(t) for t in arrivals(of)][:-30]
    point = summarise(of, raw(of, rows), RULES)
    assert point.failed == 30 and point.void is not None


def test_s33_a_compile_line_in_the_timed_window_voids_and_before_it_does_not() -> None:
    of = plan()
    warm = raw(of, samples=(Sample(at_s=-3.0, jit_lines=4), Sample(at_s=-0.1, jit_lines=2), Sample(at_s=5.0)))
    assert summarise(of, warm, RULES).void is None
    cold = raw(of, samples=(Sample(at_s=-3.0), Sample(at_s=5.0, jit_lines=1)))
    assert summarise(of, cold, RULES).void == "compile: 1 compile lines within the timed window"


def test_s45_other_lengths_void() -> None:
    of = plan()
    short = raw(of, [row(t, output_tokens=16) for t in arrivals(of)])
    assert "lengths: 16.0 output tokens" in (summarise(of, short, RULES).void or "")
    long = raw(of, [row(t, prompt_tokens=1024) for t in arrivals(of)])
    assert "lengths: 1024.0 input tokens" in (summarise(of, long, RULES).void or "")


def test_s45_cache_share_wrong_by_set_up_voids_by_eviction_does_not() -> None:
    of = plan()
    cold = [row(t, cached_tokens=0) for t in arrivals(of)]
    unprimed = tuple(Prime(prefix=p, cached_tokens=0) for p in range(4))
    assert "priming did not take" in (summarise(of, raw(of, cold, primes=unprimed), RULES).void or "")
    assert summarise(of, raw(of, cold), RULES).void is None  # primed, then evicted: the candidate's own
    assert summarise(of, raw(of, cold, primes=unprimed, cache_on=False), RULES).void is None  # it asked for no cache
    hot = [row(t, cached_tokens=255) for t in arrivals(of)]
    assert "came from the cache" in (summarise(of, raw(of, hot), RULES).void or "")


def test_s41_a_load_generator_at_its_limit_is_flagged() -> None:
    of = plan()
    assert "load generator used 97%" in (summarise(of, raw(of, cpu_share=0.97), RULES).void or "")
    late = [row(t, late=0.4) for t in arrivals(of)]
    assert "sent 400 ms late" in (summarise(of, raw(of, late), RULES).void or "")


def test_growing_latency_is_not_steady() -> None:
    of = plan()
    rows = [row(t, ttft=200.0 + 60.0 * max(0.0, t)) for t in arrivals(of)]
    point = summarise(of, raw(of, rows), RULES)
    assert not point.steady and not point.meets_slo
    assert any("TTFT grew" in m for m in point.misses)


def test_a_growing_queue_is_not_steady() -> None:
    of = plan()
    samples = tuple(Sample(at_s=float(t), queued=float(t)) for t in range(21))
    assert any("the queue grew" in m for m in summarise(of, raw(of, samples=samples), RULES).misses)


def test_a_server_that_falls_behind_is_not_steady() -> None:
    told = 0
    for seed in range(20):
        of = plan(6.0, seed=seed)
        free, rows = 0.0, []
        for t in arrivals(of):  # serves 4/s, 6/s are offered
            free = max(free, t) + 0.25
            rows.append(row(t, ttft=1e3 * (free - t) + 50))
        point = summarise(of, raw(of, rows), RULES)
        assert not point.steady
        told += any("in flight grew" in m for m in point.misses)
    assert told >= 18, "its TTFT tells of the rest"


def test_bursts_of_a_healthy_server_are_steady() -> None:
    wrong = 0
    for seed in range(40):
        of = plan(3.0, seed=seed)
        free, rows = 0.0, []
        for t in arrivals(of):  # utilisation 0.6
            free = max(free, t) + 0.2
            rows.append(row(t, ttft=1e3 * (free - t)))
        wrong += not summarise(of, raw(of, rows), RULES).steady
    assert wrong <= 3


def sharing(times: tuple[float, ...], step_s: float = 0.025, each_s: float = 0.005) -> list[Row]:
    """A server that batches all it has: a step of all requests takes longer the more there are (32 tokens each)."""
    rows, open_, now, left = [], {}, times[0], list(times)
    while left or open_:
        open_ |= {t: 0.0 for t in left if t <= now}
        left = [t for t in left if t > now]
        if not open_:
            now = left[0]
            continue
        now += step_s + each_s * len(open_)
        for t, count in list(open_.items()):
            open_[t] = count + 1
            if count + 1 == 32:
                del open_[t]
                total = 1e3 * (now - t)
                gaps = (total * 0.9 / 63,) * 63
                rows.append(row(t, ttft=0.1 * total).model_copy(update={"itl_ms": gaps, "latency_ms": total}))
    return rows


@pytest.mark.parametrize(("rate", "most"), [(3.0, 0.02), (3.5, 0.05)])
def test_a_few_arrivals_late_in_a_short_window_are_no_failure_of_the_server(rate: float, most: float) -> None:
    """Windows of 8 s with some 25 requests of 2 to 3 s each: a burst at their end is not the server's doing."""
    seeds = range(60)
    wrong = [s for s in seeds if not steady_at(rate, s, window=8.0)]
    assert len(wrong) <= most * len(seeds), wrong


@pytest.mark.parametrize(("window", "rate"), [(8.0, 8.0), (60.0, 7.0)])
def test_a_server_that_is_overrun_is_never_steady_whatever_the_arrivals(window: float, rate: float) -> None:
    assert not any(steady_at(rate, seed, window) for seed in range(20))


def steady_at(rate: float, seed: int, window: float) -> bool:
    of = plan(rate, seed=seed, window_s=window, lead_s=0.375 * window)
    point = summarise(of, raw(of, sharing(arrivals(of)), samples=()), RULES)
    return not any("in flight grew" in m for m in point.misses)


def test_s47_a_plateau_is_named() -> None:
    of = plan()

    def named(running: float, kv: float) -> str:
        samples = tuple(Sample(at_s=float(t), running=running, queued=3.0, kv_use=kv) for t in range(20))
        return summarise(of, raw(of, samples=samples, max_running=48), RULES).plateau

    assert named(48, 0.4) == "admission cap"
    assert named(30, 0.98) == "kv cap"
    assert named(30, 0.4) == "prefill-bound"
    assert summarise(of, raw(of), RULES).plateau == ""


def test_a_probe_counts_what_ended_and_what_was_delivered() -> None:
    of = closed_loop(WORK, RULES, concurrency=4, content_seed=1)
    rows = [row(float(t), planned=None) for t in range(18)]
    rows.append(row(19.9, planned=None, ok=False, error="cut", itl_ms=(), output_tokens=1))
    point = summarise(of, raw(of, rows), RULES)
    assert point.void is None and point.concurrency == 4
    assert capacity_rps(point, 64) == pytest.approx(18 / 20, rel=0.02)


def test_a_point_that_was_cut_is_void() -> None:
    of = plan()
    assert summarise(of, raw(of, cut="crashed: scheduler died"), RULES).void == "cut: crashed: scheduler died"
    assert (summarise(of, raw(of, []), RULES).void or "").startswith("empty")


def test_growth_is_robust_and_needs_points() -> None:
    assert growth([0, 1], [0, 5]) == (0.0, False)
    rise, sure = growth(range(30), [1.0] * 29 + [900.0])
    assert rise == 0.0 and not sure
    rise, sure = growth(range(30), [0.5 * t for t in range(30)])
    assert sure and rise == pytest.approx(14.5)
    assert growth(range(1000), [3.0] * 1000) == (0.0, False)


def test_growth_is_sure_where_scipys_bound_is() -> None:
    rng = np.random.default_rng(1)
    grown = 0
    for count in (6, 7, 30, 61, 300):
        for turn in range(24):
            times = np.sort(rng.random(count) * 100)
            values = times * rng.normal() * 0.05 + rng.normal(size=count)
            times, values = times.round(turn % 3), values.round(turn % 2 or 9)
            slope, _, low, _ = stats.theilslopes(values, times, alpha=0.95)
            rise, sure = growth(times, values)
            assert sure == (low > 0)
            assert rise == (pytest.approx(slope * np.ptp(times)) if sure else 0.0)
            grown += sure
    assert 20 < grown < 80
