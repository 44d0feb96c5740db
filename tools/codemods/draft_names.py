"""How a checkpoint names the modules of its draft layer, and how the engine does."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

OWN = ("eh_proj", "enorm", "hnorm", "shared_head")
"""Modules of a draft layer that stand beside its decoder block at run time."""
LISTS = ("exclude", "ignore", "ignored_layers", "modules_to_not_convert")
"""Where quantisation methods keep the names of what they left alone."""
RUNTIME = {"model": True, "model.decoder": False}
"""Run-time prefix -> whether it is that of the draft layer's own modules."""


@dataclass(frozen=True)
class Draft:
    """The draft layer in the checkpoint: its prefix, its number, and its excluded modules without the prefix."""

    prefix: str
    layers: int
    modules: tuple[str, ...]
    exclude: tuple[str, ...]

    def runtime(self, module: str) -> str:
        """The prefix that the engine gives a module."""
        return "model" if module.split(".", maxsplit=1)[0] in OWN else "model.decoder"


def draft_of(config: Mapping[str, Any]) -> Draft:
    """From `config.json`; without modules where nothing of a draft layer is excluded."""
    text = config.get("text_config")
    layers = _number(config.get("num_hidden_layers"))
    if layers is None and isinstance(text, Mapping):
        layers = _number(text.get("num_hidden_layers"))
    quant = config.get("quantization_config")
    lists = [quant.get(key) for key in LISTS] if isinstance(quant, Mapping) else []
    exclude = tuple(str(entry) for found in lists if isinstance(found, (list, tuple)) for entry in found)
    if layers is None:
        return Draft("", 0, (), exclude)
    of_draft = re.compile(rf"([\w.]*\blayers)\.{layers}\.(.+)\Z")
    found = [match for entry in exclude if (match := of_draft.match(entry))]
    heads = [match[1] for match in found]
    head = max(heads, key=heads.count) if heads else "model.layers"
    modules = tuple(dict.fromkeys(match[2] for match in found if match[1] == head))
    return Draft(f"{head}.{layers}", layers, modules, exclude)


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def excluded(name: str, entries: Sequence[str]) -> bool:
    """Quark's rule: the very name, or an entry `re:...` that matches from its beginning."""
    for entry in entries:
        if entry.startswith("re:"):
            try:
                if re.match(entry[3:], name):
                    return True
            except re.error:
                continue
        elif entry == name:
            return True
    return False
