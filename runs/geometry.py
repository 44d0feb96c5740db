"""Geometry of a transformer and the bytes and operations that follow from it.

Pure arithmetic: forecast and simulated node share it. Every function that takes a count of tokens or positions
accepts a float; `experts_touched` a numpy array as well. Bytes are bytes, operations are multiply-adds x 2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeVar

from day0.runs.values import Frozen
from pydantic import Field

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Number = TypeVar("Number", float, "NDArray[np.float64]")

Precision = Literal["bf16", "fp8", "fp4", "int4"]
"""Of the routed experts, which hold nearly all the weights of a mixture of experts."""

EXPERT_BYTES: dict[Precision, float] = {"bf16": 2.0, "fp8": 1.0, "fp4": 0.53125, "int4": 0.5625}
"""Bytes per routed-expert weight with its scales: MXFP4 has one scale byte for 32 values (4.25 bits)."""

SHARED_BYTES: dict[Precision, float] = {"bf16": 2.0, "fp8": 1.0, "fp4": 2.0, "int4": 2.0}
"""Bytes per weight outside the routed experts: published FP4 checkpoints leave attention in BF16 (an observed boot of
GLM-5.1 MXFP4 holds 199.5 GiB on each of two accelerators; FP8 attention would make it 192)."""


class AttentionGroup(Frozen):
    """Layers that attend alike. Positions are tokens of the context; `element` is one cached number.

    `stored` positions are kept per token (1; 1/4 where a layer compresses), of which a query reads all, or the newest
    `window`, or the best `topk`. `index` elements per token are read by every query where an indexer picks the best.
    `shards` is how many ways tensor parallelism can cut the cache: the KV heads; 1 for a latent cache.
    """

    layers: int
    elements: float = Field(description="cached elements per stored position and layer, over all KV heads")
    shards: int = 1
    stored: float = 1.0
    window: int | None = None
    topk: int | None = None
    index: float = 0.0
    pair: float = Field(description="multiply-adds per query token and key: heads x (key width + value width)")
    absorbed: float | None = Field(
        default=None, description="`pair` while decoding, where a latent cache is read as is"
    )
    index_pair: float = 0.0
    state_bytes: float = Field(default=0.0, description="recurrent state per request and layer (linear attention)")


class Geometry(Frozen):
    """What decides a model's bytes and operations. Counts of parameters, not billions."""

    name: str
    layers: int
    hidden: int
    vocab: int
    heads: int
    kv_heads: int
    context: int
    groups: tuple[AttentionGroup, ...]
    attention_parameters: float = Field(description="all layers: projections of attention")
    dense_parameters: float = Field(description="all layers: dense MLPs and shared experts")
    routed_parameters: float = Field(default=0.0, description="all layers: every routed expert")
    experts: int = 0
    experts_per_token: int = 0
    moe_layers: int = 0
    moe_width: int = Field(default=0, description="inner width of one routed expert")
    draft_layers: int = Field(default=0, description="multi-token-prediction layers in the checkpoint")
    native: Precision | None = None

    @property
    def embedding_parameters(self) -> float:
        """The output head: the input embedding is looked up, not read."""
        return float(self.vocab * self.hidden)

    @property
    def shared_parameters(self) -> float:
        """All that every token reads: attention, dense MLPs, shared experts, the output head."""
        return self.attention_parameters + self.dense_parameters + self.embedding_parameters

    @property
    def total_parameters(self) -> float:
        """All parameters, the input embedding included."""
        return self.shared_parameters + self.routed_parameters + self.embedding_parameters

    @property
    def active_parameters(self) -> float:
        """Parameters that one token multiplies with."""
        share = self.experts_per_token / self.experts if self.experts else 0.0
        return self.shared_parameters + self.routed_parameters * share


def experts_touched(experts: Number, per_token: Number, tokens: Number) -> Number:
    """Expected distinct experts of a layer hit by `tokens` tokens that choose evenly: E (1 - (1 - k/E)^n)."""
    missed: Number = (1.0 - per_token / experts) ** tokens
    return experts * (1.0 - missed)


