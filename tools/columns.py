"""The requests of a load point as columns, one numpy array a quantity. Imported where points are summarised only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from day0.runs.errors import Infrastructure
from day0.tools.rawpoint import Row
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Counts = NDArray[np.int64]
Marks = NDArray[np.bool_]
MS, S = 1e3, 1e6
"""microseconds of a millisecond and of a second"""


@dataclass(frozen=True, eq=False)
class Columns:
    """Requests in the order in which they ended. Times in seconds from the window's start, latencies in ms.

    NaN: no planned time, or the server does not say. `itl_ms` holds the gaps between tokens of all requests one after
    the other, `runs` how many of them belong to each. Without `times` each gap stands for itself, in order; with it
    for so many, in no order, and then `in_window` says how many tokens came within the timed window.
    """

    planned: Numbers
    sent: Numbers
    ttft_ms: Numbers
    latency_ms: Numbers
    output_tokens: Numbers
    asked_tokens: Numbers
    prompt_tokens: Numbers
    cached_tokens: Numbers
    ok: Marks
    errors: tuple[str, ...]
    itl_ms: Numbers
    runs: Counts
    times: Counts | None = None
    in_window: Numbers | None = None
    forced_tokens: Numbers | None = None
    """of the output, past the first end-of-text token; None or NaN: unknown"""

    @property
    def count(self) -> int:
        """Of the requests."""
        return len(self.sent)

    @cached_property
    def owner(self) -> Counts:
        """The request that each gap belongs to."""
        return np.repeat(np.arange(self.count), self.runs)

    @property
    def prompt(self) -> Numbers:
        """Prompt tokens as the server counted, else by the harness' own tokenizer."""
        return np.where(self.prompt_tokens > 0, self.prompt_tokens, self.asked_tokens)

    @cached_property
    def first_s(self) -> Numbers:
        """When the first token came."""
        return self.sent + self.ttft_ms / MS

    @cached_property
    def ended_s(self) -> Numbers:
        """When a request ended, or when its last token came."""
        gaps = self.itl_ms if self.times is None else self.itl_ms * self.times
        streamed = np.bincount(self.owner, weights=gaps, minlength=self.count)
        return self.sent + np.maximum(self.latency_ms, self.ttft_ms + streamed) / MS

    @property
    def tpot_ms(self) -> Numbers:
        """(latency - TTFT) / (output tokens - 1); NaN with a single token."""
        more = self.output_tokens - 1
        out = np.full(self.count, np.nan)
        np.divide(self.latency_ms - self.ttft_ms, more, out=out, where=more > 0)
        return out

    def named(self, error: str) -> Marks:
        """The requests that ended with this error."""
        return np.fromiter((e == error for e in self.errors), dtype=np.bool_, count=self.count)

    def tokens_within(self, start: float, end: float) -> Numbers:
        """Output tokens delivered in [start, end), request by request, from gaps in order."""
        first, came = self.first_s, self.ttft_ms > 0
        ends = np.cumsum(self.runs)
        since = np.concatenate(([0.0], np.cumsum(self.itl_ms)))
        at = np.repeat(first - since[ends - self.runs] / MS, self.runs) + since[1:] / MS
        inside = np.bincount(self.owner, weights=(start <= at) & (at < end), minlength=self.count)
        return np.where(came, ((start <= first) & (first < end)) + inside, 0.0)


def read(value: object) -> Columns:
    """`requests` of a load generator's result, in either form. Raises `Infrastructure` for anything else."""
    try:
        if isinstance(value, Mapping):
            return _columns(value)
        if isinstance(value, list):
            return of_rows([Row.model_validate(row) for row in value])
    except (KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
        raise Infrastructure(f"the load generator's requests can't be read: {str(error)[:300]}") from None
    raise Infrastructure("the load generator's result holds no requests")


def of_rows(rows: Sequence[Row]) -> Columns:
    """Columns of rows."""

    def column(values: Sequence[float | None]) -> Numbers:
        return np.array(values, dtype=np.float64)

    return Columns(
        planned=column([r.planned for r in rows]),
        sent=column([r.sent for r in rows]),
        ttft_ms=column([r.ttft_ms for r in rows]),
        latency_ms=column([r.latency_ms for r in rows]),
        output_tokens=column([r.output_tokens for r in rows]),
        asked_tokens=column([r.asked_tokens for r in rows]),
        prompt_tokens=column([r.prompt_tokens for r in rows]),
        cached_tokens=column([r.cached_tokens for r in rows]),
        ok=np.array([r.ok for r in rows], dtype=np.bool_),
        errors=tuple(r.error for r in rows),
        itl_ms=np.array([gap for r in rows for gap in r.itl_ms], dtype=np.float64),
        runs=np.array([len(r.itl_ms) for r in rows], dtype=np.int64),
        forced_tokens=column([r.forced_tokens for r in rows]),
    )


def _columns(value: Mapping[str, Any]) -> Columns:
    count = int(value["count"])

    def column(name: str, unit: float = 1.0) -> Numbers:
        given = value[name]
        if isinstance(given, list):
            if len(given) != count:
                raise ValueError(f"{name} has {len(given)} values of {count}")
            return np.array(given, dtype=np.float64) / unit
        return np.full(count, np.nan if given is None else float(given) / unit)

    errors = [""] * count
    for number, text in value["errors"].items():
        errors[int(number)] = str(text)
    runs, times = (np.array(value[name], dtype=np.int64) for name in ("itl_runs", "itl_times"))
    gaps = np.array(value["itl_us"], dtype=np.float64) / MS
    if len(runs) != count or runs.sum() != len(gaps) or len(times) != len(gaps):
        raise ValueError("itl_runs, itl_times and itl_us do not fit together")
    return Columns(
        planned=column("planned_us", S),
        sent=column("sent_us", S),
        ttft_ms=column("ttft_us", MS),
        latency_ms=column("latency_us", MS),
        output_tokens=column("output_tokens"),
        asked_tokens=column("asked_tokens"),
        prompt_tokens=column("prompt_tokens"),
        cached_tokens=column("cached_tokens"),
        ok=np.array([not e for e in errors], dtype=np.bool_),
        errors=tuple(errors),
        itl_ms=gaps,
        runs=runs,
        times=times,
        in_window=column("in_window"),
        forced_tokens=column("forced_tokens") if "forced_tokens" in value else None,
    )
