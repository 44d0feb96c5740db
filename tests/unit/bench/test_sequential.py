"""The sequential comparison: its boundaries against exact laws, its error by simulation with drifts, its bounds."""

from __future__ import annotations

from math import inf, log1p

import numpy as np
import pytest
from day0.tools import sequential
from day0.tools.boundaries import ARMS, LONGEST, PAIRED
from day0.tools.sequential import FALSE_PROMOTION, OUTSIDE, better, bounds, estimates, limits
from hypothesis import given
from hypothesis import strategies as st

ALTERNATING = [n % 2 == 0 for n in range(LONGEST)]


def boots(
    trials: int, noise: float, gain: float = 0.0, *, seed: int = 1, line: float = 0.0, walk: float = 0.0,
    shared: float = 0.0, tails: bool = False,
) -> np.ndarray:  # fmt: skip
    rng = np.random.default_rng(seed)
    size = (trials, LONGEST, 2)
    own = (rng.standard_t(3, size) / 3**0.5 if tails else rng.standard_normal(size)) * noise
    at = np.array([[2 * n, 2 * n + 1] if n % 2 == 0 else [2 * n + 1, 2 * n] for n in range(LONGEST)])
    steps = np.cumsum(rng.standard_normal((trials, 2 * LONGEST)) * walk, axis=1)
    own += line * at + steps[:, at] + rng.standard_normal((trials, LONGEST, 1)) * shared
    own[:, :, 1] += log1p(gain)
    return own


def promoted(logs: np.ndarray, floor: float, within: int = LONGEST, most: int = LONGEST) -> float:
    ever = np.zeros(len(logs), dtype=bool)
    for n in range(2, within + 1):
        ever |= better(estimates(logs[:, :n], ALTERNATING), most, floor)
    return float(ever.mean())


DRIFTS = {
    "none": {},
    "line": {"line": 0.5},
    "steep line": {"line": 3.0},
    "walk": {"walk": 0.5},
    "strong walk": {"walk": 3.0},
    "arrivals": {"shared": 3.0},
    "tails": {"tails": True},
}


@pytest.mark.parametrize("drift", list(DRIFTS))
@pytest.mark.parametrize("noise", [0.008, 0.02, 0.1])
def test_s40_equal_arms_are_promoted_at_most_once_in_a_hundred(drift: str, noise: float) -> None:
    more = {k: v if v is True else v * noise for k, v in DRIFTS[drift].items()}
    share = promoted(boots(6000, noise, seed=len(drift), **more), noise)
    assert share < 0.0137  # 1 %, and three s.d. of a count of 60


@pytest.mark.parametrize(("noise", "gain", "within"), [(0.008, 0.03, 5), (0.02, 0.05, 8)])
@pytest.mark.parametrize("drift", [{}, {"line": 0.25}, {"tails": True}])
def test_s40_a_real_gain_is_found_within_its_pairs(noise: float, gain: float, within: int, drift: dict) -> None:
    more = {k: v if v is True else v * noise for k, v in drift.items()}
    assert promoted(boots(4000, noise, gain, **more), noise, within) > 0.89  # 90 % and more, less the s.d. of the count


def test_a_gain_far_above_the_noise_stops_after_two_pairs_and_one_below_ten_times_never() -> None:
    assert promoted(boots(2000, 0.008, 0.3), 0.008, within=2) > 0.98
    assert promoted(boots(2000, 0.008, 0.05), 0.008, within=2) < 0.02


def test_two_pairs_that_happen_to_agree_prove_no_small_gain() -> None:
    lucky = np.array([[[0.0, 0.1], [0.0, 0.1]]])
    assert better(estimates(lucky, ALTERNATING), 8, floor=0.002)[0]
    assert not better(estimates(lucky, ALTERNATING), 8, floor=0.03)[0]


