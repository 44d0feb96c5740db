"""Liveness by progress, never by age: a slow but healthy start is not killed, a dead one is noticed within minutes.

Before ready, progress is output, storage I/O, a change in the number of children or in accelerator memory, or CPU
use; CPU alone counts for at most 30 minutes, since a spinning deadlock burns CPU too. After ready it is generated
tokens or finished requests, and only while requests are in flight: an idle server is well.

Pure: fed with what was observed and when, in node seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from day0.runs.workload import Target
from day0.sandboxes.spec import Vitals

CPU_ALONE_S = 1800.0
BUSY_CPU = 0.1
"""Share of one core from which a tree counts as busy; pollers of a hung server stay well below."""
CPU_WINDOW_S = 2.0
"""CPU is judged over at least this long: counted in ticks of 10 ms, shorter looks would see bursts."""
IO_STEP = 1 << 20
"""Bytes of I/O that count as progress; a heartbeat file does not."""
SHORTEST_CAP_S = 2400.0
"""A boot's hard cap is three times its forecast, but never below 40 minutes."""


@dataclass(frozen=True)
class Limits:
    """Of a target, node seconds: without any progress while booting, after ready, and the hard cap of a boot."""

    boot_stall_s: float
    stall_s: float
    boot_cap_s: float
    cpu_alone_s: float = CPU_ALONE_S

    @classmethod
    def of(cls, target: Target) -> Limits:
        """The limits of a target document."""
        return cls(target.boot_stall_s, target.stall_s, target.boot_cap_s)


def boot_cap_s(forecast_s: float) -> float:
    """The hard cap of a boot whose length was forecast, node seconds."""
    return max(3 * forecast_s, SHORTEST_CAP_S)


@dataclass(frozen=True)
class Life:
    """A judgement. `quiet_s`: since the last progress; `sign`: what that was; `why`: one sentence unless alive."""

    state: Literal["alive", "stalled", "capped"]
    quiet_s: float
    sign: str
    why: str = ""


class Liveness:
    """Watches one boot, from `started` on. Feed `booting` until ready, then `ready` once, then `serving`."""

    def __init__(self, limits: Limits, started: float) -> None:
        self.limits, self.started = limits, started
        self._sign, self._last, self._last_solid = "start", started, started
        self._seen: Vitals | None = None
        self._io_mark: int | None = None
        self._cpu_mark: tuple[float, float] | None = None
        self._done: float | None = None

    def booting(self, now: float, vitals: Vitals) -> Life:
        """Judges a server that is not ready yet. Times must not go back."""
        sign = self._solid_sign(vitals)
        if sign:
            self._last = self._last_solid = now
            self._sign = sign
        elif self._busy(now, vitals) and now - self._last_solid <= self.limits.cpu_alone_s:
            self._last, self._sign = now, "CPU"
        if now - self.started > self.limits.boot_cap_s:
            why = f"not ready after {now - self.started:.0f} s, the hard cap of a boot"
            return Life("capped", now - self._last, self._sign, why)
        return self._judge(now, self.limits.boot_stall_s, "no output, I/O, children, memory or CPU")

    def ready(self, now: float) -> None:
        """The server gave its first real answer."""
        self._sign, self._last, self._done = "ready", now, None

    def serving(self, now: float, done: float | None, in_flight: float | None) -> Life:
        """Judges a ready server.

        `done` is any counter that grows with the work (generated tokens, finished requests), `in_flight` the requests
        that wait for it; None = could not be read, which is no progress and counts as loaded.
        """
        if done is not None and (self._done is None or done != self._done):
            self._sign, self._last, self._done = "tokens", now, done
        elif in_flight is not None and in_flight <= 0:
            self._sign, self._last = "idle", now
        return self._judge(now, self.limits.stall_s, "no token and no finished request under load")

    def _judge(self, now: float, limit_s: float, missing: str) -> Life:
        quiet = now - self._last
        if quiet <= limit_s:
            return Life("alive", quiet, self._sign)
        return Life("stalled", quiet, self._sign, f"{missing} for {quiet:.0f} s; the last sign was: {self._sign}")

    def _solid_sign(self, now: Vitals) -> str:
        """Progress other than CPU since the last look."""
        before, self._seen = self._seen, now
        if before is None:
            self._io_mark = now.io_bytes
            return "start"
        if now.output_bytes > before.output_bytes:
            return "output"
        if _changed(before.children, now.children):
            return "children"
        if _changed(before.vram_bytes, now.vram_bytes):
            return "accelerator memory"
        if now.io_bytes is not None:
            # a child that ended takes its count along: then the mark starts anew
            if self._io_mark is None or now.io_bytes < self._io_mark:
                self._io_mark = now.io_bytes
            elif now.io_bytes >= self._io_mark + IO_STEP:
                self._io_mark = now.io_bytes
                return "I/O"
        return ""

    def _busy(self, now: float, vitals: Vitals) -> bool:
        """Whether the tree used the CPU over the last window."""
        if vitals.cpu_s is None:
            return False
        if self._cpu_mark is None:
            self._cpu_mark = (now, vitals.cpu_s)
        since, cpu_s = self._cpu_mark
        if now - since < CPU_WINDOW_S:
            return False
        self._cpu_mark = (now, vitals.cpu_s)
        return vitals.cpu_s - cpu_s >= BUSY_CPU * (now - since)


def _changed(before: int | None, now: int | None) -> bool:
    return before is not None and now is not None and before != now
