"""Is one candidate better than another? Pairs of boots, the log ratio of their knees, a sequential test. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp, expm1, inf, log, log1p, sqrt
from typing import Literal

from day0.runs.errors import UserError
from day0.runs.facts import Knee, LoadPoint, Pair
from day0.runs.schema import Comparison
from day0.runs.workload import Slo
from day0.tools import sequential
from day0.tools.boundaries import LONGEST
from day0.tools.summary import misses

PROMISE = 1.05
"""A challenger is screened at this multiple of the incumbent's knee."""
NOISE_PRIOR = 0.03
"""Relative s.d. of a knee between boots before any was repeated: published MI355X rows repeat within 2.1 % (s.d.,
without the jumps between days), and a knee's noise is larger than a rate's."""
PRIOR_WEIGHT = 2
MEASURED_PRIOR_WEIGHT = 0.5
"""Once the baseline was booted again on purpose. With three boots that show a noise of 0.8 % a gain must then reach
3.5 %: as much as Student's t asks for with their two degrees of freedom, and a lucky trio is no certainty."""
NEAREST: Mapping[int, float] = {4: 1.66, 5: 2.55}
"""By number of boots: a normal's s.d. over that of the three of them that lie nearest together (root mean square of
400,000 draws)."""
WORTH = 0.01
"""A gain that nobody would change a configuration for."""

Answer = Literal["open", "better", "not better", "not shown"]


def log_ratio(incumbent: Knee, challenger: Knee) -> float:
    """ln(challenger's knee / incumbent's); of a single stream ln(incumbent's TPOT / challenger's)."""
    if incumbent.tpot_ms and challenger.tpot_ms:
        return log(incumbent.tpot_ms / challenger.tpot_ms)
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


def compare(
    pairs: Sequence[Pair], *, incumbent: str, challenger: str, noise: float | None = None, most: int = LONGEST
) -> Comparison:
    """What the pairs show so far, and whether another one is due; `most` pairs are allowed in all.

    `better`: the chance of this verdict without any gain is at most 1 %, over all the looks together (see
    `day0.tools.sequential`). `not better`: the upper bound of the gain is below 1 %. `not shown`: the allowed pairs
    are used up, or a gain of 1 % has become too unlikely. Else `open`. The bounds of the gain are one-sided 95 %, and
    hold at whatever pair one stops.

    `noise`, the relative s.d. of a knee between boots (see `noise_floor`; default 3 %), matters after two pairs only:
    ten times it is what a gain must exceed to stop there. Raises `UserError` without any pair; a single pair has an
    infinite interval and is open.
    """
    if not pairs:
        raise UserError("a comparison needs at least one pair of boots")
    count, floor, figure = len(pairs), NOISE_PRIOR if noise is None else noise, _figure(pairs)
    gain = sum(p.log_ratio for p in pairs) / count
    lower, upper, verdict = -inf, inf, _open(count, most)
    if count > 1:
        import numpy as np

        levels = [_level(p.incumbent, figure) for p in pairs]
        logs = np.array([[(level, level + p.log_ratio) for level, p in zip(levels, pairs, strict=True)]])
        found = sequential.estimates(logs, [p.first == "incumbent" for p in pairs])
        lowers, uppers = sequential.bounds(found, most, sequential.OUTSIDE, floor)
        # the gain is of the pairs; the bounds may rest on the fit over all boots, which a drift moves a little
        lower, upper = min(gain, float(lowers[0])), max(gain, float(uppers[0]))
        if bool(sequential.better(found, most, floor)[0]):
            verdict = "better"
        elif upper < log1p(WORTH):
            verdict = "not better"
        elif verdict == "open" and bool(sequential.hopeless(found, log1p(WORTH))[0]):
            verdict = "not shown"
    return Comparison(
        incumbent=incumbent,
        challenger=challenger,
        pairs=tuple(pairs),
        gain=expm1(gain),
        lower=expm1(lower) if lower > -inf else -1.0,
        upper=expm1(upper) if upper < inf else inf,
        better=verdict == "better",
        method=f"sequential test of the log ratio of {figure} over {count} of at most {min(most, LONGEST)} pairs"
        " of boots: at most 1 % false promotions, repeated one-sided 95 % bounds",
        verdict=verdict,
    )


def _open(count: int, most: int) -> Answer:
    return "open" if count < max(2, min(most, LONGEST)) else "not shown"


def _figure(pairs: Sequence[Pair]) -> str:
    return "TPOTs" if all(p.incumbent.tpot_ms and p.challenger.tpot_ms for p in pairs) else "knees"


def _level(knee: Knee, by: str) -> float:
    """An arm's own level, of which the ratio of a pair is a difference."""
    return log(1 / knee.tpot_ms) if by == "TPOTs" and knee.tpot_ms else log(knee.rate_rps)


def spread(rates: Sequence[float]) -> float:
    """S.d. of the logs of some rates; 0 for fewer than two."""
    if len(rates) < 2:
        return 0.0
    logs = [log(rate) for rate in rates]
    mean = sum(logs) / len(logs)
    return sqrt(sum((v - mean) ** 2 for v in logs) / (len(logs) - 1))


def calm(rates: Sequence[float]) -> float:
    """As `spread`; of four or five boots that of the three nearest to each other, scaled to what it is of all.

    One burst of noise in one boot then says nothing about the others. Of normal logs its square is right in the mean.
    """
    if len(rates) not in NEAREST:
        return spread(rates)
    ordered = sorted(rates)
    nearest = min(zip(ordered, ordered[1:], ordered[2:], strict=False), key=lambda three: three[2] / three[0])
    return min(spread(rates), NEAREST[len(rates)] * spread(nearest))


def noise_floor(
    groups: Sequence[Sequence[Knee]],
    ratios: Sequence[Sequence[float]] = (),
    floors: Sequence[Sequence[float]] = (),
) -> float:
    """Relative s.d. of a knee between boots of one configuration, on the same arrivals.

    Each group holds the knees of one configuration's boots on one workload and the same arrivals; each of `ratios`
    the log ratios of one comparison's pairs, whose two boots shared theirs: their variance is twice that of a boot.
    Pooled s.d. of the log knees, drawn towards a prior of 3 % that weighs as much as two repeats: a floor taken
    from one lucky pair would be none. `floors` are the rates of boots that were repeated for this purpose, three or
    more in a group: with them the prior weighs half a repeat, and one outlier of four or five says nothing (`calm`).
    """
    weight = MEASURED_PRIOR_WEIGHT if any(len(rates) > 2 for rates in floors) else float(PRIOR_WEIGHT)
    squares, freedom = weight * NOISE_PRIOR**2, weight
    told = [([k.rate_rps for k in group], spread) for group in groups] + [(list(rates), calm) for rates in floors]
    for rates, by in told:
        if len(rates) > 1:
            squares += (len(rates) - 1) * by(rates) ** 2
            freedom += len(rates) - 1
    for values in ratios:
        mean = sum(values) / max(1, len(values))
        squares += sum((v - mean) ** 2 for v in values) / 2
        freedom += max(0, len(values) - 1)
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
