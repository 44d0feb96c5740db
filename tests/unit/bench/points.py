"""A server that never was: rows as a load generator would see them."""

from __future__ import annotations

from dataclasses import replace

from day0.runs.workload import MeasureRules, Slo, Workload
from day0.tools.columns import of_rows
from day0.tools.loadplan import PointPlan, arrivals, open_loop, prefix_tokens
from day0.tools.rawpoint import Prime, RawPoint, Row, Sample

RULES = MeasureRules(point_s=20, min_requests=1, p95_multiples=0, max_points=5, max_pairs=3, stability_s=0, short=True)
WORK = Workload(
    name="t", input_tokens=256, output_tokens=64, prefixes=4, cached_share=0.75, slo=Slo(ttft_ms=1500, tpot_ms=60)
)


def plan(rate: float = 4.0, **changes) -> PointPlan:
    return open_loop(WORK, RULES, rate_rps=rate, seed=1, content_seed=1).model_copy(update=changes)


def row(at: float, *, ttft: float = 200.0, tpot: float = 20.0, late: float = 0.0, **changes) -> Row:
    out = WORK.output_tokens
    value = Row(
        planned=at,
        sent=at + late,
        ttft_ms=ttft,
        itl_ms=(tpot,) * (out - 1),
        latency_ms=ttft + tpot * (out - 1),
        output_tokens=out,
        asked_tokens=WORK.input_tokens,
        prompt_tokens=WORK.input_tokens,
        cached_tokens=prefix_tokens(WORK),
        ok=True,
    )
    return value.model_copy(update=changes)


def raw(of: PointPlan, rows: list[Row] | None = None, **changes) -> RawPoint:
    value = RawPoint(
        requests=of_rows(rows if rows is not None else [row(t) for t in arrivals(of)]),
        primes=tuple(Prime(prefix=p, cached_tokens=prefix_tokens(WORK)) for p in range(WORK.prefixes)),
        samples=tuple(Sample(at_s=float(t), running=5.0, queued=0.0, kv_use=0.3) for t in range(-5, 21)),
        cpu_share=0.1,
    )
    return replace(value, **changes)
