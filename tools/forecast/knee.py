"""The highest rate at which a layout is expected to hold a workload's limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from day0.runs.values import Frozen
from day0.runs.workload import Workload
from day0.tools.forecast.estimate import Estimate, Forecaster
from day0.tools.forecast.point import Point, running_cap
from pydantic import Field

STEPS = 24
"""Loads tried between one client and the cap, in equal ratios: 40 % apart at most."""

GRAPH_REQUESTS = 512
"""Decode batch up to which SGLang captures graphs on an MI355X; beyond it steps are launched kernel by kernel."""


class ExpectedKnee(Frozen):
    """Where a layout stops holding the limits. Throughputs per whole layout (all its accelerators)."""

    rate_rps: float
    output_tok_s: float
    ttft_ms: float = Field(description="at the percentile of the limit")
    tpot_ms: float
    clients: float
    bound_by: str = Field(description="ttft, tpot, cap or load")
    estimate: Estimate


def point_under(workload: Workload, base: Point, clients: float) -> Point:
    """The layout of `base` under a workload with so many clients in flight."""
    return replace(base, input_tokens=float(workload.input_tokens), output_tokens=float(workload.output_tokens),
                   cached=workload.cached_share, load="closed", concurrency=clients, rate_rps=None)  # fmt: skip


def knee(base: Point, workload: Workload, forecaster: Forecaster) -> ExpectedKnee | None:
    """The knee, or None where even one request at a time breaks a limit."""
    return knees([base], workload, forecaster)[0]


def knees(bases: Sequence[Point], workload: Workload, forecaster: Forecaster) -> tuple[ExpectedKnee | None, ...]:
    """The knee of each layout; all their loads are predicted in one pass."""
    ladders = [_ladder(base, workload) for base in bases]
    made = forecaster.predict([point for ladder in ladders for point in ladder])
    found, start = [], 0
    for ladder in ladders:
        found.append(_climb(ladder, made[start : start + len(ladder)], workload))
        start += len(ladder)
    return tuple(found)


def _ladder(base: Point, workload: Workload) -> list[Point]:
    if workload.clients is not None:
        return [point_under(workload, base, float(workload.clients))]
    cap = min(running_cap(point_under(workload, base, 1.0))[0], float(GRAPH_REQUESTS * base.attention_groups))
    top = max(cap * base.replicas, 1.0)
    loads = sorted({max(1.0, top ** (i / (STEPS - 1))) for i in range(STEPS)})
    return [point_under(workload, base, load) for load in loads]


def _climb(ladder: Sequence[Point], made: Sequence[Estimate], workload: Workload) -> ExpectedKnee | None:
    slo, best = workload.slo, None
    bound_by = "cap" if len(ladder) > 1 else "load"
    for point, estimate in zip(ladder, made, strict=True):
        ttft = estimate.ttft_p50_ms if slo.ttft_percentile == 50 else estimate.ttft_p95_ms
        if slo.ttft_ms is not None and ttft > slo.ttft_ms:
            bound_by = "ttft"
            break
        if slo.tpot_ms is not None and estimate.tpot_ms > slo.tpot_ms:
            bound_by = "tpot"
            break
        if best is None or estimate.requests_s > best.rate_rps:
            best = ExpectedKnee(
                rate_rps=estimate.requests_s, output_tok_s=estimate.requests_s * workload.output_tokens, ttft_ms=ttft,
                tpot_ms=estimate.tpot_ms, clients=point.concurrency or 1.0, bound_by="", estimate=estimate,
            )  # fmt: skip
    return None if best is None else best.model_copy(update={"bound_by": bound_by})
