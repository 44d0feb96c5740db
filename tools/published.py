"""Published launch configurations: where others started with the nearest architecture. Pure; the table is shipped."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Literal

from day0.runs.engine_facts import ModelFacts
from day0.runs.geometry import Precision
from day0.runs.values import Frozen, Map
from day0.runs.workload import FlagValue
from pydantic import Field

SCHEMA = "day0/published/v1"
Attention = Literal["plain", "latent", "sparse", "linear", "compressed"]
NEAR = 2.0
"""least likeness at which a recipe says anything about a model: the same kind of attention"""


class Published(Frozen):
    """One published configuration of a replica of `tp` accelerators."""

    name: str
    architectures: tuple[str, ...]
    attention: Attention
    precision: Precision
    tp: int = Field(ge=1)
    flags: Map[FlagValue] = Field(default_factory=dict)
    env: Map[str] = Field(default_factory=dict)
    traffic: Literal["shared", "random"]
    source: str


@cache
def recipes() -> tuple[Published, ...]:
    """The shipped table, in its order. Raises `ValueError` for a wrong document; a test reads it."""
    import yaml

    document = yaml.safe_load(files(__package__).joinpath("published.yaml").read_text(encoding="utf-8"))
    if document.pop("schema", None) != SCHEMA:
        raise ValueError(f"published.yaml: a document without schema: {SCHEMA}")
    found = tuple(Published.model_validate(entry) for entry in document["recipes"])
    if len({recipe.name for recipe in found}) != len(found):
        raise ValueError("published.yaml: two recipes have the same name")
    return found


def attention_of(model: ModelFacts) -> Attention:
    """The kind of attention, from the names and ranks of a checkpoint's configuration."""
    names = f"{model.architecture} {model.model_type}".lower()
    if "deepseek_v4" in names or "deepseekv4" in names:
        return "compressed"
    if "dsa" in names or "deepseek_v32" in names or "deepseekv32" in names:
        return "sparse"
    if any(word in names for word in ("qwen3_5", "qwen3_next", "qwen3next", "linear", "kimi_k3")):
        return "linear"
    return "latent" if model.kv_lora_rank is not None else "plain"


def nearest(model: ModelFacts, precision: Precision, *, shared: bool) -> Published | None:
    """The most alike recipe: architecture before attention before precision before traffic; the earlier of equals."""

    def likeness(recipe: Published) -> float:
        same = 4.0 * (model.architecture in recipe.architectures) + 2.0 * (recipe.attention == attention_of(model))
        return same + (recipe.precision == precision) + 0.5 * ((recipe.traffic == "shared") == shared)

    if model.experts == 0:  # every published recipe is of a mixture of experts
        return None
    best = max(recipes(), key=likeness)
    return best if likeness(best) >= NEAR and (attention_of(model) == best.attention) else None
