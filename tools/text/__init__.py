"""Text to send: public-domain prose and code of this project (see SOURCES.txt beside this), sums, random words."""

from __future__ import annotations

import random
import string
from importlib import resources

PROSE = ("alice.txt", "paradise_lost.txt", "code.txt")
SUMS_CHARS = 120_000
RANDOM_CHARS = 300_000


def prose() -> str:
    """All shipped text as one line of printable ASCII, blanks collapsed."""
    return _joined(*PROSE)


def code() -> str:
    """The shipped source code alone, in the same form."""
    return _joined("code.txt")


def _joined(*names: str) -> str:
    root = resources.files(__package__ or "day0.tools.text")
    return " ".join(" ".join(root.joinpath(name).read_text("ascii") for name in names).split())


def sums() -> str:
    """Worked sums of two-digit numbers as one line, the same each time."""
    rng = random.Random("sums")
    parts, size = [], 0
    while size < SUMS_CHARS:
        a, b = rng.randrange(10, 100), rng.randrange(10, 100)
        parts.append(f"{a}+{b}={a + b}")
        size += len(parts[-1]) + 1
    return " ".join(parts)


def noise() -> str:
    """Words of random letters, the same each time: nothing that a model could foresee."""
    rng = random.Random("random")
    words, size = [], 0
    while size < RANDOM_CHARS:
        words.append("".join(rng.choices(string.ascii_letters + string.digits, k=rng.randrange(2, 10))))
        size += len(words[-1]) + 1
    return " ".join(words)


def corpus(kind: str) -> str:
    """The text of a workload's `text` field, but for a trace's own."""
    return {"sums": sums, "code": code, "random": noise}.get(kind, prose)()
