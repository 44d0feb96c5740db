"""Real text to send: public-domain prose and code of this project (see SOURCES.txt beside this)."""

from __future__ import annotations

import random
from importlib import resources

PROSE = ("alice.txt", "paradise_lost.txt", "code.txt")
SUMS_CHARS = 120_000


def prose() -> str:
    """All shipped text as one line of printable ASCII, blanks collapsed."""
    root = resources.files(__package__ or "day0.tools.text")
    return " ".join(" ".join(root.joinpath(name).read_text("ascii") for name in PROSE).split())


def sums() -> str:
    """Worked sums of two-digit numbers as one line, the same each time."""
    rng = random.Random("sums")
    parts, size = [], 0
    while size < SUMS_CHARS:
        a, b = rng.randrange(10, 100), rng.randrange(10, 100)
        parts.append(f"{a}+{b}={a + b}")
        size += len(parts[-1]) + 1
    return " ".join(parts)


def corpus(kind: str) -> str:
    """The text of a workload's `text` field."""
    return sums() if kind == "sums" else prose()
