"""Geometries by name: the shipped table, tables in the same form, and Hugging Face configurations.

A table maps a name to an entry of plain numbers (`layers`, `hidden`, `experts`, ...; see `models.yaml` for every key).
Names resolve through the table's own names, `hf` identifiers and `aliases`, never by guess.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from day0.runs.errors import UserError
from day0.runs.geometry import AttentionGroup, Geometry, Precision
from day0.tools.forecast.hf_config import entry_of_config, is_config

LINEAR_KEY_WIDTH = 128
"""Key width of gated delta rule layers: Qwen3-Next, Kimi Linear and their successors all publish 128."""

SPARSE_POSITIONS = 2048
"""Positions a block-sparse layer reads where its table entry does not say: every published top-k so far."""

Table = Mapping[str, Mapping[str, Any]]


def geometry(name: str, entry: Mapping[str, Any], table: Table | None = None) -> Geometry:
    """Geometry of one table entry. `same_as` borrows what the entry itself does not say.

    Raises UserError naming the model and the field that is missing or no number.
    """
    whole = _whole(name, entry, table or {})
    if is_config(whole):
        whole = entry_of_config(name, whole)
    try:
        return _build(name, whole)
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        raise UserError(f"model {name}: the table entry lacks or garbles {error}") from None


def _whole(name: str, entry: Mapping[str, Any], table: Table) -> dict[str, Any]:
    base: dict[str, Any] = {}
    other = entry.get("same_as")
    if other is not None:
        if other not in table or other == name:
            raise UserError(f"model {name}: same_as names {other!r}, which the table does not hold")
        base = _whole(str(other), table[other], {k: v for k, v in table.items() if k != name})
    return {**base, **{k: v for k, v in entry.items() if v is not None}}


def _build(name: str, e: Mapping[str, Any]) -> Geometry:
    layers, hidden, vocab = int(e["layers"]), int(e["hidden"]), int(e.get("vocab", 128_000))
    experts, topk = int(e.get("experts", 0)), int(e.get("topk", 0))
    moe_layers = layers - int(e.get("dense_layers", 0)) if experts else 0
    groups = attention_groups(e)
    attention = float(e.get("attention_parameters") or _attention_parameters(e))
    routed = moe_layers * experts * 3.0 * hidden * float(e.get("moe_inter", 0))
    total, active = 1e9 * float(e.get("total_b", 0)), 1e9 * float(e.get("active_b", 0))
    if total and experts and routed > total:  # experts that work in a narrower latent space than `hidden`
        routed = (total - active) / (1.0 - topk / experts)
    dense = _dense_parameters(e, layers, moe_layers)
    if active:  # low-rank output projections and the like: no more than what the active count leaves
        share = topk / experts if experts else 0.0
        attention = min(attention, 0.9 * (active - routed * share - float(vocab * hidden)))
    if total and not dense:
        dense = max(total - routed - attention - 2.0 * vocab * hidden, 0.0)
    return Geometry(
        name=name, layers=layers, hidden=hidden, vocab=vocab, heads=int(e["heads"]),
        kv_heads=int(e.get("kv_heads", 1)), context=int(e.get("ctx", 131_072)), groups=groups,
        attention_parameters=attention, dense_parameters=dense, routed_parameters=routed, experts=experts,
        experts_per_token=topk, moe_layers=moe_layers, moe_width=int(e.get("moe_inter", 0)),
        draft_layers=int(e.get("mtp_layers", 0)), native=_native(str(e.get("native_precision", ""))),
    )  # fmt: skip


def _native(text: str) -> Precision | None:
    found = re.match(r"(?:MX|NV)?(FP4|FP8|INT4|BF16)", text, re.IGNORECASE)
    return {"fp4": "fp4", "fp8": "fp8", "int4": "int4", "bf16": "bf16"}[found[1].lower()] if found else None  # type: ignore[return-value]


def _dense_parameters(e: Mapping[str, Any], layers: int, moe_layers: int) -> float:
    inner = float(e.get("dense_inter") or e.get("ffn") or 0)
    shared = float(e.get("shared", 0)) * float(e.get("shared_inter") or e.get("moe_inter") or 0)
    return 3.0 * int(e["hidden"]) * ((layers - moe_layers) * inner + moe_layers * shared)


def _linear_layers(e: Mapping[str, Any]) -> int:
    if "linear_layers" in e:
        return int(e["linear_layers"])
    found = re.search(r"(?:KDA|GDN|linear)\D{0,3}(\d+) layers", str(e.get("attn", "")))
    if found:
        return int(found[1])
    return int(e["layers"]) - int(e["full_attn_layers"]) if "full_attn_layers" in e else 0


def _linear_width(e: Mapping[str, Any]) -> float:
    """Value width over all heads of a linear layer; published models use twice the hidden width."""
    return float(e.get("linear_value_width") or 2 * int(e["hidden"]))


def _attention_parameters(e: Mapping[str, Any]) -> float:
    hidden, heads, linear = int(e["hidden"]), int(e["heads"]), _linear_layers(e)
    full = int(e["layers"]) - linear
    if "kv_lora" in e:
        nope, rope, value = int(e.get("nope", 128)), int(e.get("rope", 64)), int(e.get("v_head", 128))
        q_rank = int(e.get("q_lora") or 0)
        query = q_rank * (hidden + heads * (nope + rope)) if q_rank else hidden * heads * (nope + rope)
        latent = int(e["kv_lora"])
        each = query + hidden * (latent + rope) + latent * heads * (nope + value) + heads * value * hidden
    else:
        width = int(e.get("head_dim") or hidden // heads)
        each = hidden * width * (2 * heads + 2 * int(e.get("kv_heads", heads)))
    return float(full * each + linear * hidden * (3.5 * _linear_width(e)))


def attention_groups(e: Mapping[str, Any]) -> tuple[AttentionGroup, ...]:
    """The attention layers of a table entry, alike ones together."""
    if "groups" in e:
        return tuple(AttentionGroup(**g) for g in e["groups"])
    text, layers = str(e.get("attn", "")), int(e["layers"])
    found = re.search(r"CSA\(1/(\d+) compress, topk (\d+)\).*HCA\(1/(\d+)\).*SWA ?(\d+)", text)
    if found:
        return _compressed(e, *(int(n) for n in found.groups()))
    linear = _linear_layers(e)
    groups = [_linear(e, linear)] if linear else []
    full = layers - linear
    windowed = int(e.get("window_layers", full // 2 if "SWA" in text else 0))
    if windowed:
        span = re.search(r"SWA ?(\d+)", text)
        window = int(e.get("window") or (span[1] if span else 128))
        groups.append(_softmax(e, windowed).model_copy(update={"window": window, "topk": None}))
    if full > windowed:
        groups.append(_softmax(e, full - windowed))
    return tuple(groups)


def _softmax(e: Mapping[str, Any], layers: int) -> AttentionGroup:
    heads, topk = int(e["heads"]), e.get("index_topk")
    if "kv_lora" in e or "MLA" in str(e.get("attn", "")):
        latent, rope = int(e.get("kv_lora", 512)), int(e.get("rope", 64))
        pair = heads * (int(e.get("nope", 128)) + rope + int(e.get("v_head", 128)))
        index = int(e.get("index_dim", 0)) if topk else 0
        return AttentionGroup(
            layers=layers, elements=latent + rope, shards=1, topk=topk, index=index, pair=pair,
            absorbed=heads * (2 * latent + rope), index_pair=index * int(e.get("index_heads", 0)),
        )  # fmt: skip
    width, kv_heads = int(e.get("head_dim") or int(e["hidden"]) // heads), int(e.get("kv_heads", heads))
    if topk is None and "sparse" in str(e.get("attn", "")):
        topk = SPARSE_POSITIONS
    return AttentionGroup(
        layers=layers, elements=2 * kv_heads * width, shards=kv_heads, topk=topk, pair=2 * heads * width
    )


def _linear(e: Mapping[str, Any], layers: int) -> AttentionGroup:
    width = _linear_width(e)
    state = width * LINEAR_KEY_WIDTH
    return AttentionGroup(layers=layers, elements=0, pair=0, state_bytes=4.0 * state)


def _compressed(e: Mapping[str, Any], ratio: int, topk: int, heavy: int, window: int) -> tuple[AttentionGroup, ...]:
    """Half the layers keep 1/ratio of the positions and read the best `topk`, half keep 1/heavy; all read a window."""
    heads, width, layers = int(e["heads"]), int(e.get("head_dim", 512)), int(e["layers"])
    common = {"elements": width, "pair": heads * 2.0 * width, "absorbed": heads * 2.0 * width}
    light = layers // 2
    index = int(e.get("index_dim", 128)) / ratio
    return (
        AttentionGroup(layers=light, stored=1 / ratio, topk=topk, index=index,
                       index_pair=128.0 * int(e.get("index_heads", 64)), **common),
        AttentionGroup(layers=layers - light, stored=1 / heavy, **common),
        AttentionGroup(layers=layers, window=window, **common),
    )  # fmt: skip
