"""Scores that a model card publishes: the `model-index` of its front matter. Numbers only; its prose is never read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

CARD = "README.md"
MOST_BYTES = 4 << 20


def scores(folder: Path) -> Mapping[str, float]:
    """Task -> share in [0, 1], by the names of the card's data sets; empty where there is no card or no such part."""
    try:
        with (folder / CARD).open("rb") as opened:
            text = opened.read(MOST_BYTES).decode(errors="replace")
    except OSError:
        return {}
    found = re.match(r"---\r?\n(.*?)\r?\n---", text, re.DOTALL)
    if found is None:
        return {}
    import yaml

    try:
        value = yaml.safe_load(found[1])
    except yaml.YAMLError:
        return {}
    out: dict[str, float] = {}
    for result in _results(value):
        name, share = _named(result), _share(result)
        if name and share is not None:
            out.setdefault(name, share)
    return out


def of(task: str, card: Mapping[str, float]) -> float | None:
    """The card's score of a task, whose name may be a part of the card's, or hold it; None: it has none."""
    own = _plain(task)
    return next((share for name, share in card.items() if own in _plain(name) or _plain(name) in own), None)


def _results(value: Any) -> list[Any]:
    index = value.get("model-index") if isinstance(value, dict) else None
    models = index if isinstance(index, list) else []
    return [r for m in models if isinstance(m, dict) for r in (m.get("results") or ()) if isinstance(r, dict)]


def _named(result: Mapping[str, Any]) -> str:
    data = result.get("dataset")
    return str(data.get("name") or data.get("type") or "")[:80] if isinstance(data, dict) else ""


def _share(result: Mapping[str, Any]) -> float | None:
    metrics = result.get("metrics")
    first = metrics[0] if isinstance(metrics, list) and metrics else None
    value = first.get("value") if isinstance(first, dict) else None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 100:
        return None
    return value / 100 if value > 1 else float(value)


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
