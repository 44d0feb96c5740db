"""A surveyed checkpoint as the forecast sees it: geometry and precision, from its name where a table knows it."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from day0.runs.engine_facts import ModelFacts
from day0.runs.errors import UserError
from day0.runs.geometry import Geometry, Precision
from day0.tools.forecast.models import geometry
from day0.tools.forecast.names import Names, UnknownModel


def precision_of(facts: ModelFacts) -> Precision:
    """The precision that the checkpoint stores its experts (or all matrices) in; `bf16` where it names none."""
    method = (facts.quantization or "").lower()
    if "fp4" in method:
        return "fp4"
    if "fp8" in method:
        return "fp8"
    if re.search(r"int4|awq|gptq|compressed", method):
        return "int4"
    named = re.search(r"(?:MX|NV)?FP4|FP8|INT4", facts.model, re.IGNORECASE)
    if method and named:
        low = named[0].lower()
        return "fp8" if low == "fp8" else "int4" if low == "int4" else "fp4"
    return _by_size(facts) if method else "bf16"


def _by_size(facts: ModelFacts) -> Precision:
    """A method that names no width (Quark lists schemes by layer): bytes a parameter tell; bf16 where unknown."""
    known = geometry_of(facts)
    count = facts.parameters or (known[0].total_parameters if known else 0)
    if not facts.weight_bytes or not count:
        return "bf16"
    width = facts.weight_bytes / count
    return "fp4" if width < 0.8 else "fp8" if width < 1.5 else "bf16"


@lru_cache(maxsize=64)
def geometry_of(facts: ModelFacts) -> tuple[Geometry, str] | None:
    """Geometry and family; None where the facts don't make one.

    A name of the shipped table counts only while layers and width agree with the files: a folder may be called
    anything. Without it sparse and linear attention stay unknown, and the model is taken for one that reads all keys.
    """
    for name in (facts.model, "/".join(facts.model.rstrip("/").split("/")[-2:])):  # a hub ID, or a folder called so
        try:
            known, family = Names().find(name)
        except UnknownModel:
            continue
        if (known.layers, known.hidden) == (facts.layers, facts.hidden):
            return known, family
    try:
        return geometry(facts.model, _entry(facts)), facts.model
    except UserError:
        return None


def _entry(facts: ModelFacts) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "layers": facts.layers, "hidden": facts.hidden, "vocab": facts.vocab, "heads": facts.heads,
        "kv_heads": facts.kv_heads, "head_dim": facts.head_dim, "ctx": facts.context, "experts": facts.experts,
        "topk": facts.experts_per_token, "shared": facts.shared_experts, "moe_inter": facts.moe_intermediate,
        "dense_inter": facts.intermediate, "dense_layers": facts.dense_layers if facts.experts else None,
        "mtp_layers": facts.nextn_layers, "kv_lora": facts.kv_lora_rank, "q_lora": facts.q_lora_rank,
        "rope": facts.rope_head_dim,
    }  # fmt: skip
    return {key: value for key, value in entry.items() if value is not None}
