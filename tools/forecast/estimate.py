"""Figures with intervals for points, zero-shot or anchored on measured ones of the same model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from day0.runs.values import Frozen
from day0.tools.forecast import steptime
from day0.tools.forecast.coefficients import Coefficients, shipped
from day0.tools.forecast.point import Point, columns, running_cap
from day0.tools.forecast.stacks import layout
from pydantic import ConfigDict, Field

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

STRANGE = 1.3
"""Intervals widen by this power where accelerator or engine stands in no fitted row."""


class Estimate(Frozen):
    """What a point is expected to do. Throughputs are per accelerator held; times in milliseconds.

    `low` and `high` are factors on every throughput that hold the truth in 80 of 100 cases; TPOT takes their inverse.
    """

    output_tok_s: float
    total_tok_s: float
    input_tok_s: float
    requests_s: float = Field(description="of all replicas")
    tpot_ms: float
    ttft_p50_ms: float
    ttft_p95_ms: float = Field(description="under Poisson arrivals at this rate")
    low: float
    high: float
    running: float = Field(description="requests in decode per replica")
    cap: float = Field(description="requests that one replica runs at once")
    capped_by: str = Field(description="asked, silent or memory; empty where the load stays below")
    anchored: int = Field(default=0, description="measured points it is anchored on")
    assumes: str


class Anchor(Frozen):
    """A measured point: tokens/s per accelerator, of the kind that `total` says (input + output, or output only)."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    point: Point
    tok_s_per_gpu: float = Field(gt=0)
    total: bool = True


class Forecaster:
    """Predicts points. `anchored` gives one that has learned from measured points; self stays as it was."""

    def __init__(self, coefficients: Coefficients | None = None, anchors: Sequence[Anchor] = ()) -> None:
        self.coefficients = coefficients or shipped()
        self._anchors = tuple(anchors)
        self._residuals: Array | None = None

    def anchored(self, anchors: Sequence[Anchor]) -> Forecaster:
        """A forecaster that also knows these measured points."""
        return Forecaster(self.coefficients, (*self._anchors, *anchors))

    def predict(self, points: Sequence[Point]) -> tuple[Estimate, ...]:
        """An estimate for each point, in order."""
        if not points:
            return ()
        values = self.coefficients.values
        found = steptime.predict(columns(points), values)
        tails = steptime.tail_ttft(found, values)
        shift, spread = self._correction(points)
        out = []
        for i, point in enumerate(points):
            gain = math.exp(float(shift[i]))
            rate = float(found.requests[i]) * point.replicas * (1.0 if point.load == "open" else gain)
            slow = 1e3 / gain
            cap, why = running_cap(point)
            low, high = self._interval(point, spread[i])
            known = sum(a.point.family == point.family for a in self._anchors)
            out.append(Estimate(
                output_tok_s=rate * point.output_tokens / point.gpus,
                total_tok_s=rate * (point.input_tokens + point.output_tokens) / point.gpus,
                input_tok_s=rate * point.input_tokens / point.gpus, requests_s=rate,
                tpot_ms=slow * float(found.tpot[i]), ttft_p50_ms=slow * float(found.ttft[i]),
                ttft_p95_ms=slow * float(tails[i]), low=low, high=high, running=float(found.decoding[i]), cap=cap,
                capped_by=why if (point.concurrency or 0.0) / point.replicas > cap else "", anchored=known,
                assumes=assumption(point, known),
            ))  # fmt: skip
        return tuple(out)

    def _interval(self, point: Point, spread: float | None) -> tuple[float, float]:
        if spread is not None:
            return math.exp(-1.2816 * spread), math.exp(1.2816 * spread)
        lower, upper = self.coefficients.intervals["agentic" if point.agentic else "closed"]
        known = self.coefficients.provenance
        strange = point.hardware.name not in known.accelerators or point.engine not in known.engines
        power = STRANGE if strange else 1.0
        return math.exp(-power * upper), math.exp(-power * lower)

    def _correction(self, points: Sequence[Point]) -> tuple[Array, list[float | None]]:
        """Expected ln(measured / predicted) of each point given the anchors, and what remains uncertain (s.d.)."""
        import numpy as np

        if not self._anchors:
            return np.zeros(len(points)), [None] * len(points)
        held = [a.point for a in self._anchors]
        seen = self._seen()
        rules = self.coefficients.anchor
        inner = self._kernel(held, held) + rules.noise**2 * np.eye(len(held))
        cross = self._kernel(points, held)
        shift = cross @ np.linalg.solve(inner, seen)
        prior = np.diag(self._kernel(points, points)) + rules.noise**2
        left = prior - np.einsum("ij,ji->i", cross, np.linalg.solve(inner, cross.T))
        near = [any(p.family == h.family and p.hardware == h.hardware for h in held) for p in points]
        spread = [float(np.sqrt(max(v, rules.noise**2))) if n else None for v, n in zip(left, near, strict=True)]
        return shift, spread

    def _seen(self) -> Array:
        import numpy as np

        if self._residuals is None:
            plain = Forecaster(self.coefficients).predict([a.point for a in self._anchors])
            self._residuals = np.array([
                math.log(a.tok_s_per_gpu / (e.total_tok_s if a.total else e.output_tok_s))
                for a, e in zip(self._anchors, plain, strict=True)
            ])  # fmt: skip
        return self._residuals

    def _kernel(self, left: Sequence[Point], right: Sequence[Point]) -> Array:
        """Covariance of ln(measured / predicted): a level per model, one per layout, a slope and a wave over load."""
        import numpy as np

        rules = self.coefficients.anchor
        a, b = _place(left), _place(right)
        apart = ((a[:, None, :] - b[None, :, :]) ** 2).sum(-1)
        model = np.array([[x.family == y.family and x.hardware == y.hardware for y in right] for x in left], float)
        same = np.array([[layout(x) == layout(y) for y in right] for x in left], float)
        wave = rules.wave**2 * np.exp(-0.5 * apart)
        slope = rules.load**2 * a[:, None, 0] * b[None, :, 0]
        return np.asarray(model * rules.model**2 + same * (rules.layout**2 + slope + wave), dtype=float)


def _place(points: Sequence[Point]) -> Array:
    """Where a point stands: load in factors of 8, lengths in factors of e^1.5."""
    import numpy as np

    return np.array([
        [math.log2(max(p.concurrency or 1.0, 1.0)) / 3, math.log(p.input_tokens / 2000) / 1.5,
         math.log(p.output_tokens / 1500) / 1.5]
        for p in points
    ])  # fmt: skip


def assumption(point: Point, anchored: int) -> str:
    """The software stack that a figure stands for, in words."""
    if anchored:
        return f"the stack of the {anchored} measured points"
    return "the newest published stack of mid 2026" if point.age <= 0 else f"a stack {point.age:.1f} years older"
