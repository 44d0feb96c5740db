"""A shipped model made larger or smaller: geometry and `config.json` change together, as if it had been released so."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from day0.runs.geometry import AttentionGroup, Geometry
from day0.sandboxes.twin.parts import ModelSpec

EXPERTS = ("n_routed_experts", "num_experts", "num_local_experts")
WIDTHS = ("moe_intermediate_size", "intermediate_size")
PERIOD = 4
"""Layers come in fours: hybrids repeat their kinds of attention with that period, or with half of it."""
STEP = 512
"""Hidden sizes and expert widths are multiples of this; what is not is left as it is."""


def draw(rng: random.Random, base: ModelSpec, name: str) -> ModelSpec:
    """The model with other layers, hidden size, experts and expert width."""
    g = base.geometry
    layers = max(PERIOD, round(g.layers * rng.uniform(0.6, 1.1) / PERIOD) * PERIOD)
    hidden = _step(g.hidden, rng.choice((0.75, 1.0, 1.0, 1.25)))
    experts = g.experts and max(g.experts_per_token, round(g.experts * rng.choice((0.5, 0.75, 1.0, 1.0)) / 16) * 16)
    width = g.moe_width and _step(g.moe_width, rng.choice((0.5, 1.0, 1.0, 1.5)))
    return scaled(base, name, layers=layers, hidden=hidden, experts=experts, width=width)


def _step(value: int, factor: float) -> int:
    return value if value % STEP else max(STEP, round(value * factor / STEP) * STEP)


def scaled(base: ModelSpec, name: str, *, layers: int, hidden: int, experts: int, width: int) -> ModelSpec:
    """The model with these sizes; parameters follow from the ones it has."""
    g, config = base.geometry, dict(base.config)
    dense = g.layers - g.moe_layers if g.experts else 0
    moe_layers = layers - dense if g.experts else 0
    wide = hidden / g.hidden
    routed = g.routed_parameters * wide
    if g.experts:
        routed *= moe_layers / g.moe_layers * experts / g.experts * width / g.moe_width
    made = g.model_copy(
        update={
            "name": name,
            "layers": layers,
            "hidden": hidden,
            "groups": _groups(g, layers),
            "attention_parameters": _attention(g, config, hidden) * layers / g.layers,
            "dense_parameters": g.dense_parameters * _dense(g, base.config, layers, hidden, width),
            "routed_parameters": routed,
            "experts": experts,
            "moe_layers": moe_layers,
            "moe_width": width,
        }
    )
    config |= {"num_hidden_layers": layers, "hidden_size": hidden}
    if experts:
        config |= {key: experts for key in EXPERTS if key in config}
        config[next(key for key in WIDTHS if key in config)] = width
    if "layer_types" in config:
        config["layer_types"] = [config["layer_types"][n % 2] for n in range(layers)]
    quant = config.get("quantization_config")
    if isinstance(quant, Mapping):
        config["quantization_config"] = {key: _renamed(value, g.layers, layers) for key, value in quant.items()}
    return base.model_copy(update={"id": f"sampled/{name}", "origin": None, "geometry": made, "config": config})


def _renamed(value: Any, before: int, after: int) -> Any:
    """Names of the draft layer's modules, whose layer number is the count of layers."""
    if not isinstance(value, Sequence) or isinstance(value, str):
        return value
    return [str(v).replace(f"model.layers.{before}.", f"model.layers.{after}.") for v in value]


def _groups(g: Geometry, layers: int) -> tuple[AttentionGroup, ...]:
    """The same kinds of attention in the same shares."""
    counts = [round(group.layers * layers / g.layers) for group in g.groups]
    counts[-1] += layers - sum(counts)
    return tuple(
        group.model_copy(update={"layers": count}) for group, count in zip(g.groups, counts, strict=True)
    )  # fmt: skip


def _dense(g: Geometry, config: Mapping[str, Any], layers: int, hidden: int, width: int) -> float:
    """By how much dense MLPs and shared experts grow."""
    shared, own = int(config.get("n_shared_experts", 0)), config.get("shared_expert_intermediate_size")
    first = g.layers - g.moe_layers if g.experts else 0
    before = first * int(config.get("intermediate_size", 0)) + g.moe_layers * (int(own or 0) + shared * g.moe_width)
    if not g.experts or not before:
        return hidden / g.hidden * layers / g.layers
    after = first * int(config.get("intermediate_size", 0)) + (layers - first) * (int(own or 0) + shared * width)
    return hidden / g.hidden * after / before


def _attention(g: Geometry, config: Mapping[str, Any], hidden: int) -> float:
    """Attention's parameters with another hidden size: latent attention has parts that do not grow with it."""
    if "kv_lora_rank" not in config:
        return g.attention_parameters * hidden / g.hidden
    into = int(config.get("q_lora_rank", 0)) + int(config["kv_lora_rank"]) + int(config["qk_rope_head_dim"])
    into += int(config.get("index_head_dim", 0)) + int(config.get("index_n_heads", 0))
    out = g.heads * int(config["v_head_dim"])
    return g.attention_parameters + g.layers * (hidden - g.hidden) * (into + out)
