"""Is the candidate as accurate as the fixed reference, within a stated margin? One-sided 95 % bounds. Pure.

Paired per question: Tango's score bound for the difference of correlated shares (Tango, Statistics in Medicine 17,
1998, 891-908). Published marginals without pairs: the score bound of Miettinen & Nurminen (Statistics in Medicine 4,
1985, 213-226). Both are found where the score statistic reaches the normal quantile. Differences are candidate minus
reference; -0.01 is one point lost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import acos, ceil, copysign, cos, inf, pi, sqrt
from typing import Literal

from day0.runs.accuracy import Judgement, Word
from day0.runs.errors import UserError
from day0.runs.values import Frozen
from pydantic import Field

Z95 = 1.6448536269514722
Z80 = 0.8416212335729143
STEPS = 60
"""of bisection: to the last bit of a difference in [-1, 1]"""


class Accuracy(Frozen):
    """What a check of accuracy showed. Shares in [0, 1]; `difference` is candidate - reference."""

    verdict: Word
    margin: float = Field(description="the loss that is accepted: 0.01 = one point")
    items: int = Field(description="questions that both answered; without pairs, the candidate's")
    reference: float = 0.0
    candidate: float = 0.0
    difference: float = 0.0
    lower: float = Field(default=-1.0, description="one-sided 95 % bound of the difference")
    upper: float = Field(default=1.0, description="one-sided 95 % bound of the difference")
    paired: bool = True
    disagreement: float = Field(default=0.0, description="share of questions that one of both got right alone")
    needed: int | None = Field(default=None, description="questions for 80 % power if truly nothing is lost")
    decidable: float | None = Field(
        default=None, description="smallest margin that this many questions can decide; None: this margin is"
    )

    @property
    def passed(self) -> bool:
        """Whether it may win: lossless, or inconclusive and labelled so."""
        return self.verdict in ("lossless within margin", "inconclusive")

    def told(self) -> str:
        """One sentence."""
        if self.verdict == "nothing was checked":
            return "nothing was checked: not one question was answered by both"
        points = (
            f"{100 * self.difference:+.1f} points (95 % bound {100 * self.lower:+.1f}), margin {100 * self.margin:g}"
        )
        text = f"{self.verdict}: {points}, {self.items} questions"
        if self.decidable is not None:
            text += f"; {self.needed} would be needed, {self.items} can decide a margin of {100 * self.decidable:.1f}"
        return text

    def judgement(self, task: str, against: str, *, tier: Literal[1, 2]) -> Judgement:
        """The same for the ledger, with what was compared."""
        same = self.model_dump(exclude={"candidate", "upper", "verdict"})
        # a margin as wide as a collapse shows nothing to be lossless
        word: Word = "no collapse" if tier == 1 and self.verdict == "lossless within margin" else self.verdict
        return Judgement(task=task, against=against, tier=tier, measured=self.candidate, verdict=word, **same)


def paired(
    reference: Mapping[str, bool], candidate: Mapping[str, bool], *, margin: float, benchmark: int | None = None
) -> Accuracy:
    """Right or wrong per question, by its key; only questions that both answered count.

    `benchmark`: how many questions the task has in all, where only some were asked; `decidable` is about those.
    Raises `UserError` for a margin outside (0, 1).
    """
    both = sorted(reference.keys() & candidate.keys())
    lost = sum(reference[k] and not candidate[k] for k in both)
    won = sum(candidate[k] and not reference[k] for k in both)
    right = sum(reference[k] for k in both)
    return of_counts(len(both), right, lost, won, margin=margin, benchmark=benchmark)


def of_counts(
    items: int, reference_right: int, lost: int, won: int, *, margin: float, benchmark: int | None = None
) -> Accuracy:
    """`lost`: right by the reference alone; `won`: by the candidate alone; of `items` questions asked of both."""
    _check(margin)
    if items == 0:
        return Accuracy(verdict="nothing was checked", margin=margin, items=0)
    if not (0 <= won <= items - reference_right and 0 <= lost <= reference_right <= items):
        raise UserError(f"{lost} lost and {won} won do not fit {reference_right} right of {items}")
    lower, upper = paired_bounds(items, lost, won)
    disagreement = (lost + won) / items
    needed = questions(margin, disagreement)
    most = max(items, benchmark or 0)
    return Accuracy(
        verdict=_verdict(lower, upper, margin),
        margin=margin,
        items=items,
        reference=reference_right / items,
        candidate=(reference_right - lost + won) / items,
        difference=(won - lost) / items,
        lower=lower,
        upper=upper,
        disagreement=disagreement,
        needed=needed,
        decidable=decidable(most, disagreement) if needed > most else None,
    )


def marginals(reference: float, candidate: float, items: int, *, margin: float, reference_items: int = 0) -> Accuracy:
    """From two published shares alone, each of `items` questions (the reference of `reference_items`, if others)."""
    _check(margin)
    if items == 0:
        return Accuracy(verdict="nothing was checked", margin=margin, items=0, paired=False)
    if not (0 <= reference <= 1 and 0 <= candidate <= 1 and items > 0):
        raise UserError(f"shares must lie in [0, 1], got {reference} and {candidate} of {items} questions")
    others = reference_items or items
    lower, upper = unpaired_bounds(candidate, items, reference, others)
    # two samples of their own: what would be disagreement of pairs is the sum of both variances
    spread = reference * (1 - reference) * items / others + candidate * (1 - candidate)
    needed = questions(margin, spread)
    return Accuracy(
        verdict=_verdict(lower, upper, margin),
        margin=margin,
        items=items,
        reference=reference,
        candidate=candidate,
        difference=candidate - reference,
        lower=lower,
        upper=upper,
        paired=False,
        disagreement=spread,
        needed=needed,
        decidable=decidable(items, spread) if needed > items else None,
    )


def questions(margin: float, disagreement: float) -> int:
    """How many questions show non-inferiority with 80 % power if truly nothing is lost.

    (z95 + z80)^2 x disagreement / margin^2 (Connor, Biometrics 1987), and at least what a task without any
    disagreement needs for its bound to come within the margin.
    """
    return ceil(max((Z95 + Z80) ** 2 * disagreement / margin**2, Z95**2 * (1 - margin) / margin) - 1e-9)


def decidable(items: int, disagreement: float) -> float:
    """The smallest margin that `items` questions decide with 80 % power: `questions` turned round."""
    return max((Z95 + Z80) * sqrt(disagreement / items), Z95**2 / (items + Z95**2))


def paired_bounds(items: int, lost: int, won: int, z: float = Z95) -> tuple[float, float]:
    """Tango's bounds of the difference of two correlated shares, each one-sided at the normal quantile `z`."""

    def score(difference: float) -> float:
        a, b = 2.0 * items, -lost - won + (2 * items - won + lost) * difference
        c = -lost * difference * (1 - difference)
        # of the share that the reference alone gets right, most likely under this difference
        alone = (sqrt(max(0.0, b * b - 4 * a * c)) - b) / (2 * a)
        variance = items * (2 * alone + difference * (1 - difference))
        return _ratio(won - lost - items * difference, variance)

    return _between(score, (won - lost) / items, z)


