"""From resolved server arguments and a world's truth to what the scheduler simulation runs: caps and costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from day0.runs import geometry as geo
from day0.runs.geometry import Geometry, Precision
from day0.sandboxes.twin.conditions import Scene, holds
from day0.sandboxes.twin.costs import Costs
from day0.sandboxes.twin.replica import ServerSpec
from day0.sandboxes.twin.truth import Truth

NEAR, FAR = 4096.0, 65536.0
"""Two contexts, beyond any sparse top-k, between which costs grow linearly."""
GIB = 2.0**30
US = 1e-6


@dataclass(frozen=True)
class Chip:
    """One accelerator: bytes, bytes/s, operations/s by precision of the weights, bytes/s to its peers."""

    memory: float
    bandwidth: float
    link: float
    peaks: Mapping[str, float]

    def peak(self, precision: Precision) -> float:
        """INT4 weights are multiplied in BF16."""
        return self.peaks["bf16" if precision == "int4" else precision]


@dataclass(frozen=True)
class Physics:
    """A model on accelerators, and what is true of their kernels."""

    geometry: Geometry
    precision: Precision
    chip: Chip
    truth: Truth


@dataclass(frozen=True)
class Layout:
    """How a server divides the model: ranks, copies, attention groups, speculation, KV element."""

    tp: int
    dp: int
    groups: int
    ep: int
    verify: int
    drafts: int
    kv_bytes: float

    @property
    def attention_tp(self) -> int:
        """Ranks that share one request's attention."""
        return max(1, self.tp // self.groups)


def layout(args: Mapping[str, Any]) -> Layout:
    """From resolved arguments (underscored names, as `/server_info` reports them)."""
    tp, dp = int(args.get("tp_size") or 1), int(args.get("dp_size") or 1)
    groups = int(args.get("attn_dp_size") or 1)
    if args.get("enable_dp_attention"):  # the older name: data parallelism lives inside the tensor-parallel group
        groups, dp = max(groups, dp), 1
    drafts = int(args.get("speculative_num_steps") or 0) if args.get("speculative_algorithm") else 0
    verify = int(args.get("speculative_num_draft_tokens") or drafts + 1) if drafts else 1
    kv = 1.0 if str(args.get("kv_cache_dtype", "auto")).startswith("fp8") else 2.0
    return Layout(tp, dp, groups, int(args.get("ep_size") or 1), verify, drafts, kv)


def weights_per_chip(p: Physics, at: Layout) -> float:
    """Bytes of weights that one accelerator holds."""
    return geo.weight_bytes_per_gpu(p.geometry, p.precision, at.tp, at.groups) * p.truth.weights


def kv_tokens(p: Physics, at: Layout, share: float) -> int:
    """Tokens of KV cache per replica (all its attention groups): what weights and run time leave of `share`.

    Negative where they alone do not fit.
    """
    room = p.chip.memory * share - weights_per_chip(p, at) - p.truth.runtime_gib * GIB
    return int(room / geo.kv_bytes_per_token_gpu(p.geometry, at.kv_bytes, at.attention_tp)) * at.groups


class _Factors(dict[str, float]):
    def __missing__(self, key: str) -> float:
        return 1.0


def factors(truth: Truth, scene: Scene) -> Mapping[str, float]:
    """The product of all effects that hold, by part."""
    out = _Factors()
    for effect in truth.effects:
        if holds(effect.when, scene):
            for part, factor in effect.time.items():
                out[part] = out[part] * factor
    if not scene.tuned:
        out["experts"] = out["experts"] * truth.untuned
    return out


def costs(p: Physics, at: Layout, scene: Scene) -> Costs:
    """Seconds of one replica's steps."""
    g, chip, truth = p.geometry, p.chip, p.truth
    f = factors(truth, scene)
    peak = chip.peak(p.precision)
    outside = geo.SHARED_BYTES[p.precision]
    shared = g.attention_parameters / at.attention_tp + (g.dense_parameters + g.embedding_parameters) / at.tp
    shared_bytes = (g.attention_parameters / at.attention_tp + g.dense_parameters / at.tp) * outside
    shared_bytes += 2.0 * g.embedding_parameters / at.tp
    expert = g.routed_parameters / max(g.experts, 1) / at.tp
    bandwidth = chip.bandwidth * truth.memory
    near, far = (geo.kv_read_bytes(g, c, at.kv_bytes, at.attention_tp) for c in (NEAR, FAR))
    slope = (far - near) / (FAR - NEAR)
    flat = near - slope * NEAR
    reads = chip.bandwidth * truth.cache / f["cache"]
    overhead = (g.layers * truth.layer_us + g.moe_layers * truth.moe_us) * f["layer"]
    doublings = (at.tp - 1).bit_length()
    exchange = 2 * g.layers * truth.reduce_us * doublings * f["reduce"]
    sent = 2 * g.layers * 2 * (at.tp - 1) / at.tp * g.hidden * 2.0 / (chip.link * truth.link) * f["link"]
    local = 1.0 / at.groups / (truth.balance if at.groups > 1 else 1.0)
    matrix = 2 * (shared + expert * g.experts_per_token * f["experts"]) / (peak * truth.matrix) * f["matrix"]
    attention = geo.attention_operations(g, NEAR) / at.attention_tp / (chip.peak("bf16") * truth.attention)
    step = overhead + exchange + truth.step_us * f["step"]
    draft = at.drafts * (step / g.layers * truth.draft + truth.draft_us) * f["draft"]
    pairs = [geo.attention_operations(g, c, decoding=False) for c in (NEAR, FAR)]
    each = (pairs[1] - pairs[0]) / (FAR - NEAR)
    span = chip.peak("bf16") * truth.attention / f["attention"]
    prompt_work = 2 * (shared * local + expert * g.experts_per_token * f["experts"]) / (peak * truth.prompt)
    return Costs(
        fixed=step * US,
        token=sent + attention * local + flat / at.verify / reads * local,
        matrix=matrix,
        shared_read=shared_bytes / bandwidth * f["memory"],
        expert_read=expert * geo.EXPERT_BYTES[p.precision] * f["experts"] / bandwidth * f["memory"],
        experts=g.experts,
        per_token=g.experts_per_token,
        expert_row=g.moe_layers * truth.row_us * US * f["experts"],
        kappa=slope / reads * local,
        drafts=draft * US,
        prompt_fixed=(g.layers * truth.prompt_us * f["layer"] + exchange) * US,
        prompt_token=prompt_work * f["prompt"] + sent + (pairs[0] - each * NEAR) / at.tp / span,
        prompt_read=geo.weight_bytes_per_gpu(g, p.precision, at.tp, at.groups) / bandwidth,
        pair=each / at.tp / span,
        verify=at.verify,
    )


def server(p: Physics, args: Mapping[str, Any], scene: Scene) -> ServerSpec:
    """The server that these resolved arguments make. `max_running_requests` counts per replica, as SGLang reads it."""
    at = layout(args)
    cap = int(args.get("max_running_requests") or 2048)
    return ServerSpec(
        replicas=at.dp,
        cap=cap,
        chunk=int(args.get("chunked_prefill_size") or 16384),
        kv_tokens=int(args["max_total_num_tokens"]),
        costs=costs(p, at, scene),
        accept=p.truth.speculation.accepted(at.drafts) if at.drafts else 1.0,
        reuse=not args.get("disable_radix_cache"),
        routing=_routing(args),
    )


def _routing(args: Mapping[str, Any]) -> str:
    """A router's policy, which has its replicas as separate servers; else the server's own balancing."""
    policy, own = args.get("router_policy"), args.get("load_balance_method")
    if policy is not None:
        return str(policy) if policy in ("round_robin", "cache_aware") else "least_loaded"
    return "round_robin" if own in (None, "auto", "round_robin") else "least_loaded"
