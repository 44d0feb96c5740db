"""A simulated point as the load generator's rows: what a client would have seen of each request.

Latencies between tokens are written as text at once, one number a token: between two events of the scheduler all of
them are equal, so that a row of a thousand numbers is a few repeated strings.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf

from day0.sandboxes.twin.replica import NEVER
from day0.sandboxes.twin.simulate import Point


@dataclass(frozen=True)
class Cut:
    """What ends requests early: the client's patience; the plan's end, the server's death (from the window's start)."""

    deadline_s: float
    end_s: float
    died_s: float = inf

    def of(self, sent: float) -> tuple[float, str]:
        """When a request that still runs is ended, and how the client words it."""
        return min(
            (sent + self.deadline_s, f"deadline: not done after {self.deadline_s:.1f} s"),
            (self.end_s, "cut"),
            (self.died_s, "ClientPayloadError: Response payload is not completed"),
        )


@dataclass(frozen=True)
class _Seen:
    """One request as the client saw it."""

    ttft_ms: float = 0.0
    runs: Sequence[tuple[float, int]] = ()
    latency_ms: float = 0.0
    tokens: int = 0
    error: str = ""


def requests_json(point: Point, cut: Cut, *, planned: bool, hashed: str = "") -> str:
    """The rows as a JSON list; requests that were sent after the end are not in it. `planned`: times were announced."""
    starts = [[jump[2] for jump in jumps] for jumps in point.jumps]
    numbers = (n for n, sent in enumerate(point.requests.arrive) if sent < cut.end_s)
    return "[" + ",".join(_text(point, n, _seen(point, n, cut, starts), planned, hashed) for n in numbers) + "]"


def _seen(point: Point, number: int, cut: Cut, starts: Sequence[Sequence[int]]) -> _Seen:
    r = point.requests
    sent, first, finish = r.arrive[number], r.first[number], r.finish[number]
    limit, error = cut.of(sent)
    if sent >= cut.died_s:
        return _Seen(error="ClientConnectorError: Cannot connect to host: Connection refused")
    if finish == NEVER:
        return _Seen(latency_ms=1.0, error="the input is longer than the KV cache")
    if first > limit:
        return _Seen(latency_ms=1e3 * (limit - sent), error=error)
    runs, ttft_ms = _gaps(point, number, starts[r.replica[number]]), 1e3 * (first - sent)
    if finish <= limit:
        return _Seen(ttft_ms, runs, 1e3 * (finish - sent), r.tokens)
    kept, tokens = _until(runs, 1e3 * (limit - first))
    return _Seen(ttft_ms, kept, 1e3 * (limit - sent), tokens + 1, error)


def _gaps(point: Point, number: int, starts: Sequence[int]) -> list[tuple[float, int]]:
    """(milliseconds, how many tokens) between the tokens of one request, in order."""
    r = point.requests
    left, steps = r.tokens - 1, r.steps[number]
    if not steps:
        return []
    jumps = point.jumps[r.replica[number]]
    index = bisect_left(starts, r.step[number])
    end, last = r.step[number] + steps, r.first[number]
    out: list[tuple[float, int]] = []
    done = told = 0
    while index < len(jumps) and jumps[index][2] < end:
        begin, stop, before, after = jumps[index]
        count = after - before
        pace = (stop - begin) / count
        once = (done + 1) * left // steps - told  # tokens of the first step, which also waited for what ran between
        if once:
            out.append((1e3 * (begin - last + pace) / once, once))
        told += once
        done += count
        rest = done * left // steps - told
        if rest:
            out.append((1e3 * pace * (count - 1) / rest, rest))
        told += rest
        last = stop
        index += 1
    return out


def _until(runs: Iterable[tuple[float, int]], limit_ms: float) -> tuple[list[tuple[float, int]], int]:
    """The gaps that end before a moment, and their number."""
    kept: list[tuple[float, int]] = []
    at, count = 0.0, 0
    for gap, times in runs:
        fits = times if gap <= 0 else min(times, int((limit_ms - at) / gap))
        if fits > 0:
            kept.append((gap, fits))
            count += fits
            at += gap * fits
        if fits < times:
            break
    return kept, count


def _text(point: Point, number: int, seen: _Seen, planned: bool, hashed: str) -> str:
    r = point.requests
    at = f"{r.arrive[number]:.5f}"
    gaps = "".join(f"{gap:.3f}," * times for gap, times in seen.runs)[:-1]
    cached = r.cached[number] if seen.ttft_ms > 0 else "null"
    return (
        f'{{"planned":{at if planned else "null"},"sent":{at},"ttft_ms":{seen.ttft_ms:.3f},"itl_ms":[{gaps}],'
        f'"latency_ms":{seen.latency_ms:.3f},"output_tokens":{seen.tokens},"prompt_tokens":{r.prompt},'
        f'"asked_tokens":{r.prompt},"cached_tokens":{cached},"hash":"{hashed}",'
        f'"ok":{"false" if seen.error else "true"},"error":{json.dumps(seen.error)}}}'
    )
