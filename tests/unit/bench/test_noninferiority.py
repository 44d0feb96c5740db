"""Bounds of accuracy against computations of another kind: numeric likelihoods, exact enumeration."""

from __future__ import annotations

from math import log, sqrt

import pytest
from day0.runs.errors import UserError
from day0.tools.noninferiority import (
    Z95,
    decidable,
    marginals,
    of_counts,
    paired,
    paired_bounds,
    questions,
    unpaired_bounds,
)
from hypothesis import given, settings
from hypothesis import strategies as st


def answers(pattern: str) -> dict[str, bool]:
    return {str(i): c == "+" for i, c in enumerate(pattern)}


def test_s34_zero_checked_items_are_a_failure() -> None:
    for none in (paired({}, {}, margin=0.01), paired(answers("+"), {"other": True}, margin=0.01),
                 marginals(0.9, 0.9, 0, margin=0.01)):  # fmt: skip
        assert none.verdict == "nothing was checked"
        assert not none.passed
        assert "nothing was checked" in none.told()


def test_s34_a_shown_loss_is_lossy_and_may_not_win() -> None:
    got = of_counts(200, 190, 30, 2, margin=0.05)
    assert (got.verdict, got.passed) == ("lossy", False)
    assert got.upper < 0 and got.lower < -0.05


def test_s34_inconclusive_may_win_but_is_never_called_lossless() -> None:
    got = of_counts(200, 190, 4, 3, margin=0.01)
    assert (got.verdict, got.passed) == ("inconclusive", True)
    assert "lossless" not in got.told()
    assert got.needed is not None and got.needed > 200 and got.decidable is not None and got.decidable > 0.01
    assert f"{got.needed} would be needed" in got.told()


def test_few_disagreements_are_lossless_within_five_points() -> None:
    got = of_counts(200, 190, 3, 2, margin=0.05)
    assert got.verdict == "lossless within margin"
    assert got.decidable is None


def test_a_published_table_without_pairs_is_inconclusive_at_one_point() -> None:
    got = marginals(0.965, 0.955, 200, margin=0.01)
    assert got.verdict == "inconclusive"
    assert not got.paired
    assert got.lower == pytest.approx(-0.0450, abs=2e-4)
    assert got.upper == pytest.approx(0.0238, abs=2e-4)
    assert got.needed == pytest.approx(4746, abs=2)
    assert got.decidable == pytest.approx(0.0487, abs=2e-4)


def test_pairs_are_by_question_and_count_only_what_both_answered() -> None:
    got = paired(answers("++--+"), {"1": False, "0": True, "2": True, "9": True}, margin=0.1)
    assert got.items == 3
    assert got.reference == pytest.approx(2 / 3)
    assert got.difference == 0
    assert got.disagreement == pytest.approx(2 / 3)


def test_wrong_use_is_said() -> None:
    with pytest.raises(UserError, match="margin"):
        of_counts(10, 5, 0, 0, margin=1.0)
    with pytest.raises(UserError, match="do not fit"):
        of_counts(10, 5, 6, 0, margin=0.1)
    with pytest.raises(UserError, match="shares"):
        marginals(1.2, 0.9, 10, margin=0.1)


@pytest.mark.parametrize(("items", "lost", "won"), [(50, 9, 12), (44, 0, 1), (200, 12, 3), (200, 0, 0), (30, 30, 0)])
def test_paired_bounds_are_where_the_score_of_a_numeric_likelihood_is_the_quantile(
    items: int, lost: int, won: int
) -> None:
    from scipy.optimize import minimize_scalar

    def score(difference: float) -> float:
        low, high = max(0.0, -difference), (1 - difference) / 2

        def unlikely(q: float) -> float:
            cells = ((lost, q), (won, q + difference), (items - lost - won, 1 - 2 * q - difference))
            return -sum(n * log(max(p, 1e-300)) for n, p in cells if n)

        q = minimize_scalar(unlikely, bounds=(low, high), method="bounded", options={"xatol": 1e-12}).x
        return (won - lost - items * difference) / sqrt(items * (2 * q + difference - difference**2))

    lower, upper = paired_bounds(items, lost, won)
    if lower > -1 + 1e-9:
        assert score(lower) == pytest.approx(Z95, abs=2e-3)
    assert score(upper) == pytest.approx(-Z95, abs=2e-3)


