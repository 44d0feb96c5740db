"""What a server is busy with, and what its counters say of it at any moment: a point laid on the node's clock."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate
from math import inf

from day0.sandboxes.twin.replica import NEVER
from day0.sandboxes.twin.simulate import Point


@dataclass
class Totals:
    """Counters since the server's start."""

    generated: float = 0.0
    prompt: float = 0.0
    cached: float = 0.0
    finished: float = 0.0
    ttft_s: float = 0.0
    begun: float = 0.0

    def add(self, other: Totals) -> None:
        """Adds what another activity brought."""
        self.generated += other.generated
        self.prompt += other.prompt
        self.cached += other.cached
        self.finished += other.finished
        self.ttft_s += other.ttft_s
        self.begun += other.begun


class Activity:
    """A point whose time 0 is `zero` on the node's clock.

    From `stop` on nothing of it is there any more; from `frozen` on nothing moves, but what ran then is still there.
    """

    def __init__(self, point: Point, zero: float) -> None:
        self.point, self.zero = point, zero
        self.stop = self.frozen = inf
        r = point.requests
        served = sorted(
            (first, r.prompt, cached, first - arrive)
            for first, cached, arrive, finish in zip(r.first, r.cached, r.arrive, r.finish, strict=True)
            if finish > NEVER
        )
        self._firsts = [s[0] for s in served]
        self._prompt = [0.0, *accumulate(float(s[1]) for s in served)]
        self._cached = [0.0, *accumulate(float(s[2]) for s in served)]
        self._ttft = [0.0, *accumulate(s[3] for s in served)]
        self._ends = sorted(f for f in r.finish if f > NEVER)
        self._moments, self._made, self._slopes = _piecewise(point)

    def now(self, clock: float) -> float:
        """The point's own time."""
        return min(clock, self.stop, self.frozen) - self.zero

    def state(self, clock: float) -> tuple[int, int, float]:
        """Running and waiting requests, and the fullest replica's use of its KV pool."""
        return (0, 0, 0.0) if clock >= self.stop else self.point.at(self.now(clock))

    def totals(self, clock: float) -> Totals:
        """What this point added to the counters up to now."""
        now = self.now(clock)
        begun = bisect_right(self._firsts, now)
        index = bisect_right(self._moments, now) - 1
        made = self._made[index] + self._slopes[index] * (now - self._moments[index]) if index >= 0 else 0.0
        return Totals(
            generated=made,
            prompt=self._prompt[begun],
            cached=self._cached[begun],
            finished=float(bisect_right(self._ends, now)),
            ttft_s=self._ttft[begun],
            begun=float(begun),
        )


def _piecewise(point: Point) -> tuple[list[float], list[float], list[float]]:
    """Tokens generated over time as a broken line: moments, tokens until then, slope from then on."""
    r = point.requests
    turns: list[tuple[float, float]] = []
    for first, finish in zip(r.first, r.finish, strict=True):
        if finish > first > NEVER:
            slope = r.tokens / (finish - first)
            turns += [(first, slope), (finish, -slope)]
    turns.sort()
    moments, made, slopes = [0.0 if not turns else turns[0][0]], [0.0], [0.0]
    for at, change in turns:
        made.append(made[-1] + slopes[-1] * (at - moments[-1]))
        slopes.append(max(0.0, slopes[-1] + change))
        moments.append(at)
    return moments, made, slopes
