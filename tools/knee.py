"""The knee of one boot: where the offered rate stops to meet the SLO, found with few load points. Pure.

The search starts near a guess, steps until one rate passed and one failed, then closes in on the crossing that the
binding limit's own figures foretell (log limit ratio over log rate), kept inside the bracket as bisection would.
Throughput and latency need not be monotone in load: a rate counts as passed only while no lower rate failed. Rates
share one pattern of arrivals, so that they differ by the rate alone; a rate that is looked at again meets another one,
since whether it passes may be a matter of the pattern.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import exp, log

from day0.runs.errors import CandidateFailed
from day0.runs.facts import FailureClass, Knee, LoadPoint
from day0.runs.workload import MeasureRules, Workload
from day0.tools.knee_interval import interval
from day0.tools.summary import at, capacity_rps

Measure = Callable[[float, int], LoadPoint]
"""(offered requests/s, number of the point in this search) -> what was measured."""

EXTRA_POINTS = 2
"""Beyond `max_points`, only to find the missing side of the bracket or to repeat a void point."""
TIGHT = 1.05
"""A bracket this narrow is not split: what is left repeats its sides, whose outcome may be a coin flip."""
REPEAT_STEP = 1_000_003
"""between the arrival seeds of a rate's repeats: farther than any two seeds of a run's phases"""
UP, DOWN = 1.6, 2.5
LEAST = 1.1
BEYOND = 1.05
LEAST_SLOPE = 0.1
INNER = 0.2
START_SHARE = 0.9
FALLEN, APART = 0.9, 5.0
"""Of a rate that was the knee on an earlier boot: boots of one configuration seldom lie further apart than a tenth, or
than so many times the noise between boots."""


def arrival_seed(seed: int, repeat: int) -> int:
    """Of the arrivals of a rate that is measured once more: another pattern for each `repeat` (S46), 0 = the first."""
    return seed + REPEAT_STEP * repeat


def fallen(noise: float) -> float:
    """The share of a known knee below which a boot's is doubted, by the relative s.d. between boots.

    A fixed tenth would let an arm whose boots differ by 18 % lose most of its low ones, and the bounds with it.
    """
    return min(FALLEN, exp(-APART * noise))


def start_rate(probe: LoadPoint, workload: Workload) -> float:
    """Where to begin after a saturation probe: 0.9 of the requests/s that it delivered, at least 0.05.

    Less by as much as its TPOT was too high: TTFT says nothing there, since all its clients start at once.
    """
    slow = max((r for name, r in ratios(probe, workload).items() if name.endswith("TPOT")), default=1.0)
    return max(0.05, START_SHARE * capacity_rps(probe, workload.output_tokens) / max(1.0, slow))


def ratios(point: LoadPoint, workload: Workload) -> dict[str, float]:
    """Figure / limit of each latency limit of the SLO; above 1 is a miss."""
    slo, out = workload.slo, {}
    if slo.ttft_ms is not None and point.ttft_ms is not None:
        out[f"p{slo.ttft_percentile} TTFT"] = at(point.ttft_ms, slo.ttft_percentile) / slo.ttft_ms
    if slo.tpot_ms is not None and point.tpot_ms is not None:
        out[f"p{slo.tpot_percentile} TPOT"] = at(point.tpot_ms, slo.tpot_percentile) / slo.tpot_ms
    return {name: max(1e-6, value) for name, value in out.items()}


@dataclass
class Cell:
    """All points at one rate."""

    rate: float
    points: list[LoadPoint] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """More passes than failures."""
        return sum(p.meets_slo for p in self.points) * 2 > len(self.points)

    @property
    def settled(self) -> bool:
        """Measured more than once, with one outcome: another point would not tell more."""
        return len(self.points) > 1 and len({p.meets_slo for p in self.points}) == 1

    def ratio(self, name: str, workload: Workload) -> float | None:
        """Geometric mean of a limit's ratio over the points."""
        known = [r[name] for p in self.points if name in (r := ratios(p, workload))]
        return exp(sum(map(log, known)) / len(known)) if known else None

    def delivered(self, workload: Workload) -> float:
        """Requests/s that really came back, mean."""
        return sum(capacity_rps(p, workload.output_tokens) for p in self.points) / len(self.points)


