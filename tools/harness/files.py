"""The files by which the load generator is spoken to, and the lines that it prints. Runs in the harness environment."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any


def say(text: str) -> None:
    """One line for whoever watches."""
    print(text, flush=True)  # noqa: T201


def save(path: str, value: object) -> None:
    """Writes a file that is there whole or not at all."""
    part = Path(path + ".part")
    part.write_text(json.dumps(value), encoding="utf-8")
    part.replace(path)


def next_plan(number: int) -> dict[str, Any] | None:
    """The plan of that number, once it is there whole."""
    go = Path(f"go-{number}")
    if not go.exists():
        return None
    data, digest = Path(f"plan-{number}.json").read_bytes(), go.read_text().strip()
    if not digest:
        return None
    if hashlib.sha256(data).hexdigest() != digest:
        raise ValueError(f"plan-{number}.json is not what was announced")
    plan: dict[str, Any] = json.loads(data)
    return plan
