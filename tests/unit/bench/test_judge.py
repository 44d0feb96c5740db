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


def judge(pairs, noise: float | None = None):
    return compare(pairs, incumbent="r.1", challenger="r.2", noise=noise)


@pytest.mark.parametrize(("count", "noise"), [(2, None), (3, None), (5, None), (2, 0.03), (5, 0.03)])
def test_s40_equal_arms_are_rarely_called_better(count: int, noise: float | None) -> None:
    rng = random.Random(count)
    trials = 1500
    wrong = sum(judge(pairs_of(rng, count, 0.0, 0.03), noise).better for _ in range(trials))
    assert wrong / trials < 0.065  # 5 % by construction, and three s.d. of this count


@pytest.mark.parametrize(("count", "gain", "at_least"), [(2, 0.6, 0.9), (3, 0.2, 0.9), (5, 0.1, 0.9)])
def test_a_clear_gain_is_found(count: int, gain: float, at_least: float) -> None:
    rng = random.Random(7)
    found = sum(judge(pairs_of(rng, count, gain, 0.03), 0.03).better for _ in range(300))
    assert found / 300 > at_least


def test_two_pairs_that_happen_to_agree_prove_no_small_gain() -> None:
    lucky = [pair(n, "incumbent", knee_at(10), knee_at(10.2)) for n in (1, 2)]
    assert judge(lucky).better
    assert not judge(lucky, noise=0.03).better


def test_the_figures_of_a_comparison() -> None:
    got = judge([pair(1, "incumbent", knee_at(10), knee_at(12)), pair(2, "challenger", knee_at(10), knee_at(13))])
    assert got.gain == pytest.approx(exp((log(1.2) + log(1.3)) / 2) - 1)
    assert got.lower < got.gain < got.upper
    assert "2 pairs" in got.method


def test_one_pair_is_never_better_and_none_is_a_mistake() -> None:
    got = judge([pair(1, "incumbent", knee_at(10), knee_at(30))])
    assert not got.better and (got.lower, got.upper) == (-1.0, inf)
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
