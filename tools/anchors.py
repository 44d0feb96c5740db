"""Texts of which every match of a regular expression contains at least one: what to search for before it is tried."""

from __future__ import annotations

import re
from functools import cache
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

LEAST = 3
"""characters of an anchor at least"""
MOST = 40
"""anchors of a pattern at most"""
LONG_ENOUGH = 10


@cache
def anchors_of(pattern: str) -> tuple[bytes, ...]:
    """The anchors of a pattern. Raises `ValueError` for one that is no regular expression, or has none."""
    try:
        tree = parser.parse(pattern)
    except re.error as error:
        raise ValueError(f"{pattern!r} is no regular expression: {error}") from None
    found = () if tree.state.flags & re.IGNORECASE else _best(tree)
    if not found or _shortest(found) < LEAST or len(found) > MOST:
        raise ValueError(f"no text of {LEAST} characters is in every match of {pattern!r}")
    return tuple(text.encode() for text in found)


def _best(tokens: Any) -> tuple[str, ...]:
    """Of all texts that a sequence must contain the set that is dearest to meet by chance; empty: there is none."""
    candidates: list[tuple[str, ...]] = []
    run = ""
    for code, value in tokens:
        if code is codes.LITERAL:
            run += chr(value)
            continue
        if code is codes.AT:  # a boundary has no width
            continue
        candidates.append((run,))
        run = ""
        candidates.append(_inner(code, value))
    candidates.append((run,))
    return max((c for c in candidates if c and _shortest(c)), key=_worth, default=())


def _inner(code: Any, value: Any) -> tuple[str, ...]:
    if code is codes.SUBPATTERN:
        _group, added, _removed, inner = value
        return () if added & re.IGNORECASE else _best(inner)
    if code is codes.BRANCH:
        ways = [_best(way) for way in value[1]]
        return tuple(dict.fromkeys(text for way in ways for text in way)) if all(ways) else ()
    if code in (codes.MAX_REPEAT, codes.MIN_REPEAT) and value[0] >= 1:
        return _best(value[2])
    return ()


def _shortest(anchors: tuple[str, ...]) -> int:
    return min(len(text) for text in anchors)


def _worth(anchors: tuple[str, ...]) -> tuple[int, int, int]:
    shortest = _shortest(anchors)
    return min(shortest, LONG_ENOUGH), -len(anchors), shortest
