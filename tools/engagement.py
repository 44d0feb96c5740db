"""Whether what a candidate brings beside flags took effect, by the log of the server that ran with it (S44)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from day0.runs.errors import CandidateFailed
from day0.runs.facts import FailureClass
from day0.runs.patches import Patch, Table
from day0.tools.aiter_shapes import untuned

_FILE = re.compile(r"[\w+-]+\.(?:cuh|cu|hpp|h|py)\b")
MAX_LINE = 400


def check(patches: Sequence[Patch], tables: Sequence[Table], log: bytes) -> None:
    """Raises `CandidateFailed` (bad_patch) with the line that shows that one of them had no effect."""
    if reason := no_effect(patches, tables, log):
        raise CandidateFailed(FailureClass.BAD_PATCH, reason)


def no_effect(patches: Sequence[Patch], tables: Sequence[Table], log: bytes) -> str:
    """The first sign that a patch or a table had no effect; empty: there is none."""
    for patch in patches:
        for text in patch.gone:
            if line := _still(patch, text, log):
                return f"patch {patch.name} had no effect, the log still says: {line}"
    if tables:
        seen = untuned(log)
        for table in tables:
            left = [shape.said() for shape in seen.shapes if shape.said() in table.shapes]
            if left:
                return f"the tuned table had no effect: {len(left)} of its shapes run untuned, such as {left[0]}"
    return ""


def _still(patch: Patch, text: str, log: bytes) -> str:
    """The first line with the text; one that names only files that the patch did not change is about another thing."""
    names, at = {path.rpartition("/")[2] for path in patch.after}, log.find(text.encode())
    while at >= 0:
        start, end = log.rfind(b"\n", 0, at) + 1, log.find(b"\n", at)
        line = log[start : end if end >= 0 else len(log)].decode(errors="replace")
        named = set(_FILE.findall(line))
        if not named or names & named:
            return line.strip()[:MAX_LINE]
        at = log.find(text.encode(), max(end, at + 1)) if end >= 0 else -1
    return ""
