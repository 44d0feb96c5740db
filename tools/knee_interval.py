"""Where one boot's knee may lie for other arrivals: pass or fail near it is a coin flip (S46). Pure.

All points of a boot meet the same arrival pattern, so they cannot show how far another would move them. What they can
show is how much requests differ within a point, and that is what moves a percentile from one pattern to the next: a
window holds about window / mean end-to-end latency stretches that know nothing of each other (a request shares its
time with those it meets), so the percentile p is known no better than p +- z sqrt(p (1 - p) / stretches), read off
the point's own quantiles. That band around a latency, carried over to the rate by the boot's own points (log latency
over log rate), is the interval: where the band's upper edge still holds the limit, and where its lower edge breaks it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log, sqrt
from statistics import NormalDist, fmean

from day0.runs.facts import Knee, LoadPoint, Percentiles
from day0.runs.workload import Workload
from day0.tools.summary import at

CONFIDENCE = 0.90
"""Nominal, two-sided: 5 % on either side."""
NORMAL = NormalDist()
Z = NORMAL.inv_cdf((1 + CONFIDENCE) / 2)
RELAXED = 4.0
LEAST_BAND = 0.01
"""of a log latency: what prompts' contents alone do"""
LEAST_SLOPE = 0.5
"""of log latency over log rate, beyond the outermost point"""
LAST = 0.9995
"""no percentile above this is read off p95 and p99"""
EDGE = 0.02
"""log rate: how far a rate that failed without being slow may be wrong, as steadiness is judged to 2 %"""


@dataclass(frozen=True)
class Row:
    """A rate's log latency over its limit (the worst of all limits; 0 = at the limit), and the band around it."""

    log_rate: float
    level: float
    up: float
    down: float


def interval(points: Sequence[LoadPoint], knee: Knee, workload: Workload) -> tuple[float | None, float | None]:
    """(low, high) in requests/s; None where the boot's own points set no bound on that side.

    Where the SLO limits no latency, or none was near its limit, the bracket stands for it: the passing rate, and the
    second rate that was not steady, since a single one may be chance.
    """
    real = [p for p in points if p.rate_rps and not p.warmup and (p.void is None or p.void.startswith("failures"))]
    if not real:
        return None, None
    rates = sorted({p.rate_rps for p in real if p.rate_rps})
    groups = [[p for p in real if p.rate_rps == rate] for rate in rates]
    rows = [r for g in groups if (r := _row(g, workload)) is not None]
    ragged = [log(r) for r, g in zip(rates, groups, strict=True) if 2 * sum(p.steady for p in g) <= len(g)]
    middle = log(knee.rate_rps)
    low: float | None = None
    high: float | None = None
    if rows:
        near = min(rows, key=lambda r: abs(r.log_rate - middle))
        low, high = min(middle, where(rows, -near.up)), max(middle, where(rows, near.down))
    if not rows or (ragged and not _slow(knee)):
        low = min(low if low is not None else middle, log(knee.passed_rps) - EDGE)
    if len(ragged) > 1:
        high = max(middle, min(high if high is not None else ragged[1] + EDGE, ragged[1] + EDGE))
    return (None if low is None else exp(low)), (None if high is None else exp(high))


def _slow(knee: Knee) -> bool:
    """Whether a latency limits this knee."""
    return knee.bound_by.endswith(("TTFT", "TPOT"))


def _row(points: Sequence[LoadPoint], workload: Workload) -> Row | None:
    seen = [r for p in points if (r := _band(p, workload)) is not None]
    if not seen:
        return None
    level, up, down = (fmean(column) for column in zip(*seen, strict=True))
    return Row(log(points[0].rate_rps or 1.0), level, up, down)


def _band(point: LoadPoint, workload: Workload) -> tuple[float, float, float] | None:
    """(level, up, down) of the worst limit of a point; None when no latency is limited or known."""
    slo, found = workload.slo, []
    for figures, limit, percentile in (
        (point.ttft_ms, slo.ttft_ms, slo.ttft_percentile),
        (point.tpot_ms, slo.tpot_ms, slo.tpot_percentile),
    ):
        if figures is not None and limit is not None and at(figures, percentile) > 0:
            found.append((log(at(figures, percentile) / limit), figures, percentile / 100))
    if not found:
        return None
    level, figures, share = max(found, key=lambda f: f[0])
    stretches = max(1.0, min(float(point.completed), point.window_s / memory_s(point)))
    wide = Z * (1 + (Z * Z + 1) / (4 * stretches))  # Student's t for as few as these, to first order
    reach = wide * sqrt(share * (1 - share) / stretches)
    here = quantile(figures, share)
    up = quantile(figures, min(LAST, share + reach)) - here
    down = here - quantile(figures, max(1 - LAST, share - reach))
    return level, max(LEAST_BAND, up), max(LEAST_BAND, down)


def memory_s(point: LoadPoint) -> float:
    """Seconds over which latencies of a point are alike: a request's time, or what a queue needs to forget.

    A queue forgets within about `RELAXED` times (waiting requests) x (mean wait): the integrated correlation of the
    wait of a busy single server, whose relaxation goes as 1 / (1 - load)^2 (Whitt, Management Science 35, 1989).
    """
    latency_s = point.e2e_ms.mean / 1e3 if point.e2e_ms else point.window_s
    wait_s = point.ttft_ms.mean / 1e3 if point.ttft_ms else 0.0
    return max(1e-9, latency_s, wait_s * (1 + RELAXED * (point.rate_rps or 0.0) * wait_s))


def quantile(figures: Percentiles, share: float) -> float:
    """Log of a latency's quantile: through p50, p95 and p99, straight in the normal score and beyond them."""
    knots = [(NORMAL.inv_cdf(s), log(max(1e-6, v))) for s, v in ((0.5, figures.p50), (0.95, figures.p95))]
    knots.append((NORMAL.inv_cdf(0.99), log(max(1e-6, figures.p99))))
    score = NORMAL.inv_cdf(share)
    (x0, y0), (x1, y1) = knots[:2] if score <= knots[1][0] else knots[1:]
    return y0 + (y1 - y0) * (score - x0) / (x1 - x0)


def where(rows: Sequence[Row], level: float) -> float:
    """The log rate at which the boot's latency reaches a level: straight between points, never falling."""
    rates, levels, most = [r.log_rate for r in rows], [], float("-inf")
    for row in rows:
        most = max(most, row.level)
        levels.append(most)
    i = bisect_left(levels, level)
    if 0 < i < len(rows):
        rise = levels[i] - levels[i - 1]
        return rates[i - 1] + (rates[i] - rates[i - 1]) * (level - levels[i - 1]) / rise
    j = 1 if i == 0 else len(rows) - 1
    slope = 1.0
    if len(rows) > 1:
        slope = max(LEAST_SLOPE, (levels[j] - levels[j - 1]) / (rates[j] - rates[j - 1]))
    end = 0 if i == 0 else len(rows) - 1
    return rates[end] + (level - levels[end]) / slope