class KneeSearch:
    """Asks for one rate after the other: `next()` until None, `add()` each point, then `result()`.

    `doubt`: the start is the knee of an earlier boot. Where this boot's seems to lie below that share of it, the start
    is measured once more and only that counts there: one burst of noise in one point made knees of half the height.
    """

    def __init__(self, start: float, rules: MeasureRules, workload: Workload, *, doubt: float = 0.0) -> None:
        self.rules, self.workload = rules, workload
        self.cells: dict[float, Cell] = {}
        self.count = 0
        self._rate: float | None = start
        self._doubt, self._doubted = doubt, start if doubt else None
        self._voids: set[float] = set()

    def next(self) -> tuple[float, int] | None:
        """(rate, number) of the next load point; None = done."""
        return None if self._rate is None else (self._rate, self.count)

    @property
    def repeat(self) -> int:
        """How many points count at the rate that is asked for: 0 the first time, which is what arms of a pair share."""
        return 0 if self._rate is None or self._rate not in self.cells else len(self.cells[self._rate].points)

    def add(self, point: LoadPoint) -> None:
        """A point at the rate last asked for. One that is void, but not by failed requests, is repeated once."""
        rate = self._rate
        if rate is None:
            return
        self.count += 1
        spare = self.rules.max_points + EXTRA_POINTS - self.count
        if point.void and not point.void.startswith("failures") and rate not in self._voids and spare > 0:
            self._voids.add(rate)
            return
        self.cells.setdefault(rate, Cell(rate)).points.append(point)
        self._rate = self._choose(spare)

    def bracket(self) -> tuple[Cell | None, Cell | None]:
        """The lowest failing rate, and the highest passing one below it."""
        cells = sorted(self.cells.values(), key=lambda c: c.rate)
        failed = next((c for c in cells if not c.passed), None)
        below = [c for c in cells if c.passed and (failed is None or c.rate < failed.rate)]
        return (below[-1] if below else None), failed

    def _choose(self, spare: int) -> float | None:
        passed, failed = self.bracket()
        if spare <= 0:
            return None
        if spare <= EXTRA_POINTS and passed and failed:
            return self._once_more(passed, failed)
        alone = passed if failed is None else failed if passed is None else None
        if alone is not None:
            return self._outward(alone)
        assert passed is not None and failed is not None
        return self._inward(passed, failed)

    def _inward(self, passed: Cell, failed: Cell) -> float | None:
        """The next rate inside a bracket, or one of its sides again."""
        above = any(c.passed and c.rate > failed.rate for c in self.cells.values())
        if above and len(failed.points) == 1:
            return failed.rate
        if failed.rate / passed.rate <= TIGHT:
            if passed.settled and failed.settled:
                return None
            return min(passed, failed, key=lambda c: len(c.points)).rate
        guess, _ = self.crossing(passed, failed)
        share = log(guess / passed.rate) / log(failed.rate / passed.rate)
        return passed.rate * exp(log(failed.rate / passed.rate) * min(1 - INNER, max(INNER, share)))

    def _once_more(self, passed: Cell, failed: Cell) -> float | None:
        """The rate that was the knee before, where it failed and the knee seems far below; that point is dropped.

        Done once, so that a boot takes two points more at most; both arms of a pair get it alike.
        """
        rate, self._doubted = self._doubted, None
        if rate is None or self.cells[rate].passed or self.crossing(passed, failed)[0] > self._doubt * rate:
            return None
        del self.cells[rate]
        return rate

    def _outward(self, cell: Cell) -> float:
        """The next rate while one side is missing: where the worst limit is foretold to be reached, and a bit beyond.

        Two rates foretell by the line through them (log ratio over log rate); one alone by a guess of its slope: 2
        upwards, 1 downwards, so that neither way stops short where latency grows steeply or hardly at all.
        """
        far = UP if cell.passed else 1 / DOWN
        worst = self._worst(cell)
        if worst is None or (not cell.passed and worst <= 1):
            # not slow but failing: as much as really came back
            aim = far if cell.passed else START_SHARE * cell.delivered(self.workload) / cell.rate
        else:
            aim = exp(-log(worst) / (self._slope(cell) or (2.0 if cell.passed else 1.0)))
            aim *= BEYOND if cell.passed else 1 / BEYOND
        low, high = (LEAST, far) if cell.passed else (far, 1 / LEAST)
        return cell.rate * min(high, max(low, aim))

    def _worst(self, cell: Cell) -> float | None:
        names = ratios(cell.points[-1], self.workload)
        return max((r for n in names if (r := cell.ratio(n, self.workload))), default=None)

    def _slope(self, cell: Cell) -> float | None:
        """Of the worst limit between this rate and its nearest neighbour; None = unknown or not rising."""
        others = [c for c in self.cells.values() if c is not cell and c.passed == cell.passed]
        near = min(others, key=lambda c: abs(log(c.rate / cell.rate)), default=None)
        here, there = self._worst(cell), self._worst(near) if near else None
        if near is None or here is None or there is None:
            return None
        slope = log(here / there) / log(cell.rate / near.rate)
        return slope if slope > LEAST_SLOPE else None

    def crossing(self, passed: Cell, failed: Cell) -> tuple[float, str]:
        """(rate, limit) where the first limit is reached inside the bracket.

        A latency crosses where its log ratio, linear in log rate, is 0; a server that is not steady crosses at what
        it delivered, and where requests failed the middle is taken.
        """
        low, high = log(passed.rate), log(failed.rate)
        found: list[tuple[float, str]] = []
        for name in ratios(failed.points[-1], self.workload):
            below, above = passed.ratio(name, self.workload), failed.ratio(name, self.workload)
            if below is not None and above is not None and above > 1:
                share = -log(below) / (log(above) - log(below)) if below < 1 else 0.0
                found.append((low + min(1.0, share) * (high - low), name))
        if any(not p.steady for p in failed.points):
            found.append((min(high, max(low, log(max(1e-9, failed.delivered(self.workload))))), "steadiness"))
        at_rate, name = min(found, default=((low + high) / 2, "failed requests"))
        return exp(at_rate), name

    def result(self) -> Knee:
        """The bracket, and where the knee may lie for other arrivals.

        Raises `CandidateFailed` (`below_slo`) when no rate passed.
        """
        passed, failed = self.bracket()
        if passed is None:
            cell = min(self.cells.values(), key=lambda c: c.rate)
            point = cell.points[-1]
            why = point.void or "; ".join(point.misses) or "it did not pass again"
            raise CandidateFailed(FailureClass.BELOW_SLO, f"{cell.rate:.3g} requests/s: {why}")
        rate, name = (passed.rate, "") if failed is None else self.crossing(passed, failed)
        good = [p.output_tok_s for p in passed.points if p.meets_slo]
        stays = [p.e2e_ms.mean / 1e3 for p in passed.points if p.meets_slo and p.e2e_ms]
        knee = Knee(
            workload=self.workload.name,
            rate_rps=rate,
            goodput_tok_s=sum(good) / len(good),
            passed_rps=passed.rate,
            failed_rps=None if failed is None else failed.rate,
            bound_by=name,
            in_flight=passed.rate * sum(stays) / len(stays) if stays else None,
            short=self.rules.short,
        )
        low, high = interval([p for c in self.cells.values() for p in c.points], knee, self.workload)
        return knee.model_copy(update={"low_rps": low, "high_rps": high})


def knee(measure: Measure, *, start: float, rules: MeasureRules, workload: Workload) -> Knee:
    """Searches with at most `max_points` (+ 2 to find a missing side) points. Raises as `KneeSearch.result`."""
    search = KneeSearch(start, rules, workload)
    while (asked := search.next()) is not None:
        search.add(measure(*asked))
    return search.result()
