"""From a raw point to a load point: percentiles, throughput by window, steadiness, and why it does not count. Pure.

Percentiles are over the requests that arrived in the timed window and completed; throughput counts the tokens that
were delivered within the window. A closed loop (saturation probe, single stream) counts every completed request.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from day0.runs.facts import LoadPoint, Percentiles
from day0.runs.workload import MeasureRules, Slo
from day0.tools.fidelity import cached_tokens, wrong_cache, wrong_lengths
from day0.tools.loadplan import PointPlan
from day0.tools.rawpoint import RawPoint
from day0.tools.trend import growth

if TYPE_CHECKING:
    from day0.tools.columns import Columns, Counts, Marks, Numbers

STEADY_SHARE = 0.02
"""Completed may lag behind offered by this share, plus what chance alone does to a queue of that length."""
CHANCE = 1.5
"""s.d. of the difference of two Poisson counts that the requests in flight may grow by. With the arrivals' own part
taken out, simulated servers below their limit were called unsteady in 0 to 3 % of short windows (as two s.d. without
it: in 4 to 9 %), and those at 1.25 times their limit three times as often as before."""
TTFT_GROWTH, TTFT_LIMIT_SHARE = 0.5, 0.25
"""A surely positive trend counts when it adds this share of the median TTFT, and this share of the limit, if any."""
QUEUE_GROWTH = 1.0
HARNESS_CPU = 0.9
LAG_MS = 50.0


def summarise(plan: PointPlan, raw: RawPoint, rules: MeasureRules, slo: Slo | None = None) -> LoadPoint:
    """What the point says against the SLO (default: the workload's own)."""
    slo = slo or plan.workload.slo
    if lost := bool(raw.stopped and (raw.ended_s or 0.0) > 0):
        plan = plan.ended(min(plan.window_s, raw.ended_s or 0.0))
    asked, window = raw.requests, plan.window_s
    rows = counted(plan, asked)
    good = rows & asked.ok
    whole = plan.rate_rps is not None and not lost
    offered, completed = plan.offered if whole else int(rows.sum()), int(good.sum())
    share = completed / offered if offered else 0.0
    output = delivered(asked, window) / window
    prefilled = (asked.ttft_ms > 0) & (asked.first_s >= 0.0) & (asked.first_s < window)
    prompt, cached = float(asked.prompt[prefilled].sum()), cached_tokens(asked, prefilled)
    tpot = percentiles(_known(asked.tpot_ms[good]))
    ttft = percentiles(waited_ms(asked, rows) if lost else asked.ttft_ms[good])
    unsteady = unsteadiness(plan, raw, rows) if plan.rate_rps is not None else ()
    void = void_reason(plan, raw, rows, 1.0 if lost else share, slo)
    missed = (raw.stopped, *misses(slo, ttft, tpot, 1.0)) if lost else misses(slo, ttft, tpot, share)
    samples = [s for s in raw.samples if -plan.lead_s <= s.at_s <= window]
    accepted = [s.acceptance_length for s in samples if s.acceptance_length is not None]
    streamed = good[asked.owner]
    point = LoadPoint(
        workload=plan.workload.name,
        rate_rps=plan.rate_rps,
        concurrency=plan.concurrency,
        seed=plan.seed,
        window_s=window,
        offered=offered,
        completed=completed,
        failed=max(0, offered - completed),
        output_tok_s=output,
        total_tok_s=output + prompt / window,
        uncached_tok_s=None if cached is None else (prompt - cached) / window,
        ttft_ms=ttft,
        tpot_ms=tpot,
        itl_ms=percentiles(asked.itl_ms[streamed], None if asked.times is None else asked.times[streamed]),
        e2e_ms=percentiles(asked.latency_ms[good]),
        success_share=min(1.0, share),
        cached_share=cached / prompt if cached is not None and prompt else None,
        acceptance_length=accepted[-1] if accepted else None,
        duty=output * tpot.mean / 1e3 if tpot else None,
        harness_cpu=raw.cpu_share,
        running_max=_most(s.running for s in samples),
        queue_max=_most(s.queued for s in samples),
        kv_use_max=_most(s.kv_use for s in samples),
        steady=not unsteady and not lost,
        meets_slo=not missed and not unsteady and void is None,
        void=void,
        slow_share=raw.slow_share,
        misses=(*missed, *unsteady),
        short=rules.short,
        text=plan.workload.text,
        temperature=plan.workload.temperature,
        forced_tokens=forced_tokens(asked, good),
        answer_tokens=int(asked.output_tokens[good].sum()),
        smoke=plan.workload.smoke,
        warmup=plan.warmup,
    )
    return point.model_copy(update={"plateau": plateau(point, raw.max_running)})


def counted(plan: PointPlan, asked: Columns) -> Marks:
    """The requests that the point is about: arrived in the window; in a closed loop all but those cut at its end."""
    if plan.rate_rps is not None:
        return (asked.planned >= 0.0) & (asked.planned < plan.window_s)
    whole = ~asked.named("cut")
    ended = whole & (asked.ended_s >= 0.0)
    return ended if ended.any() else whole


def waited_ms(asked: Columns, rows: Marks) -> Numbers:
    """TTFT of a point that was ended early: where no token came yet, as long as the request had waited, at least."""
    waiting = asked.ttft_ms <= 0
    out = asked.ttft_ms.copy()
    out[waiting] = asked.latency_ms[waiting]
    return out[rows]


def forced_tokens(asked: Columns, rows: Marks) -> int | None:
    """Output tokens past the end of text of these requests; None where the load generator can't tell."""
    known = None if asked.forced_tokens is None else _known(asked.forced_tokens[rows])
    return int(known.sum()) if known is not None and len(known) else None


def delivered(asked: Columns, window_s: float) -> float:
    """Output tokens that came within the window: as the load generator counted them, else by their gaps."""
    tokens = asked.tokens_within(0.0, window_s) if asked.in_window is None else asked.in_window
    return float(tokens.sum())


def percentiles(values: Sequence[float] | Numbers, times: Sequence[int] | Counts | None = None) -> Percentiles | None:
    """Mean, p50, p95, p99 by linear interpolation between order statistics; `times`: how often each value came."""
    import numpy as np

    given = np.asarray(values, dtype=np.float64)
    if not len(given):
        return None
    if times is None:
        p50, p95, p99 = (float(v) for v in np.percentile(given, (50, 95, 99)))
        return Percentiles(mean=float(given.mean()), p50=p50, p95=p95, p99=p99)
    order = np.argsort(given)
    ordered, upto = given[order], np.cumsum(np.asarray(times)[order])
    place = np.array((0.50, 0.95, 0.99)) * (upto[-1] - 1)
    below = ordered[np.searchsorted(upto, np.floor(place), side="right")]
    above = ordered[np.searchsorted(upto, np.ceil(place), side="right")]
    p50, p95, p99 = (float(v) for v in below + (above - below) * (place - np.floor(place)))
    return Percentiles(mean=float(np.average(given, weights=np.asarray(times))), p50=p50, p95=p95, p99=p99)


def at(figures: Percentiles, percentile: int) -> float:
    """The percentile that an SLO names."""
    return {50: figures.p50, 95: figures.p95, 99: figures.p99}[percentile]


def misses(slo: Slo, ttft: Percentiles | None, tpot: Percentiles | None, share: float) -> tuple[str, ...]:
    """Which limits of the SLO were missed, in words."""
    out = []
    for name, figures, limit, percentile in (
        ("TTFT", ttft, slo.ttft_ms, slo.ttft_percentile),
        ("TPOT", tpot, slo.tpot_ms, slo.tpot_percentile),
    ):
        if limit is not None and figures is not None and at(figures, percentile) > limit:
            out.append(f"p{percentile} {name} {at(figures, percentile):.0f} ms > {limit:.0f} ms")
    if share < slo.success_share:
        out.append(f"{share:.1%} of the requests succeeded, {slo.success_share:.1%} asked")
    return tuple(out)


def unsteadiness(plan: PointPlan, raw: RawPoint, rows: Marks) -> tuple[str, ...]:
    """Why a point is not steady, in words; empty = steady.

    Requests in flight may grow from the first to the last third of the window by what these very arrivals make of a
    server that takes the same time for each (bursts late in a window of few requests are no failure of the server),
    and by 2 % of what was offered between the thirds' middles plus what chance alone does to such a population; queue
    and TTFT may show no positive trend that matters.
    """
    asked, window, out = raw.requests, plan.window_s, []
    early, late = _in_flight(asked.sent, asked.ended_s, window)
    grown = late - early - _by_arrivals(asked, rows, plan)
    between = plan.offered * 2 / 3
    if grown > STEADY_SHARE * between + CHANCE * math.sqrt(max(1.0, early + late)):
        share = max(0.0, 1 - grown / between)
        out.append(f"completed {share:.0%} of what was offered: {early:.1f} in flight grew to {late:.1f}")
    queue = [(s.at_s, s.queued) for s in raw.samples if s.queued is not None and 0.0 <= s.at_s <= window]
    rise, sure = growth([t for t, _ in queue], [q for _, q in queue])
    if sure and rise > max(QUEUE_GROWTH, STEADY_SHARE * plan.offered):
        out.append(f"the queue grew by {rise:.1f} requests")
    began = rows & (asked.ttft_ms > 0)
    order = asked.sent[began].argsort(kind="stable")
    waits = asked.ttft_ms[began][order]
    rise, sure = growth(asked.sent[began][order], waits)
    middle = float(sorted(waits)[len(waits) // 2]) if len(waits) else 0.0
    if sure and rise > max(TTFT_GROWTH * middle, TTFT_LIMIT_SHARE * (plan.workload.slo.ttft_ms or 0.0)):
        out.append(f"TTFT grew by {rise:.0f} ms over the window")
    return tuple(out)


def _by_arrivals(asked: Columns, rows: Marks, plan: PointPlan) -> float:
    """Growth of the requests in flight if each stayed for the median of the counted ones, at most the lead-in.

    No longer than that: what was sent before the lead-in is not there, so a longer stay would take the filling of an
    overloaded server for the arrivals' doing.
    """
    stays = (asked.ended_s - asked.sent)[rows & asked.ok]
    if not len(stays):
        return 0.0
    stay = min(float(sorted(stays)[len(stays) // 2]), plan.lead_s)
    early, late = _in_flight(asked.sent, asked.sent + stay, plan.window_s)
    return late - early


def _in_flight(sent: Numbers, ended: Numbers, window: float) -> tuple[float, float]:
    """Mean number of requests between send and end within the first and within the last third of the window."""
    thirds = ((0.0, window / 3), (2 * window / 3, window))
    early, late = (float((ended.clip(max=end) - sent.clip(min=start)).clip(min=0.0).sum()) for start, end in thirds)
    return early / (window / 3), late / (window / 3)


def void_reason(plan: PointPlan, raw: RawPoint, rows: Marks, share: float, slo: Slo) -> str | None:
    """Why a point does not count at all; its first word names the kind."""
    asked, count = raw.requests, int(rows.sum())
    if raw.cut or (raw.stopped and not (raw.ended_s or 0.0) > 0):
        return f"cut: {raw.cut or raw.stopped}"
    if not count:
        return "empty: no request was counted"
    if share < slo.success_share:
        failed = (rows & ~asked.ok).nonzero()[0]
        bad = asked.errors[failed[0]] if len(failed) else "never sent"
        return f"failures: {count - len(failed)} of {max(plan.offered, count)} requests succeeded ({bad})"
    return (
        wrong_lengths(plan, raw, rows & asked.ok)
        or _jit(plan, raw)
        or wrong_cache(plan, raw, rows)
        or _slow_harness(raw, rows, slo)
    )


def _jit(plan: PointPlan, raw: RawPoint) -> str | None:
    lines = sum(s.jit_lines for s in raw.samples if 0.0 < s.at_s <= plan.window_s)
    return f"compile: {lines} compile lines within the timed window" if lines and not plan.warmup else None


def _slow_harness(raw: RawPoint, rows: Marks, slo: Slo) -> str | None:
    if raw.cpu_share is not None and raw.cpu_share > HARNESS_CPU:
        return f"harness: the load generator used {raw.cpu_share:.0%} of its core"
    late = sorted(_known(1e3 * (raw.requests.sent - raw.requests.planned)[rows]))
    limit = max(LAG_MS, 0.1 * (slo.ttft_ms or 0.0))
    if late and (worst := late[int(0.95 * (len(late) - 1))]) > limit:
        return f"harness: requests were sent {worst:.0f} ms late (p95)"
    return None


def plateau(point: LoadPoint, max_running: int | None) -> str:
    """What holds requests back, if they queue: `admission cap`, `kv cap` or `prefill-bound`; empty = nothing does."""
    if not point.queue_max:
        return ""
    if max_running and point.running_max is not None and point.running_max >= 0.95 * max_running:
        return "admission cap"
    if point.kv_use_max is not None and point.kv_use_max >= 0.95:
        return "kv cap"
    return "prefill-bound"


def capacity_rps(point: LoadPoint, output_tokens: int) -> float:
    """Requests/s that a saturation probe delivered: its output tok/s over the tokens of a request."""
    return point.output_tok_s / output_tokens


def _known(values: Numbers) -> Numbers:
    """Without NaN."""
    import numpy as np

    return values[~np.isnan(values)]


def _most(values: Iterable[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return max(known, default=None)
