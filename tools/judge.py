"""Is one candidate better than another? Paired boots, the log ratio of their knees, a one-sided 95 % bound. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, expm1, inf, log, sqrt

from day0.runs.errors import UserError
from day0.runs.facts import Knee, LoadPoint, Pair
from day0.runs.schema import Comparison
from day0.runs.workload import Slo
from day0.tools.summary import misses

CONFIDENCE = 0.95
PROMISE = 1.05
"""A challenger is screened at this multiple of the incumbent's knee."""
NOISE_PRIOR = 0.03
"""Relative s.d. of a knee between boots before any was repeated: published MI355X rows repeat within 2.1 % (s.d.,
without the jumps between days), and a knee's noise is larger than a rate's."""
PRIOR_WEIGHT = 2


def log_ratio(incumbent: Knee, challenger: Knee) -> float:
    """ln(challenger's knee / incumbent's)."""
    return log(challenger.rate_rps / incumbent.rate_rps)


def pair(number: int, first: str, incumbent: Knee, challenger: Knee) -> Pair:
    """One boot of each arm; `first` is the arm that booted first."""
    return Pair(
        number=number,
        first=first,
        incumbent=incumbent,
        challenger=challenger,
        log_ratio=log_ratio(incumbent, challenger),
    )


def first_arm(number: int) -> str:
    """Which arm boots first in pair `number` (from 1): alternating, so that drift over time favours neither."""
    return "incumbent" if number % 2 else "challenger"


def compare(pairs: Sequence[Pair], *, incumbent: str, challenger: str, noise: float | None = None) -> Comparison:
    """Student's t bound over the pairs' log ratios: better when the one-sided 95 % lower bound of the gain is above 0.

    `noise` (relative s.d. of a knee between boots, see `noise_floor`) is a floor of the spread: two pairs that happen
    to agree are no proof of a small gain. The s.d. of a pair's log ratio is sqrt(2) times it. Raises `UserError`
    without any pair; a single pair has an infinite interval and is never better.
    """
    if not pairs:
        raise UserError("a comparison needs at least one pair of boots")
    values = [p.log_ratio for p in pairs]
    count = len(values)
    mean = sum(values) / count
    if count == 1:
        half = inf
    else:
        from scipy import stats

        spread = sqrt(sum((v - mean) ** 2 for v in values) / (count - 1))
        half = float(stats.t.ppf(CONFIDENCE, count - 1)) * spread / sqrt(count)
        if noise is not None:
            # known spread: a normal bound, not a t bound, or two pairs would ask for 9 s.d.
            half = max(half, float(stats.norm.ppf(CONFIDENCE)) * noise * sqrt(2) / sqrt(count))
    lower, upper = (-1.0, inf) if half == inf else (expm1(mean - half), expm1(mean + half))
    return Comparison(
        incumbent=incumbent,
        challenger=challenger,
        pairs=tuple(pairs),
        gain=expm1(mean),
        lower=lower,
        upper=upper,
        better=lower > 0,
        method=f"one-sided {CONFIDENCE:.0%} t bound of the mean log ratio of knees over {count} pairs of boots",
    )


def noise_floor(groups: Sequence[Sequence[Knee]]) -> float:
    """Relative s.d. of a knee between boots of one configuration.

    Each group holds the knees of one configuration's boots on one workload. Pooled s.d. of the log knees, drawn
    towards a prior of 3 % that weighs as much as two repeats: a floor taken from one lucky pair would be none.
    """
    squares, freedom = PRIOR_WEIGHT * NOISE_PRIOR**2, float(PRIOR_WEIGHT)
    for group in groups:
        logs = [log(k.rate_rps) for k in group]
        if len(logs) < 2:
            continue
        mean = sum(logs) / len(logs)
        squares += sum((v - mean) ** 2 for v in logs)
        freedom += len(logs) - 1
    return sqrt(squares / freedom)


def screen_rate(incumbent_knee_rps: float) -> float:
    """The offered rate of the screen rung: 1.05 times the incumbent's knee."""
    return PROMISE * incumbent_knee_rps


def promising(point: LoadPoint, incumbent_knee_rps: float, slo: Slo, noise: float = NOISE_PRIOR) -> tuple[bool, str]:
    """Whether a candidate that was loaded with `screen_rate` deserves a full measurement, and why not.

    It does when it holds the SLO there. It also does when each latency misses its limit by no more than two s.d. of
    noise can move it near the knee, where latency grows about three times faster than load: a missed winner costs
    more than a wasted ladder.
    """
    if point.void and not point.void.startswith("failures"):
        return True, "the screening point was void"
    if point.meets_slo:
        return True, ""
    slack = exp(2 * noise * 3)
    eased = Slo(
        ttft_ms=slo.ttft_ms and slo.ttft_ms * slack,
        ttft_percentile=slo.ttft_percentile,
        tpot_ms=slo.tpot_ms and slo.tpot_ms * slack,
        tpot_percentile=slo.tpot_percentile,
        success_share=slo.success_share,
    )
    if point.void is None and point.steady and not misses(eased, point.ttft_ms, point.tpot_ms, point.success_share):
        return True, "close to the limit"
    why = point.void or "; ".join(point.misses)
    return False, f"at {PROMISE:.2f} x the incumbent's knee ({point.rate_rps or incumbent_knee_rps:.3g}/s): {why}"
