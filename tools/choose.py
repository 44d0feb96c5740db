"""Which published checkpoint of a model and which engine to start from, ranked before any node is touched. Pure.

The same model is offered at several precisions; a forecast of each over the layouts of the node says which promises
most under the workload. Engines fall out where a published report says that they lack a path.
"""

from __future__ import annotations

from collections.abc import Sequence

from day0.runs.geometry import Geometry, Precision
from day0.runs.values import Frozen
from day0.runs.workload import Target, Workload
from day0.tools.forecast.estimate import Forecaster
from day0.tools.forecast.hardware import hardware
from day0.tools.forecast.layouts import points, ranked

LONG_TOKENS = 16_000
"""input tokens from which a workload counts as long context"""


class Offered(Frozen):
    """A checkpoint of the model as the hub has it."""

    id: str
    precision: Precision


class Promise(Frozen):
    """What a checkpoint promises: output tok/s of the whole node in its best layout, with the 80 % interval."""

    id: str
    precision: Precision
    layout: str
    tok_s: float
    low: float
    high: float
    why_not: str = ""


class EngineLimit(Frozen):
    """A published reason against an engine. Empty fields hold for everything."""

    engine: str
    says: str
    source: str
    architecture: str = ""
    precision: str = ""
    long_context: bool = False

    def holds(self, architecture: str, precision: str, workload: Workload) -> bool:
        """Whether it speaks against serving this checkpoint under this workload."""
        return (
            self.architecture in ("", architecture)
            and self.precision in ("", precision)
            and (not self.long_context or workload.input_tokens >= LONG_TOKENS)
        )


LIMITS = (
    EngineLimit(
        engine="vllm",
        says="has no MXFP4 path for this architecture",
        architecture="GlmMoeDsaForCausalLM",
        precision="fp4",
        source="Wafer's report on GLM-5.2 on MI355X, 2026",
    ),
    EngineLimit(
        engine="atom",
        says="degrades at long context",
        architecture="GlmMoeDsaForCausalLM",
        long_context=True,
        source="Wafer's report on GLM-5.2 on MI355X, 2026",
    ),
)


def checkpoints(
    offered: Sequence[Offered], geometry: Geometry, target: Target, workload: Workload, family: str = ""
) -> tuple[Promise, ...]:
    """All checkpoints, most promising first; those that no layout of the node holds last, with the reason."""
    silicon, forecaster, gpus = hardware(target.accelerator), Forecaster(), target.gpus or 8
    found = []
    for one in offered:
        shapes = list(points(geometry, silicon, gpus, (one.precision,), engine=target.engine, family=family))
        best = ranked(shapes, workload, forecaster)[0]
        found.append(
            Promise(
                id=one.id,
                precision=one.precision,
                layout=best.name,
                tok_s=best.node_output_tok_s,
                low=best.low,
                high=best.high,
                why_not=best.why,
            )
        )
    return tuple(sorted(found, key=lambda p: (not p.tok_s, -p.tok_s, p.id)))


def against(engine: str, architecture: str, precision: str, workload: Workload) -> tuple[EngineLimit, ...]:
    """Published reasons against an engine here."""
    return tuple(x for x in LIMITS if x.engine == engine and x.holds(architecture, precision, workload))


def words(promises: Sequence[Promise], engine: str, architecture: str, workload: Workload) -> tuple[str, ...]:
    """The choice in sentences: the checkpoint with its rivals, the engine with what speaks against the others."""
    best = promises[0]
    lines = [
        f"checkpoint {best.id} ({best.precision}): forecast {best.tok_s:.0f} tok/s a node as {best.layout}, "
        f"80 % interval {best.low:.0f}-{best.high:.0f}"
    ]
    for other in promises[1:]:
        told = f"{other.tok_s:.0f} tok/s as {other.layout}" if other.tok_s else f"does not fit: {other.why_not}"
        lines.append(f"  instead of {other.id} ({other.precision}): {told}")
    lines.append(f"engine {engine}")
    for rival in sorted({x.engine for x in LIMITS} - {engine}):
        for limit in against(rival, architecture, best.precision, workload):
            lines.append(f"  instead of {rival}: {limit.says} ({limit.source})")
    return tuple(lines)
