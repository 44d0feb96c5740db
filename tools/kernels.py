"""What a boot's whole log tells of slow paths and compilers: counted from launch to end. Pure."""

from __future__ import annotations

from day0.runs.findings import Kernels
from day0.tools.aiter_shapes import untuned
from day0.tools.diagnose import count_lines
from day0.tools.sampler import JIT


def read(log: bytes, fallback: bytes) -> Kernels:
    """The counts. `fallback`: the engine's own expression for lines of a slow path."""
    seen = untuned(log)
    return Kernels(
        fallback_lines=count_lines(fallback, log),
        compile_lines=sum(1 for _ in JIT.finditer(log)),
        tuned=len(seen.tuned),
        untuned=len(seen.shapes),
    )


def words(found: Kernels) -> str:
    """In one line; empty where nothing was seen."""
    parts = []
    if found.coverage is not None:
        count = found.tuned + found.untuned
        parts.append(f"{found.tuned} of {count} expert-kernel shapes ran with tuned rows ({found.coverage:.0%})")
    if found.fallback_lines:
        parts.append(f"{found.fallback_lines} lines of fallbacks")
    if found.compile_lines:
        parts.append(f"{found.compile_lines} lines of compiles or captures")
    return "; ".join(parts)
