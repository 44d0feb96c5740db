"""A simulated point against a workload's limits: the same rules as for a measured one, on exact times. Pure."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import log, sqrt

from day0.runs.workload import Workload
from day0.sandboxes.twin.replica import NEVER
from day0.sandboxes.twin.simulate import Load, Point

STEADY_SHARE = 0.02
LEAD_S = 90.0


@dataclass(frozen=True)
class Figures:
    """Of the requests that arrived in the window. `worst` is the largest log (figure / limit): above 0 is a miss."""

    output_tok_s: float
    ttft_s: float
    tpot_s: float
    grown: float
    worst: float
    bound_by: str

    @property
    def holds(self) -> bool:
        """Every limit is held and the server is steady."""
        return self.worst <= 0


def offered(workload: Workload, rate: float, window_s: float, seed: int) -> Load:
    """A Poisson process conditioned on its count, lead-in first; prefixes at random. Equal seeds give equal bursts."""
    rng = random.Random(f"{seed}:arrivals")
    times: list[float] = []
    for begin, length in ((-LEAD_S, LEAD_S), (0.0, window_s)):
        sums = list(accumulate(rng.expovariate(1.0) for _ in range(max(1, round(rate * length)) + 1)))
        times += [begin + length * s / sums[-1] for s in sums[:-1]]
    prefixes = tuple(rng.randrange(workload.prefixes) for _ in times)
    return Load(
        prompt=workload.input_tokens,
        tokens=workload.output_tokens,
        prefix_tokens=round(workload.input_tokens * workload.cached_share),
        distinct=workload.prefixes,
        prefixes=prefixes,
        arrivals=tuple(times),
    )


def alone(workload: Workload, count: int = 4) -> Load:
    """One client, `count` requests one after the other."""
    return Load(
        prompt=workload.input_tokens,
        tokens=workload.output_tokens,
        prefix_tokens=round(workload.input_tokens * workload.cached_share),
        distinct=workload.prefixes,
        prefixes=(0,) * count,
        clients=1,
    )


def asking(workload: Workload, clients: int, until: float) -> Load:
    """Clients that ask again at once, from the lead-in on; prefixes in turn."""
    count = 400 * clients
    return Load(
        prompt=workload.input_tokens,
        tokens=workload.output_tokens,
        prefix_tokens=round(workload.input_tokens * workload.cached_share),
        distinct=workload.prefixes,
        prefixes=tuple(n % workload.prefixes for n in range(count)),
        clients=clients,
        begin=-LEAD_S,
        until=until,
    )


def figures(workload: Workload, point: Point, rate: float, window_s: float) -> Figures:
    """What an open-loop point says; requests that the engine refused make it miss everything."""
    r, slo = point.requests, workload.slo
    inside = [i for i, t in enumerate(r.arrive) if 0.0 <= t < window_s]
    if not inside or any(r.finish[i] == NEVER for i in inside):
        return Figures(0.0, 0.0, 0.0, 0.0, 9.0, "failed requests")
    ttft = _at([r.first[i] - r.arrive[i] for i in inside], slo.ttft_percentile)
    tpot = _at([(r.finish[i] - r.first[i]) / max(1, r.outputs[i] - 1) for i in inside], slo.tpot_percentile)
    early, late = _present(point, 0.0, window_s / 3), _present(point, 2 * window_s / 3, window_s)
    between = max(1e-9, rate * window_s * 2 / 3)
    allowed = STEADY_SHARE * between + 2 * sqrt(max(1.0, early))
    misses = [("steadiness", log(max(1e-6, late - early) / allowed) if late > early else -9.0)]
    if slo.ttft_ms is not None:
        misses.append((f"p{slo.ttft_percentile} TTFT", log(1e3 * ttft / slo.ttft_ms)))
    if slo.tpot_ms is not None:
        misses.append((f"p{slo.tpot_percentile} TPOT", log(1e3 * tpot / slo.tpot_ms)))
    name, worst = max(misses, key=lambda m: m[1])
    return Figures(delivered(point, window_s), ttft, tpot, late - early, worst, name)


def delivered(point: Point, window_s: float) -> float:
    """Output tokens per second that came within the window; a request's tokens as evenly spread from first to last."""
    r = point.requests
    total = 0.0
    for first, finish, tokens in zip(r.first, r.finish, r.outputs, strict=True):
        inside = min(finish, window_s) - max(first, 0.0)
        if inside > 0:
            total += tokens * inside / (finish - first)
    return total / window_s


def _present(point: Point, begin: float, end: float) -> float:
    r = point.requests
    return sum(max(0.0, min(f, end) - max(a, begin)) for a, f in zip(r.arrive, r.finish, strict=True)) / (end - begin)


def _at(values: Sequence[float], percentile: int) -> float:
    """Linear between order statistics."""
    ordered = sorted(values)
    place = percentile / 100 * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)