def weight_bytes(geometry: Geometry, precision: Precision) -> float:
    """Bytes of the whole checkpoint, one copy, in `precision`."""
    outside = geometry.shared_parameters - geometry.embedding_parameters
    head = 2 * geometry.embedding_parameters * 2.0
    return geometry.routed_parameters * EXPERT_BYTES[precision] + outside * SHARED_BYTES[precision] + head


def weight_bytes_per_gpu(geometry: Geometry, precision: Precision, tp: int, attention_dp: int = 1) -> float:
    """Bytes of weights that one accelerator holds.

    Tensor and expert parallelism both divide the routed experts by `tp`; attention DP keeps whole copies of the
    attention weights, so those divide by `tp / attention_dp` only.
    """
    attention = geometry.attention_parameters * SHARED_BYTES[precision]
    rest = weight_bytes(geometry, precision) - attention
    return rest / tp + attention * attention_dp / tp


def kv_bytes_per_token(geometry: Geometry, element_bytes: float = 1.0) -> float:
    """Bytes that one token of context occupies in a whole, unsharded cache."""
    return sum(
        g.layers * (g.elements * g.stored * element_bytes + index_bytes(g)) for g in geometry.groups if g.window is None
    )


def kv_element_bytes(geometry: Geometry, precision: Precision, engine: str) -> float:
    """Bytes per cached element in the published recipes beside FP8 and FP4 weights.

    FP8, except for plain heads under SGLang, which `--kv-cache-dtype auto` keeps in BF16.
    """
    latent = any(group.absorbed is not None for group in geometry.groups)
    return 1.0 if precision in ("fp8", "fp4") and (latent or engine != "sglang") else 2.0


def index_bytes(group: AttentionGroup) -> float:
    """Bytes of indexer keys per token and layer: FP8 with one 4-byte scale for 128 values (132 for 128)."""
    return group.index * 132.0 / 128.0


def kv_bytes_per_token_gpu(geometry: Geometry, element_bytes: float, attention_tp: int) -> float:
    """Bytes that one token of context occupies on one accelerator: KV heads divide, a latent cache is copied."""
    total = 0.0
    for group in geometry.groups:
        if group.window is None:
            cut = min(attention_tp, group.shards)
            total += group.layers * (group.elements * group.stored * element_bytes / cut + index_bytes(group))
    return total


def state_bytes_per_request(geometry: Geometry, attention_tp: int, element_bytes: float = 1.0) -> float:
    """Bytes per request that do not grow with its context: windows and recurrent states, on one accelerator."""
    total = 0.0
    for group in geometry.groups:
        window = (group.window or 0) * group.elements * element_bytes
        total += group.layers * (window / min(attention_tp, group.shards) + group.state_bytes / attention_tp)
    return total


def kv_read_bytes(geometry: Geometry, context: float, element_bytes: float, attention_tp: int) -> float:
    """Bytes of cache that one accelerator reads to decode one token of a request with `context` tokens behind it.

    An indexer's keys are read whole, the rest only as far as window or top-k go; a recurrent state is read and
    written.
    """
    total = 0.0
    for group in geometry.groups:
        positions = _positions(group, context) * group.elements * element_bytes / min(attention_tp, group.shards)
        total += group.layers * (positions + context * index_bytes(group) + 2 * group.state_bytes / attention_tp)
    return total


def attention_operations(geometry: Geometry, context: float, *, decoding: bool = True) -> float:
    """Operations of one query token against `context` tokens over all layers and heads (2 per multiply-add)."""
    total = 0.0
    for group in geometry.groups:
        pair = group.absorbed if decoding and group.absorbed is not None else group.pair
        total += 2 * group.layers * (_positions(group, context) * pair + context * group.stored * group.index_pair)
    return total


def prefill_attention_operations(geometry: Geometry, new: float, cached: float = 0.0) -> float:
    """Operations of `new` prompt tokens after `cached` ones: each token sees half of the new part on average.

    Where a query reads no more than a window or its top-k, the count stops growing with the context, the
    indexer's does not.
    """
    return new * attention_operations(geometry, cached + new / 2, decoding=False)


def _positions(group: AttentionGroup, context: float) -> float:
    stored = context * group.stored
    if group.window is not None:
        return min(stored, float(group.window))
    return stored if group.topk is None else min(stored, float(group.topk))
