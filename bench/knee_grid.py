"""How near a search with few load points comes to a dense grid on the same boot, in the twin: printed, never asserted.

    python bench/knee_grid.py [BOOTS]

Each boot is searched as a run's `measure` does it. Then its rates are gone through in steps of 1 % on the same arrivals
with fresh contents: the grid's knee is the rate that divides what passed from what failed best. A third figure is the
distance from the knee of all arrival patterns (the rate at which half of them hold), which no search on one boot can
know better than its own pattern lets it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import exp, log

import numpy as np
from day0.runs.errors import CandidateFailed
from day0.tools.knee import KneeSearch, arrival_seed
from knee_trials import SERVERS, Served

STEP, REACH = 0.01, 0.15
"""of a log rate: between neighbours of the grid, and from the searched knee to its ends"""
NEAR = 0.05
MOST = 8


@dataclass(frozen=True)
class Found:
    """One boot: the searched knee and the grid's, requests/s, and how many points the search took."""

    searched: float
    grid: float
    points: int


def search(served: Served, start: float, seed: int) -> tuple[float, int, float]:
    """(knee, points taken, p95 end-to-end seconds of the last). Raises `CandidateFailed` where nothing passes."""
    looking, p95_s = KneeSearch(start, served.rules, served.workload), 0.0
    while (asked := looking.next()) is not None:
        point = served.point(asked[0], arrival_seed(seed, looking.repeat), asked[1], p95_s)
        p95_s = point.e2e_ms.p95 / 1e3 if point.e2e_ms else 0.0
        looking.add(point)
    return looking.result().rate_rps, looking.count, p95_s


def grid_knee(served: Served, about: float, seed: int, p95_s: float) -> float:
    """The rate that divides the grid's outcomes best, in the middle of those that do so equally well."""
    steps = np.arange(-REACH, REACH + STEP / 2, STEP)
    rates = [about * exp(step) for step in steps]
    passed = [served.point(rate, seed, 50 + n, p95_s).meets_slo for n, rate in enumerate(rates)]
    return exp(divides([log(rate) for rate in rates], passed))


def divides(places: Sequence[float], passed: Sequence[bool], step: float = STEP) -> float:
    """Where to cut so that the fewest lie on the wrong side: passes above the cut and failures below it.

    `places` rise, each may come more than once; neighbours are `step` apart.
    """
    cuts = sorted({places[0] - step / 2, *(place + step / 2 for place in places)})
    wrong = [sum(p == (place > cut) for place, p in zip(places, passed, strict=True)) for cut in cuts]
    best = [cut for cut, count in zip(cuts, wrong, strict=True) if count == min(wrong)]
    return float(np.mean(best))


def boots(served: Served, start: float, count: int) -> Iterator[Found]:
    """Boots that have a knee at all."""
    for seed in range(count):
        try:
            rate, points, p95_s = search(served, start, seed)
        except CandidateFailed:
            continue
        yield Found(rate, grid_knee(served, rate, seed, p95_s), points)


def told(found: Sequence[Found]) -> str:
    """Shares and medians in words."""
    off = np.array([abs(log(f.searched / f.grid)) for f in found])
    points = [f.points for f in found]
    return (
        f"{np.mean(off <= NEAR):.0%} within {NEAR:.0%} of the grid, median {np.median(off):.1%} off; "
        f"{np.median(points):.0f} points in the median, {max(points)} at most, "
        f"{np.mean([p <= MOST for p in points]):.0%} with {MOST} or fewer"
    )


def lines(count: int) -> Iterator[str]:
    """What is printed."""
    yield f"search against a grid of {2 * REACH / STEP + 1:.0f} rates, {STEP:.0%} apart, on the same boot (simulated)"
    everything: list[Found] = []
    for name, share, start in SERVERS:
        served = Served.of(name, "agentic-20k1k", share)
        found = list(boots(served, start, count))
        everything += found
        true = served.truth(float(np.median([f.searched for f in found])))
        spread = np.median([abs(log(f.searched / true)) for f in found])
        yield f"  {name:<26} {len(found)} boots: {told(found)}; {spread:.1%} from all arrivals' knee in the median"
    yield f"  all {len(everything)} boots: {told(everything)}"


def main() -> None:
    """Prints the figures; 50 boots a server, or as many as are asked for."""
    for line in lines(int(sys.argv[1]) if len(sys.argv) > 1 else 50):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
