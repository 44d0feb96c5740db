"""Tools for servers without the tools API: how the format is explained, and how calls are found in plain text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

MAX_CALLS = 16
MAX_TEXT = 200_000
MAX_MISSES = 500
THOUGHT = re.compile(r"<think(?:ing)?>.*?</think(?:ing)?>", re.S | re.I)
NAME_KEYS = ("tool", "name", "kind", "action", "function")
ARGUMENT_KEYS = ("arguments", "args", "parameters", "input")


def explain(schemas: list[dict[str, Any]]) -> str:
    """What a server without tools is told: one JSON object per call, nothing else."""
    tools = json.dumps([s["function"] for s in schemas], separators=(",", ":"), sort_keys=True)
    return (
        'Answer with JSON only: {"calls": [{"tool": NAME, "arguments": {...}}]}. No prose around it. '
        f"These are the tools and the schemas of their arguments: {tools}"
    )


def calls_in(text: str) -> tuple[tuple[str, str], ...]:
    """Calls as (name, JSON arguments) that stand in a text, in order; empty where there are none.

    What a reasoning model thinks aloud between <think> tags is not an answer.
    """
    found: list[tuple[str, str]] = []
    for value in _objects(THOUGHT.sub("", text[:MAX_TEXT])):
        found.extend(_calls(value))
        if len(found) >= MAX_CALLS:
            break
    return tuple(found[:MAX_CALLS])


def _objects(text: str) -> Iterator[Any]:
    """Every JSON object or array in the text that is not inside another one."""
    decoder = json.JSONDecoder()
    at = misses = 0
    while (start := _next(text, at)) >= 0 and misses < MAX_MISSES:
        try:
            value, at = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            at, misses = start + 1, misses + 1
            continue
        yield value


def _next(text: str, at: int) -> int:
    places = [p for p in (text.find("{", at), text.find("[", at)) if p >= 0]
    return min(places, default=-1)


def _calls(value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, list):
        for one in value:
            yield from _calls(one)
    if not isinstance(value, dict):
        return
    for key in ("calls", "tool_calls", "actions"):
        if isinstance(value.get(key), list):
            yield from _calls(value[key])
            return
    if isinstance(value.get("function"), dict):
        value = value["function"]
    name = next((value[k] for k in NAME_KEYS if isinstance(value.get(k), str)), None)
    if name is None:
        return
    given = next((value[k] for k in ARGUMENT_KEYS if k in value), None)
    if given is None:
        given = {k: v for k, v in value.items() if k not in NAME_KEYS}
    yield name, given if isinstance(given, str) else json.dumps(given)
