"""One configuration under one load, and the columns of numbers that the forecast's formulas take."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from day0.runs import geometry as geo
from day0.runs.geometry import Geometry, Precision
from day0.tools.forecast.hardware import Hardware

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

Load = Literal["closed", "static", "open"]

SILENT_CAP = 48
"""Running requests per replica that SGLang sets without a word when speculation is on."""

MEMORY_SHARE = {"amd": 0.85, "nvidia": 0.95}
"""Share of an accelerator's memory that weights and cache may take in the published recipes, by vendor: MI355X ones
set `--mem-fraction-static` to 0.80-0.90, and DeepSeek-R1 in FP8 is published on four B200, where it takes 0.94."""

RESERVE_BYTES = {"amd": 8e9, "nvidia": 0.0}
"""Of that share, what graphs and activations take before the cache: 7.6 GiB in an observed GLM-5.1 boot on MI355X."""

STATE_SPLIT = 0.53
"""Share of the free memory left to the cache where linear layers keep states (`--mamba-full-memory-ratio` 0.9)."""

SESSION_HIT = 0.95
"""Share of an agent session's prompt that its earlier turns hold: median of published replays that fit the cache."""


@dataclass(frozen=True)
class Point:
    """A layout of one model on one node, and the load on it.

    `concurrency` is the number of clients over all replicas (closed), the batch (static), or None under open load with
    `rate_rps`. `input_tokens` and `output_tokens` are means per request, `cached` the share of the input found in the
    prefix cache (None = unknown, from sessions and memory), `offload` a second cache in host memory. `age` is how much
    older than the newest known stack the software is, in years.
    """

    geometry: Geometry
    hardware: Hardware
    precision: Precision
    engine: str
    tp: int
    dp: int = 1
    ep: int = 1
    attention_dp: bool = False
    speculation: bool = False
    acceptance: float | None = None
    input_tokens: float = 1024.0
    output_tokens: float = 1024.0
    cached: float | None = 0.0
    load: Load = "closed"
    concurrency: float | None = 1.0
    rate_rps: float | None = None
    max_running: int | None = None
    agentic: bool = False
    offload: bool = False
    family: str = ""
    age: float = 0.0

    @property
    def gpus(self) -> int:
        """Accelerators held: attention DP lives inside the tensor-parallel group."""
        return self.tp if self.attention_dp else self.tp * self.dp

    @property
    def replicas(self) -> int:
        """Copies of the whole model."""
        return 1 if self.attention_dp else self.dp

    @property
    def attention_groups(self) -> int:
        """Data-parallel attention groups inside one replica."""
        return self.dp if self.attention_dp else 1

    @property
    def attention_tp(self) -> int:
        """Ranks that share one request's attention."""
        return max(1, self.tp // self.attention_groups)


@dataclass(frozen=True)
class Memory:
    """What one accelerator holds, in bytes, and what follows for the whole configuration."""

    capacity: float
    weights: float
    kv_per_token: float
    state_per_request: float
    kv_tokens: float = field(metadata={"unit": "tokens per attention group"})
    running: float = field(metadata={"unit": "requests per replica that fit the cache at the mean context"})


def memory(point: Point) -> Memory:
    """Weights and cache of one accelerator; `kv_tokens` is 0 or less where the weights alone do not fit."""
    g = point.geometry
    element = geo.kv_element_bytes(g, point.precision, point.engine)
    weights = geo.weight_bytes_per_gpu(g, point.precision, point.tp, point.attention_groups)
    per_token = geo.kv_bytes_per_token_gpu(g, element, point.attention_tp)
    state = geo.state_bytes_per_request(g, point.attention_tp, element)
    share = STATE_SPLIT if state > 0 and any(x.state_bytes for x in g.groups) else 1.0
    vendor = point.hardware.vendor
    room = point.hardware.memory_bytes * MEMORY_SHARE[vendor] - RESERVE_BYTES[vendor] - weights
    free = share * room
    context = point.input_tokens + point.output_tokens / 2
    running = point.attention_groups * max(free, 0.0) / (context * per_token + (0.0 if share < 1 else state))
    return Memory(point.hardware.memory_bytes, weights, per_token, state, free / per_token, running)


def running_cap(point: Point) -> tuple[float, str]:
    """Requests that one replica runs at once, and what sets the limit: asked, silent, or memory."""
    caps = [(max(memory(point).running, 1.0), "memory")]
    if point.max_running is not None:
        caps.append((point.max_running / point.replicas, "asked"))
    elif point.speculation and point.engine == "sglang" and point.hardware.vendor == "amd":
        caps.append((float(SILENT_CAP), "silent"))
    return min(caps)


def columns(points: Sequence[Point]) -> dict[str, Array]:
    """One array per quantity, one entry per point. Bytes and operations are per accelerator of one replica."""
    import numpy as np

    rows = [_row(point) for point in points]
    return {key: np.array([row[key] for row in rows], dtype=float) for key in (rows[0] if rows else ())}


def _row(p: Point) -> dict[str, float]:
    g, hw = p.geometry, p.hardware
    element = geo.kv_element_bytes(g, p.precision, p.engine)
    context = p.input_tokens + p.output_tokens / 2
    cached = p.cached if p.cached is not None else 0.0
    fresh = p.input_tokens * (1.0 - cached)
    held = memory(p)
    shared = geo.SHARED_BYTES[p.precision]
    dense = g.dense_parameters * shared + g.embedding_parameters * 2.0
    layers = max(g.moe_layers, 1)
    link = hw.link_bytes_s
    return {
        "layers": g.layers, "moe_layers": g.moe_layers, "hidden": g.hidden,
        "experts": max(g.experts, 1), "topk": max(g.experts_per_token, 1) if g.experts else 1,
        "moe": float(g.experts > 0), "one": 1.0, "age": p.age, "doublings": math.log2(p.tp),
        "shared_bytes": g.attention_parameters * shared / p.attention_tp + dense / p.tp,
        "expert_bytes": g.routed_parameters * geo.EXPERT_BYTES[p.precision] / max(g.experts, 1) / p.tp,
        "expert_ops": 2 * g.routed_parameters / max(g.experts, 1) / p.tp,
        "expert_width": g.moe_width / (p.tp if p.ep == 1 else max(p.tp // p.ep, 1)),
        "per_expert_layers": layers,
        "kv_read": geo.kv_read_bytes(g, context, element, p.attention_tp),
        "shared_ops": 2 * (g.attention_parameters / p.attention_tp
                           + (g.dense_parameters + g.embedding_parameters) / p.tp),
        "attention_ops": geo.attention_operations(g, context) / p.attention_tp,
        "pair_full": geo.attention_operations(g, p.input_tokens, decoding=False) / p.tp,
        "pair_half": geo.attention_operations(g, p.input_tokens / 2, decoding=False) / p.tp,
        "prompt": fresh, "input": p.input_tokens, "output": max(p.output_tokens, 1.0), "context": context,
        "tp": p.tp, "ep": p.ep, "ep_on": float(p.ep > 1), "dpa": float(p.attention_dp),
        "groups": p.attention_groups, "replicas": p.replicas, "gpus": p.gpus,
        "clients": (p.concurrency or 0.0) / p.replicas, "static": float(p.load == "static"),
        "open": float(p.load == "open"), "rate": (p.rate_rps or 0.0) / p.replicas,
        "fresh_ops": 2 * (g.active_parameters - g.embedding_parameters) / p.tp,
        "hit": cached, "hit_known": float(p.cached is not None), "offload": float(p.offload),
        "room": max(held.kv_tokens, 1.0) * p.attention_groups / (max(p.concurrency or 1.0, 1.0) / p.replicas * context),
        "cap": running_cap(p)[0], "spec": float(p.speculation),
        "acceptance": p.acceptance or 0.0, "agentic": float(p.agentic),
        "bandwidth": hw.memory_bytes_s, "link": link,
        "peak": hw.peak(p.precision), "bf16_peak": hw.bf16_ops,
        "amd": float(hw.vendor == "amd"), "older": float(hw.generation < 1),
        "sglang": float(p.engine == "sglang"), "vllm": float(p.engine == "vllm"), "atom": float(p.engine == "atom"),
        "trt": float(p.engine == "trt"), "fp4": float(p.precision in ("fp4", "int4")),
        "bf16": float(p.precision == "bf16"),
        "linear_layers": sum(x.layers for x in g.groups if x.state_bytes),
        "index_layers": sum(x.layers for x in g.groups if x.index),
        "plain": float(all(x.absorbed is None for x in g.groups)),
        "latent": float(any(x.absorbed is not None for x in g.groups)),
        "parts": max(1.0, sum(x.layers for x in g.groups) / g.layers),
    }  # fmt: skip
