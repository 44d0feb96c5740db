"""How often one boot's interval holds the knee of all arrival patterns: on simulated nodes, in bare queues."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import exp, inf, log

import numpy as np
from day0.runs import documents
from day0.runs.errors import CandidateFailed
from day0.runs.facts import Knee, LoadPoint, Percentiles
from day0.runs.workload import MeasureRules, Slo, Workload
from day0.sandboxes.twin import figures, oracle, simulate, world
from day0.sandboxes.twin.replica import ServerSpec
from day0.tools.knee import KneeSearch, arrival_seed
from day0.tools.knee_interval import CONFIDENCE
from day0.tools.loadplan import window_s
from day0.tools.summary import misses


@dataclass(frozen=True)
class Served:
    """A simulated server of a world's space under a workload; one boot of it meets `seed`'s arrivals."""

    server: ServerSpec
    workload: Workload
    spread: float
    rules: MeasureRules

    @classmethod
    def of(cls, name: str, workload: str, share: float) -> Served:
        """The candidate that stands at this share of the world's space."""
        here, work = world.world(name), documents.workload(workload)
        picks = list(oracle.candidates(here))
        built = oracle.server(here, work, picks[int(share * len(picks))])
        server: ServerSpec = built[0] if isinstance(built, tuple) else built
        spread = here.truth.speculation.spread if server.accept > 1 else 0.0
        return cls(server, work, spread, documents.target("mi355x-twin").measure)

    def played(self, rate: float, window: float, seed: int, content: int) -> tuple[simulate.Point, figures.Figures]:
        """A load point and its figures."""
        load = figures.offered(self.workload, rate, window, seed)
        point = simulate.play(self.server, load, simulate.Noise(1.0, self.spread, content))
        return point, figures.figures(self.workload, point, rate, window)

    def point(self, rate: float, seed: int, number: int, p95_s: float) -> LoadPoint:
        """A load point as a run would have summarised it."""
        window = window_s(self.rules, rate, p95_s)
        point, seen = self.played(rate, window, seed, 100 * seed + number)
        r = point.requests
        inside = [i for i, t in enumerate(r.arrive) if 0.0 <= t < window]
        ttft = percentiles([1e3 * (r.first[i] - r.arrive[i]) for i in inside])
        tpot = percentiles([1e3 * (r.finish[i] - r.first[i]) / max(1, r.outputs[i] - 1) for i in inside])
        missed = misses(self.workload.slo, ttft, tpot, 1.0)
        steady = not (seen.worst > 0 and seen.bound_by == "steadiness")
        return LoadPoint(
            workload=self.workload.name,
            rate_rps=rate,
            seed=seed,
            window_s=window,
            offered=len(inside),
            completed=len(inside),
            failed=0,
            output_tok_s=seen.output_tok_s,
            total_tok_s=seen.output_tok_s,
            ttft_ms=ttft,
            tpot_ms=tpot,
            e2e_ms=percentiles([1e3 * (r.finish[i] - r.arrive[i]) for i in inside]),
            success_share=1.0,
            steady=steady,
            meets_slo=steady and not missed,
            misses=missed,
        )

    def knee(self, start: float, seed: int) -> Knee:
        """One boot's search, as `measure` does it."""
        search, p95_s = KneeSearch(start, self.rules, self.workload), 0.0
        while (asked := search.next()) is not None:
            point = self.point(asked[0], arrival_seed(seed, search.repeat), asked[1], p95_s)
            p95_s = point.e2e_ms.p95 / 1e3 if point.e2e_ms else 0.0
            search.add(point)
        return search.result()

    def truth(self, about: float, seeds: int = 24) -> float:
        """The rate at which half of the arrival patterns hold the SLO: a grid, many patterns a rate."""
        rates = [about * exp(step) for step in np.linspace(-0.16, 0.16, 9)]
        window = max(self.rules.point_s, self.rules.min_requests / about, self.rules.p95_multiples * 50.0)
        middles = [
            float(np.median([self.played(r, window, 5000 + s, s)[1].worst for s in range(seeds)])) for r in rates
        ]
        above = next((i for i, m in enumerate(middles) if m > 0), len(rates) - 1)
        before = max(0, above - 1)
        return float(exp(np.interp(0.0, [middles[before], middles[above]], [log(rates[before]), log(rates[above])])))


def percentiles(values: Sequence[float]) -> Percentiles:
    """As a load point states them."""
    p50, p95, p99 = (float(v) for v in np.percentile(values, (50, 95, 99)))
    return Percentiles(mean=float(np.mean(values)), p50=p50, p95=p95, p99=p99)


SERVERS = (
    ("glm-5.2", 0.0, 1.0),
    ("deepseek-v3.2-hidden-caps", 0.0, 1.0),
    ("deepseek-v3.2-hidden-caps", 0.66, 2.0),
    ("minimax-m2.5-bursts", 0.33, 2.0),
)
"""world, place in its space, rate at which the search starts"""


