"""The smallest set of hunks that still works: each is left out once, and stays out where nothing is lost by it.

Delete-one, as Zeller's delta debugging does at its finest grain: patches here have a handful of hunks, so that the
smallest cuts come first and each question is asked once.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@(.*)", re.S)


@dataclass(frozen=True)
class Hunk:
    """One hunk with the lines that name its file."""

    head: str
    old: int
    old_count: int
    new_count: int
    rest: str
    """what follows the second `@@`, and the hunk's lines"""


def hunks(diff: str) -> tuple[Hunk, ...]:
    """The hunks of a diff that passed the rules (`patch_rules.read`)."""
    out: list[Hunk] = []
    head, lines, left = "", diff.splitlines(keepends=True), (0, 0)
    body: list[str] = []
    for row in lines:
        if left > (0, 0) or (body and row.startswith("\\")):
            body.append(row)
            kind = row[:1]
            left = (left[0] - (kind in {" ", "-", "\n"}), left[1] - (kind in {" ", "+", "\n"}))
            out[-1] = Hunk(out[-1].head, out[-1].old, out[-1].old_count, out[-1].new_count, "".join(body))
            continue
        found = _HUNK.match(row)
        if found is None:
            head = row if row.startswith("diff --git ") else head + row
            continue
        counts = tuple(1 if found[n] is None else int(found[n]) for n in (2, 4))
        left, body = (counts[0], counts[1]), [found[5]]
        out.append(Hunk(head, int(found[1]), counts[0], counts[1], found[5]))
    return tuple(out)


def joined(kept: tuple[Hunk, ...]) -> str:
    """The diff of these hunks alone: the lines at which they arrive follow from what stands before them."""
    out: list[str] = []
    head, shift = "", 0
    for hunk in kept:
        if hunk.head != head:
            head, shift = hunk.head, 0
            out.append(head)
        begin = hunk.old + shift + (1 if hunk.old_count == 0 else 0) - (1 if hunk.new_count == 0 else 0)
        out.append(f"@@ -{hunk.old},{hunk.old_count} +{begin},{hunk.new_count} @@{hunk.rest}")
        shift += hunk.new_count - hunk.old_count
    return "".join(out)


def minimal(diff: str, works: Callable[[str], bool]) -> str:
    """The diff without the hunks that it works without; the diff itself where each is needed.

    `works` is asked about diffs of fewer hunks, at most once for each hunk; the last hunk is never left out.
    """
    kept = hunks(diff)
    for hunk in kept[::-1]:
        fewer = tuple(h for h in kept if h is not hunk)
        if fewer and works(joined(fewer)):
            kept = fewer
    return diff if len(kept) == len(hunks(diff)) else joined(kept)


__all__ = ["Hunk", "hunks", "joined", "minimal"]
