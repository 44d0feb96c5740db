"""Drawn worlds that outlive a process: drawing one takes seconds, since what is drawn has to be solvable."""

from __future__ import annotations

from functools import cache
from importlib import resources
from pathlib import Path

from day0.runs.values import sha256
from day0.sandboxes.twin import sample
from day0.sandboxes.twin.world import World

DRAWN_BY = (("day0.sandboxes.twin", ".py"), ("day0.runs.library.world", ".yaml"), ("day0.runs", ".py"))
"""(package, suffix) of the text that decides what a number draws"""


def drawn(number: int, home: Path | None = None) -> World:
    """The world of that number. With `home` it is kept there under a hash of the code that draws it.

    Raises `OSError` when it can't be written.
    """
    return _drawn(number, home)


@cache
def _drawn(number: int, home: Path | None) -> World:
    if home is None:
        return sample.sample(number)
    file = home / "worlds" / f"sample-{number}-{_code()[7:23]}.json"
    try:
        return World.model_validate_json(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):  # never drawn before, or it can't be read any more
        made = sample.sample(number)
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(".part")
    part.write_text(made.canonical(), encoding="utf-8")
    part.replace(file)
    return made


@cache
def _code() -> str:
    texts = [
        f"{place.name}\n{place.read_text(encoding='utf-8')}"
        for package, suffix in DRAWN_BY
        for place in sorted(resources.files(package).iterdir(), key=lambda p: p.name)
        if place.name.endswith(suffix)
    ]
    return sha256("\n".join(texts))