@dataclass(frozen=True)
class Queue:
    """First come, first served; TTFT is the wait and a fifth of a service time of 1 s; its p95 is limited."""

    servers: int
    fixed: bool
    limit_s: float
    count: int

    def point(self, rate: float, seed: int, contents: int) -> LoadPoint:
        """`count` requests after 150 that nobody times."""
        gaps = np.random.default_rng(seed).exponential(1.0, self.count + 150)
        at = np.cumsum(gaps) * len(gaps) / rate / gaps.sum()
        work = np.ones(len(gaps)) if self.fixed else np.random.default_rng(contents).exponential(1.0, len(gaps))
        free, waits = [0.0] * self.servers, []
        for arrived, needs in zip(at.tolist(), work.tolist(), strict=True):
            start = max(arrived, heapq.heappop(free))
            heapq.heappush(free, start + needs)
            waits.append(start - arrived)
        ttft = 1e3 * (np.array(waits[150:]) + 0.2)
        seen = percentiles(ttft.tolist())
        return LoadPoint(
            workload="queue",
            rate_rps=rate,
            seed=seed,
            window_s=self.count / rate,
            offered=self.count,
            completed=self.count,
            failed=0,
            output_tok_s=rate,
            total_tok_s=rate,
            ttft_ms=seen,
            e2e_ms=percentiles((ttft + 1e3 * work[150:]).tolist()),
            success_share=1.0,
            steady=True,
            meets_slo=seen.p95 <= 1e3 * self.limit_s,
        )

    def knee(self, seed: int) -> Knee:
        """One boot's search."""
        work = Workload(name="queue", input_tokens=1, output_tokens=1, slo=Slo(ttft_ms=1e3 * self.limit_s))
        rules = MeasureRules(point_s=1, min_requests=1, p95_multiples=0, max_points=6, max_pairs=2, stability_s=0)
        search = KneeSearch(0.7 * self.servers, rules, work)
        while (asked := search.next()) is not None:
            search.add(self.point(asked[0], arrival_seed(seed, search.repeat), 100 * seed + asked[1]))
        return search.result()

    def truth(self, about: float, seeds: int = 40) -> float:
        """The rate at which half of the arrival patterns hold the limit."""
        rates = about * np.exp(np.linspace(-0.2, 0.2, 9))
        seen = [[self.point(rate, 9000 + s, s).ttft_ms for s in range(seeds)] for rate in rates]
        middles = [float(np.median([log(f.p95) for f in row if f])) for row in seen]
        return float(exp(np.interp(log(1e3 * self.limit_s), middles, np.log(rates))))


QUEUES = (Queue(1, False, 5.0, 300), Queue(1, True, 5.0, 300), Queue(4, False, 3.0, 400), Queue(16, False, 2.0, 1000))


def queues(trials: int) -> Iterator[str]:
    """Coverage where a latency is nothing but waiting, which is forgotten slowly."""
    for queue in QUEUES:
        found = [queue.knee(seed) for seed in range(trials)]
        true = queue.truth(float(np.median([k.rate_rps for k in found])))
        kind = "fixed" if queue.fixed else "exponential"
        yield f"{queue.servers} servers, {kind} service, {queue.count} requests: " + told(found, true)


def told(found: Sequence[Knee], true: float) -> str:
    """Coverage and width in words."""
    held = np.mean([(k.low_rps or 0.0) <= true <= (k.high_rps or inf) for k in found])
    wide = np.median([log((k.high_rps or inf) / (k.low_rps or 1e-9)) / 2 for k in found])
    spread = float(np.std([log(k.rate_rps) for k in found]))
    return f"knee {true:.2f}/s covered {held:.0%}, half width {wide:.1%}, a knee's s.d. over seeds {spread:.1%}"


def lines(trials: int = 50) -> Iterator[str]:
    """What `judging.py` prints."""
    yield f"interval of one boot's knee over arrival seeds, nominal {CONFIDENCE:.0%}, {trials} boots a line"
    inside = total = 0
    for name, share, start in SERVERS:
        served, found = Served.of(name, "agentic-20k1k", share), []
        for seed in range(trials):
            try:
                found.append(served.knee(start, seed))
            except CandidateFailed:
                continue
        true = served.truth(float(np.median([k.rate_rps for k in found])))
        inside += sum((k.low_rps or 0.0) <= true <= (k.high_rps or inf) for k in found)
        total += len(found)
        bounds = [k.bound_by for k in found]
        yield f"    {name:<26} ({max(set(bounds), key=bounds.count)}): {told(found, true)}"
    yield f"    all: {inside} of {total} intervals hold the knee ({inside / total:.1%})"
    yield "  where a latency is nothing but waiting:"
    for line in queues(trials):
        yield f"    {line}"
