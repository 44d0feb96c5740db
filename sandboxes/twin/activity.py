"""What a server is busy with, and what its counters say of it at any moment: a point laid on the node's clock."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from math import inf

import numpy as np
from day0.sandboxes.twin.replica import NEVER
from day0.sandboxes.twin.simulate import Point
from numpy.typing import NDArray

Numbers = NDArray[np.float64]


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
        first, finish = np.array(r.first), np.array(r.finish)
        served = (finish > NEVER).nonzero()[0]
        order = served[np.argsort(first[served], kind="stable")]
        self._firsts = first[order].tolist()
        self._prompt = _summed(np.array(r.prompts, dtype=np.float64)[order])
        self._cached = _summed(np.array(r.cached, dtype=np.float64)[order])
        self._ttft = _summed(first[order] - np.array(r.arrive)[order])
        self._ends = np.sort(finish[served]).tolist()
        self._moments, self._made, self._slopes = _piecewise(
            first[served], finish[served], np.array(r.outputs, dtype=np.float64)[served]
        )
        self._by_replica: list[tuple[list[float], list[float]]] | None = None

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

    def found(self, clock: float) -> list[float]:
        """Prompt tokens that each replica found in its cache up to now."""
        now, replicas = self.now(clock), len(self.point.states)
        if self._by_replica is None:
            r = self.point.requests
            first, cached, at = np.array(r.first), np.array(r.cached, dtype=np.float64), np.array(r.replica)
            served = (np.array(r.finish) > NEVER).nonzero()[0]
            order = served[np.argsort(first[served], kind="stable")]
            self._by_replica = [
                (first[mine].tolist(), _summed(cached[mine]))
                for mine in (order[at[order] == number] for number in range(replicas))
            ]
        return [found[bisect_right(firsts, now)] for firsts, found in self._by_replica]


def _summed(values: Numbers) -> list[float]:
    """Sums of the first 0, 1, 2 ... values."""
    out: list[float] = np.concatenate(([0.0], np.cumsum(values))).tolist()
    return out


def _piecewise(first: Numbers, finish: Numbers, tokens: Numbers) -> tuple[list[float], list[float], list[float]]:
    """Tokens generated over time as a broken line: moments, tokens until then, slope from then on."""
    streamed = finish > first
    begin, end = first[streamed], finish[streamed]
    slope = tokens[streamed] / (end - begin)
    at, change = np.concatenate((begin, end)), np.concatenate((slope, -slope))
    order = np.argsort(at, kind="stable")
    at = at[order]
    slopes = np.maximum(0.0, np.cumsum(change[order]))
    made = np.concatenate(([0.0], np.cumsum(slopes[:-1] * np.diff(at))))[: len(at)]
    return at.tolist(), made.tolist(), slopes.tolist()
