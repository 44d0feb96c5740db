"""The highest rate at which a layout is expected to hold a workload's limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from day0.runs.values import Frozen
from day0.runs.workload import Workload
from day0.tools.forecast import steptime
from day0.tools.forecast.estimate import Estimate, Forecaster
from day0.tools.forecast.point import Point, columns, running_cap
from pydantic import Field

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

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
    if workload.arrival == "single_stream":
        loads = [1.0]
    else:
        cap = min(running_cap(point_under(workload, base, 1.0))[0], float(GRAPH_REQUESTS * base.attention_groups))
        top = max(cap * base.replicas, 1.0)
        loads = sorted({max(1.0, top ** (i / (STEPS - 1))) for i in range(STEPS)})
    points = [point_under(workload, base, n) for n in loads]
    made = forecaster.predict(points)
    tails = tail_ttft_ms(points, forecaster)
    slo, best = workload.slo, None
    for i, (estimate, tail) in enumerate(zip(made, tails, strict=True)):
        if slo.ttft_ms is not None and tail > slo.ttft_ms:
            return _with(best, "ttft")
        if slo.tpot_ms is not None and estimate.tpot_ms > slo.tpot_ms:
            return _with(best, "tpot")
        if best is None or estimate.requests_s > best.rate_rps:
            best = ExpectedKnee(
                rate_rps=estimate.requests_s, output_tok_s=estimate.requests_s * workload.output_tokens, ttft_ms=tail,
                tpot_ms=estimate.tpot_ms, clients=loads[i], bound_by="cap", estimate=estimate,
            )  # fmt: skip
    return _with(best, "load" if len(loads) == 1 else "cap")


def _with(best: ExpectedKnee | None, bound_by: str) -> ExpectedKnee | None:
    return None if best is None else best.model_copy(update={"bound_by": bound_by})


def tail_ttft_ms(points: Sequence[Point], forecaster: Forecaster) -> list[float]:
    """95th percentile of TTFT under Poisson arrivals, ms: own prompt, a step, and three times the mean wait.

    The mean wait is that of one queue with constant service (Pollaczek-Khinchine): s x u / (2 (1 - u)), u the share
    of engine time that prompts take.
    """
    import numpy as np

    k = forecaster.coefficients.values
    c = columns(points)
    found = steptime.predict(c, k)
    busy = np.minimum(found.requests * found.prefill, 0.98)
    wait = found.prefill * busy / (2.0 * (1.0 - busy))
    tail = found.prefill + 2.0 * found.step + np.exp(k["admission"]) + 3.0 * wait
    return [float(1e3 * t) for t in tail]
