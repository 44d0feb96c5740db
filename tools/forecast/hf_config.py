"""A Hugging Face `config.json` as an entry of the geometry table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_KEYS: dict[str, tuple[str, ...]] = {
    "layers": ("num_hidden_layers", "n_layer", "num_layers"),
    "hidden": ("hidden_size", "n_embd"),
    "heads": ("num_attention_heads", "n_head"),
    "kv_heads": ("num_key_value_heads",),
    "head_dim": ("head_dim",),
    "vocab": ("vocab_size",),
    "ctx": ("max_position_embeddings",),
    "q_lora": ("q_lora_rank",),
    "kv_lora": ("kv_lora_rank",),
    "rope": ("qk_rope_head_dim",),
    "nope": ("qk_nope_head_dim",),
    "v_head": ("v_head_dim",),
    "index_heads": ("index_n_heads",),
    "index_dim": ("index_head_dim",),
    "index_topk": ("index_topk",),
    "experts": ("n_routed_experts", "num_experts", "num_local_experts"),
    "topk": ("num_experts_per_tok", "experts_per_token", "num_experts_per_token", "moe_topk"),
    "shared": ("n_shared_experts", "num_shared_experts"),
    "moe_inter": ("moe_intermediate_size",),
    "shared_inter": ("shared_expert_intermediate_size",),
    "dense_inter": ("intermediate_size", "ffn_dim"),
    "dense_layers": ("first_k_dense_replace",),
    "mtp_layers": ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules"),
}


def is_config(entry: Mapping[str, Any]) -> bool:
    """Whether an entry is a model's own configuration rather than a row of the table."""
    text = entry.get("text_config")
    return "num_hidden_layers" in entry or (isinstance(text, Mapping) and "num_hidden_layers" in text)


def entry_of_config(name: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """The table entry of a `config.json`; the language part of a multi-modal one."""
    text = config.get("text_config")
    inner: dict[str, Any] = dict(config) | (dict(text) if isinstance(text, Mapping) else {})
    entry: dict[str, Any] = {"name": name}
    for key, names in _KEYS.items():
        value = next((inner[n] for n in names if isinstance(inner.get(n), (int, float))), None)
        if value is not None:
            entry[key] = value
    if entry.get("experts") and "moe_inter" not in entry:  # Mixtral, gpt-oss, MiniMax-M2: one width for all
        entry["moe_inter"] = entry.get("dense_inter", 0)
    if "shared_inter" in entry:
        entry.setdefault("shared", 1)
    if not entry.get("experts"):
        entry.pop("dense_layers", None)
    _layer_kinds(inner, entry)
    return entry


def _layer_kinds(inner: Mapping[str, Any], entry: dict[str, Any]) -> None:
    kinds = inner.get("layer_types")
    interval = inner.get("full_attention_interval")
    if isinstance(kinds, list):
        linear = sum("linear" in str(kind) for kind in kinds)
        windowed = sum("sliding" in str(kind) for kind in kinds)
    else:
        layers = int(entry.get("layers", 0))
        linear = layers - layers // interval if isinstance(interval, int) and interval > 0 else 0
        windowed = 0
    if linear:
        entry["linear_layers"] = linear
        heads, width = inner.get("linear_num_value_heads"), inner.get("linear_value_head_dim")
        if isinstance(heads, int) and isinstance(width, int):
            entry["linear_value_width"] = heads * width
    if windowed and isinstance(inner.get("sliding_window"), int):
        entry["window_layers"], entry["window"] = windowed, inner["sliding_window"]
