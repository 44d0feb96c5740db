"""Whether a node ran at its own pace while a load point was measured.

A processor that is shared with others, hot or short of power computes the same sum more slowly for seconds or minutes.
What is measured meanwhile says nothing about a configuration, neither good nor bad: the point is measured again.
Sums are timed on the serving cores themselves (`tools/harness/pace.py`); how long one takes at its best is learned over
all points of a node. Accelerators are not asked: their own clocks tell (`tools/health.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from day0.runs.errors import Infrastructure
from day0.sandboxes.base import Process, Sandbox

SLOW = 1.5
"""Times its best from which a sum counts as slow. On a virtual machine whose cores have other tenants, sums take
either 1.0 to 1.3 or 1.7 to 2.1 times their best, hardly ever what lies between."""
MOST_SLOW = 0.4
"""Share of slow sums from which a point is measured again. There, points of usual latency had up to 0.33 of them; from
0.5 on the latency of the same server at the same load was up to twice the usual."""
LEAST = 10
"""sums of a point; with fewer nothing is said"""
BEST_SHARE = 0.1
"""The best time is where the fastest tenth of a point's sums ends: a single one may have been lucky."""
CHUNK = 1 << 16
GRACE_S = 1.0


@dataclass
class Best:
    """The shortest time of a sum on a node so far, microseconds; None = no point was seen yet."""

    us: float | None = None

    def learn(self, sums_us: Sequence[float]) -> None:
        """From the sums of one point."""
        if len(sums_us) >= LEAST:
            fast = sorted(sums_us)[int(BEST_SHARE * len(sums_us))]
            self.us = fast if self.us is None else min(self.us, fast)

    def slow_share(self, sums_us: Sequence[float]) -> float | None:
        """How many of them took more than `SLOW` times the best; None = too few to say."""
        if self.us is None or len(sums_us) < LEAST:
            return None
        limit = SLOW * self.us
        return sum(took > limit for took in sums_us) / len(sums_us)


_BESTS: dict[str, Best] = {}


def best_of(node: str) -> Best:
    """What this process learned of a node; the same object each time."""
    return _BESTS.setdefault(node, Best())


@dataclass
class Meter:
    """Reads what the timing program wrote, point by point."""

    process: Process
    best: Best
    _offset: int = field(default=0, init=False)
    _rest: bytes = field(default=b"", init=False)

    def begin(self) -> None:
        """From now on the sums are a new point's."""
        self._read()

    def end(self) -> float | None:
        """Share of slow sums since `begin`; None = unknown."""
        sums = self._read()
        self.best.learn(sums)
        return self.best.slow_share(sums)

    @classmethod
    def start(cls, sandbox: Sandbox, cores: Sequence[int], node: str) -> Meter | None:
        """Times sums on `cores` from a sandbox that has the program; None where it may not use any."""
        if not cores:
            return None
        process = sandbox.spawn(["python", "-u", "pace.py"])
        try:
            process.pin(cores)
        except Infrastructure:
            process.stop(GRACE_S)
            return None
        return cls(process, best_of(node))

    def _read(self) -> list[float]:
        data = self._rest
        while chunk := self.process.output(self._offset, CHUNK):
            self._offset += len(chunk)
            data += chunk
        whole, _, self._rest = data.rpartition(b"\n")
        return [float(line) for line in whole.split(b"\n") if line.isdigit()]
