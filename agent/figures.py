"""The figures of a recipe: what is published, at which offered rate, within which range it must come again. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import exp, sqrt
from typing import Any

from day0.runs.errors import UserError
from day0.runs.facts import Knee, LoadPoint
from day0.runs.recipe import Conditions, Figure, Recipe
from day0.runs.workload import Workload
from day0.tools.summary import at

KNEE, RATE, GOODPUT, TTFT, TPOT = "knee", "offered_rate", "output", "ttft", "tpot"
SIGMAS = 2.5
"""half width of a range in s.d. of boot-to-boot noise: about one replay in eighty falls outside by chance"""
LEAST_HALF_WIDTH = 0.05
SHORT_HALF_WIDTH = 0.1
"""of a throughput within a few seconds at least: the same rate and arrivals on one boot came 0.4 to 4.6 % apart in
windows of 8 s"""
MOST_HALF_WIDTH = 0.3
"""a wider range would call anything the same"""
SLOPE = 3.0
"""near the knee a latency moves about three times as far as the knee does (log over log)"""


@dataclass(frozen=True)
class OwnBoot:
    """A boot of the winner on one workload: its knee, and the points that it was bracketed by."""

    knee: Knee
    points: tuple[LoadPoint, ...] = ()


def figures(
    workload: Workload, boots: Sequence[OwnBoot], noise: float, *, simulated: bool = False
) -> tuple[Figure, ...]:
    """The knee, and what the node gave at the highest rate that passed on every boot. Throughputs are per node.

    `boots` are all of the winner's, `measure`'s first. The confirming boots looked closely at a known knee, so they
    set it where there are any. Its range is what their brackets enclose, widened by the noise: a replay is another
    bracket. The rate is that of the boot that passed least: `measure`'s own was chosen for being high (a winner's
    curse), and a replay would start above its knee.
    """
    knees = [boot.knee for boot in boots]
    least = min(boots, key=lambda boot: boot.knee.passed_rps)
    rate, narrow = least.knee.passed_rps, knees[1:] or knees
    label: Any = ", ".join(["smoke"] * workload.smoke + ["short"] * knees[0].short + ["simulated"] * simulated)
    mean = sum(k.rate_rps for k in narrow) / len(narrow)
    half = min(MOST_HALF_WIDTH, max(LEAST_HALF_WIDTH, SIGMAS * noise))
    low = min(k.passed_rps for k in narrow) * exp(-half)
    above = [k.failed_rps for k in narrow if k.failed_rps is not None]
    high = _r(max(above) * exp(half)) if len(above) == len(narrow) else None
    out = [
        Figure(
            name=KNEE, unit="requests/s", value=_r(mean), low=_r(low), high=high, interval=_over(narrow), label=label
        ),
        Figure(name=RATE, unit="requests/s", value=rate, label=label),
    ]
    seen = at_rate(least.points, rate, workload)
    if GOODPUT in seen:
        value, wide = seen[GOODPUT], max(half, _short(least) if knees[0].short else 0.0)
        out.append(
            Figure(
                name=GOODPUT,
                unit="tok/s",
                value=_r(value),
                low=_r(value * exp(-wide)),
                high=_r(value * exp(wide)),
                label=label,
            )
        )
    slack = exp(min(MOST_HALF_WIDTH, SLOPE * half))
    for name, limit in ((TTFT, workload.slo.ttft_ms), (TPOT, workload.slo.tpot_ms)):
        if name in seen and limit is not None:
            # a latency at the edge of its limit comes again as often above as below it: that is noise, not a broken
            # recipe; whether the SLO still holds is the knee's to say
            high = max(limit, _r(seen[name] * slack))
            out.append(Figure(name=name, unit="ms", value=_r(seen[name]), high=high, label=label))
    return tuple(out)


def _short(boot: OwnBoot) -> float:
    """Half width of the range of a throughput within a short window, by what stands across the window's two ends.

    Of a request that is in flight at an end a share lies inside, uniform in the mean: n in flight (a Poisson number)
    add a variance of n / 3 requests at each end. A replay is another such window, hence twice that again.
    """
    offered = max((p.offered for p in boot.points if p.rate_rps == boot.knee.passed_rps), default=0)
    if not offered or not boot.knee.in_flight:
        return SHORT_HALF_WIDTH
    return min(MOST_HALF_WIDTH, max(SHORT_HALF_WIDTH, SIGMAS * sqrt(4 / 3 * boot.knee.in_flight) / offered))


def conditions(workload: Workload, boots: Sequence[OwnBoot]) -> Conditions:
    """Under which the figures stand, as the last sound point at the figures' rate saw them."""
    least = min(boots, key=lambda boot: boot.knee.passed_rps)
    good = _sound(least.points, least.knee.passed_rps)
    seen = good[-1] if good else None
    forced = None if seen is None else seen.forced_share
    return Conditions(
        text=workload.text,
        temperature=workload.temperature,
        acceptance_length=seen.acceptance_length if seen else None,
        forced_share=None if forced is None else _r(forced),
        cached_share=_r(seen.cached_share) if seen and seen.cached_share is not None else None,
    )


def _over(knees: Sequence[Knee]) -> tuple[float | None, float | None] | None:
    """The intervals over arrivals of boots as one; None where no boot has any."""
    lows, highs = [k.low_rps for k in knees], [k.high_rps for k in knees]
    if all(side is None for side in (*lows, *highs)):
        return None
    low, high = ([side for side in sides if side is not None] for sides in (lows, highs))
    return (
        _r(min(low)) if len(low) == len(knees) else None,
        _r(max(high)) if len(high) == len(knees) else None,
    )


def _sound(points: Iterable[LoadPoint], rate: float) -> list[LoadPoint]:
    return [p for p in points if p.void is None and (p.rate_rps is None or abs(p.rate_rps / rate - 1) < 1e-6)]


def at_rate(points: Iterable[LoadPoint], rate: float, workload: Workload) -> dict[str, float]:
    """The figures of the last sound point at an offered rate (single stream: of the only point)."""
    good = _sound(points, rate)
    if not good:
        return {}
    point, out = good[-1], {GOODPUT: good[-1].output_tok_s}
    if point.ttft_ms is not None:
        out[TTFT] = at(point.ttft_ms, workload.slo.ttft_percentile)
    if point.tpot_ms is not None:
        out[TPOT] = at(point.tpot_ms, workload.slo.tpot_percentile)
    return out


def proven_rate(recipe: Recipe) -> float:
    """The offered rate at which the recipe's figures stand. Raises `UserError` for a recipe without one."""
    found = recipe.figure(RATE)
    if found is None:
        raise UserError(f"this recipe has no figure `{RATE}`: nothing to measure again")
    return found.value


def _r(value: float) -> float:
    """Six significant digits: enough for any use, and the same text everywhere."""
    return float(f"{value:.6g}")
