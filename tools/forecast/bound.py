"""What the silicon allows at most: no measurement may exceed it."""

from __future__ import annotations

from day0.runs import geometry as geo
from day0.tools.forecast.point import Point
from day0.tools.forecast.steptime import DRAFT_TOKENS

EVEN = 0.6
"""Exponent on tokens where experts are counted: routers that favour some experts touch fewer than even ones."""


def requests_bound(point: Point) -> float:
    """Requests/s of all replicas at full peak, no overhead, no communication, every drafted token accepted.

    Cached prompt tokens are free. An average step of all clients
    reads the shared weights and the experts that they touch once, and each client's cache.
    """
    g, hw = point.geometry, point.hardware
    fresh = point.input_tokens * (1.0 - (point.cached or 0.0)) if not point.agentic else point.input_tokens * 0.05
    prefill = (2 * g.active_parameters - 2 * g.embedding_parameters) * fresh / point.tp / hw.peak(point.precision)
    batch = (point.concurrency or 4096.0) / point.replicas
    per_step = (DRAFT_TOKENS + 1.0) if point.speculation else 1.0
    if point.acceptance:
        per_step = max(per_step, point.acceptance)
    shared = g.shared_parameters * min(geo.SHARED_BYTES[point.precision], geo.EXPERT_BYTES[point.precision])
    touched = geo.experts_touched(float(g.experts), float(g.experts_per_token), batch**EVEN) if g.experts else 0.0
    experts = g.routed_parameters * geo.EXPERT_BYTES[point.precision] * touched / max(g.experts, 1)
    element = min(geo.kv_element_bytes(g, point.precision, point.engine), 1.0)
    cache = geo.kv_read_bytes(g, 0.8 * point.input_tokens, element, point.attention_tp) * batch / point.attention_groups
    memory = ((shared + experts) / point.tp + cache) / hw.memory_bytes_s
    matrix = 2 * g.active_parameters * batch / point.tp / hw.peak(point.precision)
    decode = max(memory, matrix) * point.output_tokens / (per_step * batch)
    return point.replicas / (prefill + decode)


def bound(point: Point) -> float:
    """Input + output tokens/s per accelerator that no measurement of this point may exceed."""
    return requests_bound(point) * (point.input_tokens + point.output_tokens) / point.gpus
