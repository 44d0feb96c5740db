"""Lines of the engine's source for whoever asks: a stretch of a file, or where a text stands. Text of others: data."""

from __future__ import annotations

from collections.abc import Iterator

from day0.runs.errors import Refused
from day0.tools.codemods.base import Source, holding

LINE_CHARS = 300
MOST_FILES, MOST_LINES = 20, 60


def shown(source: Source, path: str, first: int, lines: int) -> str:
    """Some lines of a file as they are, after a line that says which. Raises `Refused` where there is no such file."""
    text = source(path)
    if text is None:
        raise Refused(f"the engine's source has no text file {path[:200]!r}; paths are relative to its workspace")
    every = text.splitlines()
    some = every[first - 1 : first - 1 + lines]
    return "\n".join([f"{path}, lines {first} to {first - 1 + len(some)} of {len(every)}", *some])


def found(source: Source, text: str, names: str) -> str:
    """Where a text stands, as `path:number:line`."""
    rows = list(_rows(source, text, names))
    more = "\n(there are more)" if len(rows) > MOST_LINES else ""
    return "\n".join(rows[:MOST_LINES]) + more if rows else f"no file {names} contains it"


def _rows(source: Source, text: str, names: str) -> Iterator[str]:
    for path in holding(source, text, names)[:MOST_FILES]:
        for number, row in enumerate((source(path) or "").splitlines(), 1):
            if text in row:
                yield f"{path}:{number}:{row[:LINE_CHARS]}"