def test_unpaired_bounds_are_the_published_ones() -> None:
    # 56 of 70 against 48 of 80, 95 % two-sided: Newcombe, Statistics in Medicine 17 (1998), table II, method 6
    lower, upper = unpaired_bounds(56 / 70, 70, 48 / 80, 80, z=1.959964)
    assert (lower, upper) == (pytest.approx(0.0528, abs=1e-4), pytest.approx(0.3382, abs=1e-4))


@pytest.mark.parametrize(("truth", "alone"), [(0.0, 0.05), (-0.05, 0.10), (-0.01, 0.03), (0.02, 0.2)])
def test_paired_bounds_cover_by_exact_enumeration(truth: float, alone: float) -> None:
    """`alone`: the share that only the reference gets right."""
    from scipy.stats import multinomial

    items, missed, above = 60, 0.0, 0.0
    law = multinomial(items, [alone, alone + truth, 1 - 2 * alone - truth])
    for lost in range(items + 1):
        for won in range(items + 1 - lost):
            weight = float(law.pmf([lost, won, items - lost - won]))
            if weight < 1e-7:
                continue
            lower, upper = paired_bounds(items, lost, won)
            missed += weight * (lower > truth)
            above += weight * (upper < truth)
    assert missed < 0.065
    assert above < 0.065


@given(st.integers(1, 400), st.data())
@settings(max_examples=150, deadline=None)
def test_bounds_hold_the_estimate_and_mirror(items: int, data: st.DataObject) -> None:
    lost = data.draw(st.integers(0, items))
    won = data.draw(st.integers(0, items - lost))
    lower, upper = paired_bounds(items, lost, won)
    middle = (won - lost) / items
    assert -1 <= lower <= middle + 1e-9 <= upper + 2e-9 <= 1 + 2e-9
    mirrored = paired_bounds(items, won, lost)
    assert (-mirrored[1], -mirrored[0]) == (pytest.approx(lower, abs=1e-6), pytest.approx(upper, abs=1e-6))


@given(st.integers(2, 300), st.floats(0, 1), st.floats(0, 1))
@settings(max_examples=150, deadline=None)
def test_unpaired_bounds_hold_the_estimate(items: int, one: float, other: float) -> None:
    one, other = round(one * items) / items, round(other * items) / items
    lower, upper = unpaired_bounds(one, items, other, items)
    assert -1 <= lower <= one - other + 1e-9 <= upper + 2e-9 <= 1 + 2e-9


@given(st.floats(0.002, 0.2), st.floats(0, 0.5))
def test_what_is_needed_and_what_is_decidable_are_one_formula(margin: float, disagreement: float) -> None:
    needed = questions(margin, disagreement)
    assert decidable(needed, disagreement) <= margin * (1 + 1e-9)
    if needed > 2:
        assert decidable(needed - 1, disagreement) > margin * (1 - 1e-9)


def test_the_needed_number_has_the_power_it_says() -> None:
    import numpy as np

    margin, disagreement = 0.03, 0.06
    items = questions(margin, disagreement)
    rng = np.random.default_rng(5)
    drawn = rng.multinomial(items, [disagreement / 2, disagreement / 2, 1 - disagreement], size=1500)
    shown = sum(paired_bounds(items, int(b), int(c))[0] > -margin for b, c, _ in drawn) / 1500
    assert 0.75 < shown < 0.86


def test_s34_the_accuracy_rung_refuses_a_collapse_and_tells_what_its_pairs_show() -> None:
    from day0.tools.bench import Answer
    from day0.tools.canary import TaskItem, judge_accuracy

    task = tuple(TaskItem(prompt=f"{n}+1=", answer=str(n + 1)) for n in range(100, 300))
    reference = tuple(Answer(key=f"task:{i}", text=item.answer) for i, item in enumerate(task))

    def with_wrong(count: int) -> tuple[Answer, ...]:
        return tuple(a if i >= count else Answer(key=a.key, text="no") for i, a in enumerate(reference))

    same, close, collapsed = (judge_accuracy(task, with_wrong(n), reference) for n in (0, 7, 30))
    assert same.passed and "lossless within margin: +0.0 points" in same.detail
    assert close.passed and "inconclusive" not in close.detail and "lossy: -3.5 points" in close.detail
    assert not collapsed.passed and "lossy: -15.0 points" in collapsed.detail
    silent = tuple(Answer(key=a.key, error="timeout") if i < 4 else a for i, a in enumerate(reference))
    assert "-2.0 points" in judge_accuracy(task, silent, reference).detail
