"""A running server's counters and compile lines over time, taken by whoever polls."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from day0.sandboxes.base import Clock, Process
from day0.tools.engines.base import Counters
from day0.tools.rawpoint import Sample

JIT = re.compile(
    rb"(?im)^.*(start build \[|finish build \[|building extension|ninja: |waiting for baton release|"
    rb"recompil|torch\._inductor|autotun(?:e|ing)|capturing batches|capture cuda graph begin|deepgemm.*compil|"
    rb"jit[- ]compil).*$"
)
"""Lines of a kernel compile or a graph capture: aiter, torch extensions, inductor, Triton autotune, SGLang's graphs."""
CHUNK = 1 << 20


class Moment(NamedTuple):
    """One reading, at node time."""

    at: float
    jit_lines: int
    seen: Counters


class Sampler:
    """Collects `Moment`s of one load point. `process` is the server's: only what it logs from now on is searched."""

    def __init__(self, clock: Clock, counters: Callable[[], Counters], process: Process) -> None:
        self.clock, self.counters, self.process = clock, counters, process
        self.moments: list[Moment] = []
        self.offset = 0
        self._rest = b""
        self._skip()

    def _skip(self) -> None:
        while chunk := self.process.output(self.offset, CHUNK):
            self.offset += len(chunk)

    def _jit(self) -> int:
        """Compile lines that came whole since the last look."""
        data = self._rest
        while chunk := self.process.output(self.offset, CHUNK):
            self.offset += len(chunk)
            data += chunk
        whole, _, self._rest = data.rpartition(b"\n")
        return len(JIT.findall(whole))

    def due(self, every_s: float) -> Counters | None:
        """Takes a reading when the last one is that old, and returns it."""
        if not self.moments or self.clock.now() - self.moments[-1].at >= every_s:
            return self.take()
        return None

    def take(self) -> Counters:
        """Takes a reading now."""
        seen = self.counters()
        self.moments.append(Moment(self.clock.now(), self._jit(), seen))
        return seen

    def found(self, until: float) -> tuple[float, ...]:
        """Tokens that each replica found in its cache from the first reading to the next one after `until` (node time).

        Empty = the server does not say.
        """
        first = self.moments[0].seen.found if self.moments else ()
        last = next((m.seen.found for m in self.moments if m.at >= until), first)
        return tuple(b - a for a, b in zip(first or (0.0,) * len(last), last, strict=False))

    def samples(self, zero: float | None) -> tuple[Sample, ...]:
        """The readings with times from the window's start (`zero`, node time; None = from the first reading)."""
        start = zero if zero is not None else (self.moments[0].at if self.moments else 0.0)
        return tuple(
            Sample(
                at_s=at - start,
                jit_lines=lines,
                running=seen.running,
                queued=seen.queued,
                kv_use=seen.kv_use,
                generated_tokens=seen.generated_tokens,
                prompt_tokens=seen.prompt_tokens,
                cached_tokens=seen.cached_tokens,
                acceptance_length=seen.acceptance_length,
                ttft_sum_s=seen.ttft_sum_s,
                ttft_count=seen.ttft_count,
            )
            for at, lines, seen in self.moments
        )
