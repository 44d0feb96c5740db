from __future__ import annotations

import random
from math import exp, inf, log

import pytest
from day0.runs.errors import UserError
from day0.runs.facts import Knee, LoadPoint, Percentiles
from day0.runs.workload import Slo
from day0.tools.judge import compare, first_arm, noise_floor, pair, promising, screen_rate

SLO = Slo(ttft_ms=1500, tpot_ms=60)


def knee_at(rate: float) -> Knee:
    return Knee(workload="t", rate_rps=rate, goodput_tok_s=64 * rate, passed_rps=rate, failed_rps=rate * 1.05)


def pairs_of(rng: random.Random, count: int, gain: float, noise: float):
    return [
        pair(
            i + 1,
            first_arm(i + 1),
            knee_at(10 * exp(rng.gauss(0, noise))),
            knee_at(10 * (1 + gain) * exp(rng.gauss(0, noise))),
        )
        for i in range(count)
    ]


def judge(pairs, noise: float | None = None, most: int = 8):
    return compare(pairs, incumbent="r.1", challenger="r.2", noise=noise, most=most)


def settled(rng: random.Random, gain: float, noise: float, most: int = 8):
    """A comparison as a run makes it: pair after pair until it is settled."""
    pairs = pairs_of(rng, most, gain, noise)
    for count in range(1, most + 1):
        got = judge(pairs[:count], noise, most)
        if got.verdict != "open":
            return got
    raise AssertionError("still open after all pairs")


def test_s40_equal_arms_are_almost_never_called_better() -> None:
    rng = random.Random(1)
    ends = [settled(rng, 0.0, 0.03) for _ in range(300)]
    assert sum(e.better for e in ends) <= 9
    assert {e.verdict for e in ends} <= {"better", "not better", "not shown"}
    assert all(e.better == (e.verdict == "better") for e in ends)


@pytest.mark.parametrize(("gain", "noise"), [(0.6, 0.03), (0.1, 0.02), (0.03, 0.006)])
def test_a_clear_gain_is_found_and_its_bound_lies_above_zero(gain: float, noise: float) -> None:
    rng = random.Random(7)
    ends = [settled(rng, gain, noise) for _ in range(100)]
    found = [e for e in ends if e.better]
    assert len(found) >= 90
    assert all(0 < e.lower < e.gain < e.upper for e in found)


def test_two_pairs_that_happen_to_agree_prove_no_small_gain() -> None:
    lucky = [pair(n, first_arm(n), knee_at(10), knee_at(10.3)) for n in (1, 2)]
    assert judge(lucky, noise=0.0005).better
    assert judge(lucky).verdict == "open"
    assert judge(lucky, most=2).verdict == "not shown"


def test_ten_times_the_noise_is_enough_after_two_pairs() -> None:
    far = [pair(n, first_arm(n), knee_at(10), knee_at(14.2 + n / 10)) for n in (1, 2)]
    got = judge(far, noise=0.03)
    assert got.verdict == "better"
    assert judge(far, noise=0.05).verdict == "open"


def test_beyond_the_budget_the_verdict_is_not_shown() -> None:
    rates = (10.4, 9.7, 10.5, 9.9)
    pairs = [pair(n, first_arm(n), knee_at(10), knee_at(r)) for n, r in enumerate(rates, 1)]
    assert judge(pairs[:3], most=4).verdict == "open"
    assert judge(pairs, most=4).verdict == "not shown"


def test_a_challenger_that_loses_is_not_waited_for() -> None:
    got = judge([pair(n, first_arm(n), knee_at(10), knee_at(8 + n / 100)) for n in (1, 2)])
    assert got.verdict == "not better"
    assert got.upper < 0.01


def test_the_figures_of_a_comparison() -> None:
    got = judge([pair(1, "incumbent", knee_at(10), knee_at(12)), pair(2, "challenger", knee_at(10), knee_at(13))])
    assert got.gain == pytest.approx(exp((log(1.2) + log(1.3)) / 2) - 1)
    assert got.lower < got.gain < got.upper
    assert "knees over 2 of at most 8 pairs" in got.method


def test_a_single_stream_is_compared_by_tpot() -> None:
    def stream(tpot: float) -> Knee:
        return knee_at(1.0).model_copy(update={"tpot_ms": tpot})

    got = judge([pair(n, first_arm(n), stream(10.0), stream(5.0 + n / 100)) for n in (1, 2)])
    assert got.gain == pytest.approx(0.99, abs=0.02)
    assert got.better and "TPOTs" in got.method
    mixed = judge([pair(1, "incumbent", stream(10.0), knee_at(2.0))])
    assert mixed.gain == pytest.approx(1.0) and "knees" in mixed.method


def test_one_pair_is_never_better_and_none_is_a_mistake() -> None:
    got = judge([pair(1, "incumbent", knee_at(10), knee_at(30))])
    assert (got.verdict, got.lower, got.upper) == ("open", -1.0, inf)
    with pytest.raises(UserError):
        judge([])


def test_arms_alternate() -> None:
    assert [first_arm(n) for n in (1, 2, 3)] == ["incumbent", "challenger", "incumbent"]


def test_noise_floor_pools_within_configurations_only() -> None:
    assert noise_floor([]) == pytest.approx(0.03)
    far_apart = noise_floor([[knee_at(10)], [knee_at(100)]])
    assert far_apart == pytest.approx(0.03)
    rng = random.Random(3)
    many = [[knee_at(5 * exp(rng.gauss(0, 0.1))) for _ in range(6)] for _ in range(20)]
    assert noise_floor(many) == pytest.approx(0.1, rel=0.15)
    assert noise_floor([[knee_at(10), knee_at(10)]]) > 0.02


def point(ttft: float, *, steady: bool = True, void: str | None = None) -> LoadPoint:
    flat = Percentiles(mean=ttft, p50=ttft, p95=ttft, p99=ttft)
    slow = ttft > 1500
    return LoadPoint(
        workload="t", rate_rps=10.5, seed=1, window_s=8, offered=80, completed=80, failed=0, output_tok_s=1,
        total_tok_s=1, ttft_ms=flat, success_share=1, steady=steady, meets_slo=steady and not slow and void is None,
        void=void,
        misses=(f"p95 TTFT {ttft:.0f} ms > 1500 ms",) if slow else (),
    )  # fmt: skip


def test_the_screen_lets_through_what_holds_and_what_is_close() -> None:
    assert screen_rate(10) == 10.5
    assert promising(point(900), 10, SLO) == (True, "")
    assert promising(point(1600), 10, SLO) == (True, "close to the limit")
    ok, why = promising(point(4000), 10, SLO)
    assert not ok and "1.05 x the incumbent's knee" in why and "p95 TTFT 4000 ms" in why
    assert not promising(point(900, steady=False), 10, SLO)[0]
    assert not promising(point(900, void="failures: 40 of 80"), 10, SLO)[0]
    assert promising(point(900, void="compile: 2 lines"), 10, SLO)[0]  # says nothing about the candidate


def test_s40_arrivals_that_differ_between_pairs_are_no_noise_of_boots() -> None:
    """Pairs on other arrivals move both arms; only what their ratio does tells of boots."""
    steady = noise_floor([], [[0.30, 0.30, 0.30, 0.30]])
    assert steady < noise_floor([], []) == pytest.approx(0.03)
    shaky = noise_floor([], [[0.1, 0.5, 0.2, 0.6]])
    assert shaky > 0.1
    assert noise_floor([], [[0.3]]) == pytest.approx(0.03)
