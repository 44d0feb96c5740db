"""What a report draws of a run, as values: latency against load, throughput against interactivity, the changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from day0.agent.barring import Bar, Waterfall
from day0.agent.drawing import Chart, Mark, Series
from day0.agent.policy.untrusted import line
from day0.agent.printing import short
from day0.runs.facts import Rung
from day0.runs.points import LoadPoint
from day0.runs.schema import Attempt
from day0.runs.workload import Workload
from day0.tools import pareto
from day0.tools.summary import at


def label_of(workload: Workload, attempts: Iterable[Attempt], *, simulated: bool) -> str:
    """What stands inside every picture."""
    is_short = any(k.short for a in attempts for _, _, k in a.knees if k.workload == workload.name)
    return ", ".join(["simulated"] * simulated + ["short"] * is_short + ["smoke"] * workload.smoke)


def measured(attempt: Attempt, workload: Workload) -> tuple[LoadPoint, ...]:
    """The points of its last boot that was measured, in order of their rates."""
    boot = max((b for b, rung, p in attempt.points if rung == Rung.MEASURE and p.workload == workload.name), default=0)
    own = [p for b, rung, p in attempt.points if b == boot and rung == Rung.MEASURE and p.workload == workload.name]
    return tuple(sorted((p for p in own if not p.warmup), key=lambda p: p.rate_rps or 0.0))


def curves(workload: Workload, shown: Mapping[str, Attempt], label: str) -> Chart:
    """Latency against the offered rate, with the limit of the workload and each knee in its interval."""
    slo, series, marks = workload.slo, list[Series](), list[Mark]()
    binding = slo.ttft_ms is not None or slo.tpot_ms is None
    for name, attempt in shown.items():
        spots = []
        for p in measured(attempt, workload):
            seen = p.ttft_ms if binding else p.tpot_ms
            if p.rate_rps and seen is not None and p.void is None:
                spots.append((p.rate_rps, at(seen, slo.ttft_percentile if binding else slo.tpot_percentile)))
        knee = attempt.knee(workload.name)
        if spots and knee is not None:
            low = knee.low_rps if knee.low_rps is not None else knee.passed_rps
            high = knee.high_rps if knee.low_rps is not None else knee.failed_rps
            told = f"knee of {name} {knee.rate_rps:.3g}/s"
            marks.append(Mark(knee.rate_rps, told, low, high, len(series)))
        notes = tuple(f"{name}: {x:.3g}/s, {y:.0f} ms" for x, y in spots)
        if spots:
            series.append(Series(f"{name} {short(attempt.id)}", tuple(spots), notes=notes))
    limit = slo.ttft_ms if binding else slo.tpot_ms
    what = f"p{slo.ttft_percentile} TTFT" if binding else f"p{slo.tpot_percentile} TPOT"
    line_ = None if limit is None else (limit, f"limit {limit:g} ms")
    title = f"Latency against load, {workload.name}"
    return Chart(title, "offered requests/s per node", f"{what}, ms", series, line_, marks=marks, label=label)


def tokens(workload: Workload, shown: Mapping[str, Attempt], label: str) -> Chart:
    """The same of the time per token, where both latencies are limited: often it is the one that binds."""
    slo = workload.slo
    if slo.ttft_ms is None or slo.tpot_ms is None:
        return Chart("", "", "", ())
    only = workload.model_copy(update={"slo": slo.model_copy(update={"ttft_ms": None})})
    made = curves(only, shown, label)
    title = f"Time per token against load, {workload.name}"
    return Chart(title, made.x, made.y, made.series, made.limit, marks=made.marks, label=label)


def interactivity(workload: Workload, attempts: Iterable[Attempt], shown: Mapping[str, Attempt], label: str) -> Chart:
    """Throughput per accelerator held against tok/s per user: all sound points and the frontier."""
    found = {a.id: spots_of(a, workload) for a in attempts}
    every = [s for spots in found.values() for s in spots]
    edge = pareto.frontier(every)
    series = [
        *(Series(f"{k} {short(a.id)}", _pairs(found[a.id]), notes=_notes(found[a.id])) for k, a in shown.items()),
        Series("frontier of all", _pairs(edge), notes=_notes(edge), faint=True),
        Series("all attempts", _pairs(every), joined=False, faint=True, notes=_notes(every)),
    ]
    held = any(a.candidate.gpus_held > 1 for a in shown.values())
    name = "output tok/s per accelerator held" if held else "output tok/s per node"
    title = f"Throughput against interactivity, {workload.name}"
    slo, wall = workload.slo, None
    if slo.tpot_ms is not None and slo.tpot_percentile == 50:
        wall = (1e3 / slo.tpot_ms, f"limit {slo.tpot_ms:g} ms TPOT: at least {1e3 / slo.tpot_ms:.3g} tok/s per user")
    return Chart(title, "output tok/s per user (1 / median TPOT)", name, series, wall=wall, label=label)


def changes(workload: Workload, rows: Sequence[Mapping[str, Any]], label: str) -> Waterfall:
    """The waterfall of accepted changes, each with what the winner falls back to without it."""
    bars, before = [], 0.0
    total = next((row["total"] for row in reversed(rows) if row["total"] is not None), None)
    for row in rows:
        one = row["ablation"] or {}
        gain = one.get("gain")
        without = (1 + total) / (1 + gain) - 1 if gain is not None and total is not None else None
        first, *more = str(row["change_words"]).split(", ")
        name = f"{short(row['attempt'])}: {line(first, 40)}" + (f" and {len(more)} more" if more else "")
        lost = "" if gain is None else f"without it the winner loses {1 - 1 / (1 + gain):.1%}"
        bars.append(Bar(name, before, row["total"], without, lost or line(row["ablation_words"], 70)))
        before = row["total"] if row["total"] is not None else before
    return Waterfall(f"What each change brought, {workload.name}", bars, label)


def spots_of(attempt: Attempt, workload: Workload) -> tuple[pareto.Spot, ...]:
    """An attempt's points, by the accelerators that it holds."""
    return pareto.spots(measured(attempt, workload), attempt.candidate.gpus_held, short(attempt.id))


def _pairs(found: Iterable[pareto.Spot]) -> tuple[tuple[float, float], ...]:
    return tuple((s.user_tok_s, s.held_tok_s) for s in found)


def _notes(found: Iterable[pareto.Spot]) -> tuple[str, ...]:
    return tuple(f"{s.name}: {s.user_tok_s:.1f} tok/s per user, {s.held_tok_s:.4g}" for s in found)