@pytest.mark.parametrize("budget", range(2, LONGEST + 1))
def test_the_error_holds_for_every_budget(budget: int) -> None:
    logs = boots(6000, 0.02, seed=budget)
    assert promoted(logs, 0.02, within=budget, most=budget) < 0.0137


@pytest.mark.parametrize("gain", [0.0, 0.03, 0.2])
@pytest.mark.parametrize("most", [3, 5, 8])
def test_s40_the_bound_holds_though_one_stops_when_it_looks_best(gain: float, most: int) -> None:
    """Stopping at the very look with the highest lower bound is the worst that anyone can do."""
    logs = boots(6000, 0.02, gain, seed=most)
    looks = [bounds(estimates(logs[:, :n], ALTERNATING), most, OUTSIDE, 0.02) for n in range(2, most + 1)]
    best = np.max([lower for lower, _ in looks], axis=0)
    least = np.min([upper for _, upper in looks], axis=0)
    assert np.mean(best > log1p(gain)) < OUTSIDE + 0.009
    assert np.mean(least < log1p(gain)) < OUTSIDE + 0.009


def test_first_boundaries_are_quantiles_of_student_s_t() -> None:
    from scipy import stats

    error = FALSE_PROMOTION
    assert ARMS[error]["last"][2] == pytest.approx(stats.t.isf(error, 2), rel=0.02)
    assert ARMS[error]["before"][3] == pytest.approx(stats.t.isf(0.06 * error, 3), rel=0.05)
    assert ARMS[OUTSIDE]["before"][2] == pytest.approx(stats.t.isf(0.1 * OUTSIDE, 2), rel=0.02)


def test_the_bound_of_95_is_always_inside_what_promotes() -> None:
    for most in range(2, LONGEST + 1):
        for n in range(2, most + 1):
            for wide, narrow in zip(limits(n, most, FALSE_PROMOTION), limits(n, most, OUTSIDE), strict=True):
                assert narrow <= wide
    assert set(PAIRED) == set(ARMS) == {FALSE_PROMOTION, OUTSIDE}


@given(st.integers(-3, 40), st.integers(-3, 40))
def test_beyond_the_longest_budget_nothing_is_looked_at(pairs: int, most: int) -> None:
    got = limits(pairs, most, OUTSIDE)
    seen = 2 <= pairs <= max(2, min(most, LONGEST))
    assert (got == (inf, inf)) == (not seen)


def test_a_straight_drift_moves_the_fit_by_nothing() -> None:
    flat = boots(50, 0.02, 0.04)
    steep = flat + (boots(1, 0.0, 0.0, line=0.3))
    for n in range(3, LONGEST + 1):
        one, other = estimates(flat[:, :n], ALTERNATING), estimates(steep[:, :n], ALTERNATING)
        assert np.allclose(one.effect, other.effect)
        assert np.allclose(one.arms_se, other.arms_se)


def test_what_a_pair_shares_moves_the_paired_test_by_nothing() -> None:
    plain, loud = boots(50, 0.02, 0.04, seed=9), boots(50, 0.02, 0.04, seed=9, shared=0.5)
    one, other = estimates(plain[:, :5], ALTERNATING), estimates(loud[:, :5], ALTERNATING)
    # the same boots: the shared part is drawn after them
    assert np.allclose(one.mean, other.mean)
    assert np.allclose(one.paired_se, other.paired_se)
    assert np.all(other.arms_se > one.arms_se * 0.99)


def test_hopeless_ends_early_and_only_where_nothing_is_in_sight() -> None:
    worth = log1p(0.01)
    worse = estimates(boots(500, 0.008, -0.05)[:, :3], ALTERNATING)
    good = estimates(boots(500, 0.008, 0.03)[:, :3], ALTERNATING)
    assert sequential.hopeless(worse, worth).mean() > 0.9
    assert sequential.hopeless(good, worth).mean() < 0.02
    assert not sequential.hopeless(estimates(boots(5, 0.008, -0.5)[:, :2], ALTERNATING), worth).any()