def unpaired_bounds(candidate: float, items: int, reference: float, others: int, z: float = Z95) -> tuple[float, float]:
    """Miettinen & Nurminen's bounds of candidate - reference, each one-sided at the normal quantile `z`."""

    def score(difference: float) -> float:
        low = _constrained(candidate, items, reference, others, difference)
        high = min(1.0, max(0.0, low + difference))
        total = items + others
        variance = (high * (1 - high) / items + low * (1 - low) / others) * total / (total - 1)
        return _ratio(candidate - reference - difference, variance)

    return _between(score, candidate - reference, z)


def _constrained(candidate: float, items: int, reference: float, others: int, difference: float) -> float:
    """The reference's most likely share if the candidate's is `difference` higher: their cubic, in closed form."""
    ratio = others / items
    a = 1 + ratio
    b = -(1 + ratio + candidate + ratio * reference + difference * (ratio + 2))
    c = difference * difference + difference * (2 * candidate + ratio + 1) + candidate + ratio * reference
    d = -candidate * difference * (1 + difference)
    v = b**3 / (27 * a**3) - b * c / (6 * a * a) + d / (2 * a)
    u = copysign(sqrt(max(0.0, b * b / (9 * a * a) - c / (3 * a))), v)
    if u == 0.0:
        higher = -b / (3 * a)
    else:
        angle = (pi + acos(min(1.0, max(-1.0, v / u**3)))) / 3
        higher = 2 * u * cos(angle) - b / (3 * a)
    return min(1.0, max(0.0, higher - difference))


def _ratio(distance: float, variance: float) -> float:
    if variance <= 1e-15:
        return 0.0 if abs(distance) < 1e-12 else copysign(inf, distance)
    return distance / sqrt(variance)


def _between(score: Callable[[float], float], middle: float, z: float) -> tuple[float, float]:
    """Where a score that falls in the difference is z below the estimate, and -z above it."""
    low, high = -1.0, middle
    for _ in range(STEPS):
        at = (low + high) / 2
        low, high = (at, high) if score(at) > z else (low, at)
    below, low, high = low, middle, 1.0
    for _ in range(STEPS):
        at = (low + high) / 2
        low, high = (at, high) if score(at) > -z else (low, at)
    return below, high


def _verdict(lower: float, upper: float, margin: float) -> Word:
    """Lossy: a loss is shown, and it cannot be excluded that it is larger than the margin."""
    if lower > -margin:
        return "lossless within margin"
    return "lossy" if upper < 0 else "inconclusive"


def _check(margin: float) -> None:
    if not 0 < margin < 1:
        raise UserError(f"a margin must lie between 0 and 1 (0.01 = one point), got {margin}")
