"""Traces of real traffic: JSON lines in the format of Mooncake's published traces.

One request a line: `timestamp` (ms from the beginning), `input_length`, `output_length` (tokens) and `hash_ids`: what
each 512 tokens of the prompt are, so that requests whose lists begin alike share that much of their prompts (format
and block size: Mooncake, FAST'25 traces, github.com/kvcache-ai/Mooncake). `text`, which Mooncake's own files do not
have, is real text of the request: a workload with `text: trace` cuts its prompts out of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import isfinite
from pathlib import Path
from typing import Any

from day0.runs.errors import Infrastructure, UserError
from day0.runs.values import Frozen, sha256
from day0.runs.workload import Workload

BLOCK = 512
MAX_BYTES, MAX_TOKENS = 512 << 20, 10_000_000
MOST_SHARED = 0.99
NEEDED = ("timestamp", "input_length", "output_length")


class Call(Frozen):
    """One request: seconds since the one before it, tokens, and the blocks of its prompt."""

    gap_s: float
    input_tokens: int
    output_tokens: int
    blocks: tuple[int, ...] = ()


@dataclass(frozen=True)
class Trace:
    """Requests in the order of their arrival, taken as a ring: after the last one the first comes again."""

    calls: tuple[Call, ...]
    texts: tuple[str, ...] = ()

    @cached_property
    def _blocks(self) -> int:
        return 1 + max((b for c in self.calls for b in c.blocks), default=0)

    def part(self, start: int, count: int) -> tuple[Call, ...]:
        """`count` requests from number `start` on. Another round shares no prompts with the one before."""
        out, size = [], len(self.calls)
        for number in range(start, start + count):
            lap, call = number // size, self.calls[number % size]
            more = (lap - start // size) * self._blocks
            out.append(call.model_copy(update={"blocks": tuple(b + more for b in call.blocks)}) if more else call)
        return tuple(out)

    def workload(self) -> dict[str, int | float]:
        """What a workload says of its requests, in the mean: lengths, share of the input that was seen before."""
        size, prompts = len(self.calls), sum(c.input_tokens for c in self.calls)
        first = {c.blocks[0] for c in self.calls if c.blocks}
        return {
            "input_tokens": max(1, round(prompts / size)),
            "output_tokens": max(1, round(sum(c.output_tokens for c in self.calls) / size)),
            "cached_share": round(min(MOST_SHARED, sum(shared(self.calls)) / prompts), 4),
            "prefixes": max(1, len(first)),
            "longest_tokens": max(c.input_tokens + c.output_tokens for c in self.calls),
        }


def shared(calls: Iterable[Call]) -> list[int]:
    """Tokens of each prompt that an earlier one began with too; the last token of a prompt is always computed."""
    seen: dict[int, int] = {}
    out = []
    for call in calls:
        left, found, whole = call.input_tokens, 0, True
        for block in call.blocks:
            size = min(BLOCK, left)
            had = seen.get(block, 0)
            found += min(size, had) if whole else 0
            whole = whole and had >= size
            seen[block] = max(size, had)
            left -= size
        out.append(min(found, call.input_tokens - 1))
    return out


def read(path: Path) -> tuple[Trace, str]:
    """The trace in a file, and the file's digest. Raises `UserError` that names the line."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise UserError(f"{path} is larger than {MAX_BYTES >> 20} MiB: cut the trace")
        data = path.read_bytes()
    except OSError as error:
        raise UserError(f"{path} can't be read: {(error.strerror or 'unknown error').lower()}") from None
    calls: list[Call] = []
    texts: list[str] = []
    before: float | None = None
    for number, line in enumerate(data.splitlines(), 1):
        if not line.strip():
            continue
        try:
            value = _object(line)
            at, call = _call(value, before)
            text = value.get("text", "")
            if not isinstance(text, str):
                raise ValueError("`text` is not text")
        except ValueError as error:
            raise UserError(f"{path}:{number}: {error}") from None
        before = at
        calls.append(call)
        texts += [text] if text.strip() else []
    span = sum(c.gap_s for c in calls)
    if len(calls) < 2 or span <= 0:
        raise UserError(f"{path}: a trace needs two requests at different times at least")
    # the ring closes with a mean gap
    calls[0] = calls[0].model_copy(update={"gap_s": span / (len(calls) - 1)})
    return Trace(tuple(calls), tuple(texts)), sha256(data)


def _object(line: bytes) -> Mapping[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        raise ValueError("not a JSON object, such as {" + ", ".join(f'"{n}": 1' for n in NEEDED) + "}") from None
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    missing = [name for name in NEEDED if name not in value]
    if missing:
        raise ValueError(f"`{missing[0]}` is missing")
    return value


def _call(value: Mapping[str, Any], before: float | None) -> tuple[float, Call]:
    at = value["timestamp"]
    if isinstance(at, bool) or not isinstance(at, (int, float)) or not isfinite(at) or at < 0:
        raise ValueError(f"`timestamp` is not a number of milliseconds: {_said(at)}")
    if before is not None and at < before:
        raise ValueError(f"`timestamp` {at:g} is earlier than that of the request before, {before:g}")
    lengths = [value[name] for name in NEEDED[1:]]
    for name, length in zip(NEEDED[1:], lengths, strict=True):
        if isinstance(length, bool) or not isinstance(length, int) or not 1 <= length <= MAX_TOKENS:
            raise ValueError(f"`{name}` is not a number of tokens from 1 on: {_said(length)}")
    blocks = value.get("hash_ids", [])
    if not isinstance(blocks, list) or any(isinstance(b, bool) or not isinstance(b, int) or b < 0 for b in blocks):
        raise ValueError("`hash_ids` is not a list of numbers from 0 on")
    if blocks and len(blocks) != -(-lengths[0] // BLOCK):
        raise ValueError(
            f"`hash_ids` has {len(blocks)} blocks, {lengths[0]} tokens are {-(-lengths[0] // BLOCK)} of {BLOCK}"
        )
    gap = 0.0 if before is None else (at - before) / 1e3
    return float(at), Call(gap_s=gap, input_tokens=lengths[0], output_tokens=lengths[1], blocks=tuple(blocks))


def _said(value: object) -> str:
    return json.dumps(value, default=str)[:60]


def of(workload: Workload) -> Trace | None:
    """A workload's trace; None for one without. Raises as `pinned`."""
    return pinned(workload.trace, workload.trace_digest) if workload.trace else None


@lru_cache(maxsize=4)
def pinned(path: str, digest: str) -> Trace:
    """The trace that a workload was read with: at its place, else under its name in the current folder.

    Raises `Infrastructure` where there is no such file, or another one.
    """
    why = "is not there"
    for place in (Path(path), Path(Path(path).name)):
        if place.is_file():
            trace, found = read(place)
            if found == digest:
                return trace
            why = f"has changed: it is {found[:19]} now"
    raise Infrastructure(f"the trace {path} ({digest[:19]}) {why}; put that file into the current folder")
