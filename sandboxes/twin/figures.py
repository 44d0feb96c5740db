"""A simulated point against a workload's limits: the same rules as for a measured one, on exact times. Pure."""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import accumulate
from math import log, sqrt
from typing import TYPE_CHECKING

from day0.runs.chance import gaps, places
from day0.runs.workload import Workload
from day0.sandboxes.twin.replica import NEVER
from day0.sandboxes.twin.simulate import Load, Point

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

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
        sums = list(accumulate(gaps(rng, max(1, round(rate * length)) + 1)))
        times += [begin + length * s / sums[-1] for s in sums[:-1]]
    prefixes = tuple(places(rng, workload.prefixes, len(times)))
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
    import numpy as np

    r, slo = point.requests, workload.slo
    arrive, first, finish = np.array(r.arrive), np.array(r.first), np.array(r.finish)
    inside = ((arrive >= 0.0) & (arrive < window_s)).nonzero()[0]
    if not len(inside) or (finish[inside] == NEVER).any():
        return Figures(0.0, 0.0, 0.0, 0.0, 9.0, "failed requests")
    began, ended = first[inside], finish[inside]
    ttft = _at(began - arrive[inside], slo.ttft_percentile)
    tpot = _at((ended - began) / np.maximum(1, np.array(r.outputs)[inside] - 1), slo.tpot_percentile)
    early, late = (
        _present(arrive, finish, begin, end) for begin, end in ((0.0, window_s / 3), (2 * window_s / 3, window_s))
    )
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
    import numpy as np

    r = point.requests
    first, finish = np.array(r.first), np.array(r.finish)
    inside = np.minimum(finish, window_s) - np.maximum(first, 0.0)
    some = (inside > 0).nonzero()[0]
    return _sum(np.array(r.outputs)[some] * inside[some] / (finish[some] - first[some])) / window_s


def _present(arrive: Numbers, finish: Numbers, begin: float, end: float) -> float:
    """Requests that were there in the mean."""
    import numpy as np

    return _sum(np.maximum(0.0, np.minimum(finish, end) - np.maximum(arrive, begin))) / (end - begin)


def _sum(values: Numbers) -> float:
    """One after the other: numpy adds in an order that depends on the machine."""
    return float(sum(values.tolist()))


def _at(values: Numbers, percentile: int) -> float:
    """Linear between order statistics."""
    ordered: list[float] = sorted(values.tolist())
    place = percentile / 100 * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)
