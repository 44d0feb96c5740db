"""A load point on a simulated server: pure, deterministic, memoised.

`simulate` plays every request of a point against all replicas. Requests, prefixes and replicas are numbers; nothing
knows of HTTP, files or the node. The same (server, load, noise) gives the same point, from memory the second time.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections import OrderedDict
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from math import ceil, exp, inf

from day0.sandboxes.twin.prefixcache import Pool
from day0.sandboxes.twin.promptcache import PromptPool, Prompts
from day0.sandboxes.twin.replica import Replica, Requests, ServerSpec
from day0.sandboxes.twin.routing import Router

TURNAROUND_S = 0.001
"""of a client in a closed loop, between an answer and its next question"""
MEMORY = 200_000
"""requests of all points that are remembered, at half a kilobyte each"""


@dataclass(frozen=True)
class Load:
    """What is offered. `arrivals` in seconds (negative: before the timed window), `prefixes` the shared prefix of each.

    With `clients` the loop is closed: times are unused, each client asks again until `until`. With `calls` requests
    differ: (prompt tokens, output tokens, blocks of `block` tokens) each, and `prefixes` are their numbers.
    """

    prompt: int
    tokens: int
    prefix_tokens: int
    distinct: int
    prefixes: tuple[int, ...]
    arrivals: tuple[float, ...] = ()
    clients: int = 0
    begin: float = 0.0
    until: float = inf
    primed: bool = True
    calls: tuple[tuple[int, int, tuple[int, ...]], ...] = ()
    block: int = 0

    def sizes(self, number: int) -> tuple[int, int]:
        """Tokens of a request's prompt and answer."""
        return self.calls[self.prefixes[number]][:2] if self.calls else (self.prompt, self.tokens)

    def columns(self, count: int) -> tuple[list[int], list[int]]:
        """Tokens of the first `count` requests: of their prompts, and of their answers."""
        if not self.calls:
            return [self.prompt] * count, [self.tokens] * count
        asked = [self.calls[prefix] for prefix in self.prefixes[:count]]
        return [call[0] for call in asked], [call[1] for call in asked]


@dataclass(frozen=True)
class Noise:
    """Factors on time, and how far the acceptance of requests spreads; `seed` draws the latter."""

    speed: float = 1.0
    acceptance_sd: float = 0.0
    seed: int = 0


@dataclass(frozen=True)
class Point:
    """What came of a load: the requests, and every replica's jumps and states (see `Replica`)."""

    requests: Requests
    jumps: tuple[list[tuple[float, float, int, int]], ...]
    states: tuple[list[tuple[float, int, int, int]], ...]
    evicted: int
    accept: float
    capacity: int
    _times: dict[int, list[float]] = field(default_factory=dict, compare=False)

    def at(self, now: float) -> tuple[int, int, float]:
        """(running, waiting) over all replicas and the fullest replica's share of its KV pool, at a time."""
        running = waiting = 0
        fullest = 0.0
        for number, states in enumerate(self.states):
            times = self._times.get(number)
            if times is None:
                times = self._times[number] = [s[0] for s in states]
            index = bisect_right(times, now) - 1
            if index >= 0:
                _, more, queued, held = states[index]
                running, waiting = running + more, waiting + queued
                fullest = max(fullest, held / self.capacity)
        return running, waiting, fullest


def _steps(load: Load, server: ServerSpec, noise: Noise, count: int) -> list[int]:
    """Decode steps of each request: the output after the first token, by the acceptance its own text allows."""
    lengths = [load.sizes(number)[1] - 1 for number in range(count)] if load.calls else [load.tokens - 1] * count
    if server.accept <= 1.0 or noise.acceptance_sd <= 0:
        return [ceil(left / server.accept - 1e-9) for left in lengths]
    gauss = random.Random(noise.seed).gauss
    most = float(server.costs.verify)
    sd = noise.acceptance_sd
    return [ceil(left / min(most, max(1.0, server.accept * exp(gauss(0.0, sd))))) for left in lengths]


class Memory:
    """Points that were played, the last asked for last."""

    def __init__(self) -> None:
        self.points: OrderedDict[tuple[ServerSpec, Load, Noise], Point] = OrderedDict()
        self.held = 0

    def keep(self, key: tuple[ServerSpec, Load, Noise], point: Point) -> Point:
        """Remembers a point, and forgets those that nobody asked for longest."""
        self.points[key] = point
        self.held += len(point.requests.arrive)
        while self.held > MEMORY and len(self.points) > 1:
            self.held -= len(self.points.popitem(last=False)[1].requests.arrive)
        return point


_MEMORY = Memory()


def simulate(server: ServerSpec, load: Load, noise: Noise = Noise()) -> Point:
    """The point; from memory where it was played before. Nobody may change what it holds."""
    key = (server, load, noise)
    known = _MEMORY.points.get(key)
    if known is None:
        known = _MEMORY.keep(key, play(server, load, noise))
    else:
        _MEMORY.points.move_to_end(key)
    return known


def play(server: ServerSpec, load: Load, noise: Noise) -> Point:
    """Plays all requests to their end (a closed loop: until no client asks any more)."""
    requests = Requests()
    bases: dict[int, float] = {}
    prompts = Prompts([c[2] for c in load.calls], [c[0] for c in load.calls], load.block) if load.calls else None
    replicas = []
    for _ in range(server.replicas):
        pool = _pool(server, load, prompts)
        replicas.append(Replica(server, requests, noise.speed, pool, bases))
    router = Router(server, load, prompts)
    if load.clients:
        _closed(server, load, noise, requests, replicas, router)
    else:
        _open(server, load, noise, requests, replicas, router)
    return Point(
        requests,
        tuple(r.jumps for r in replicas),
        tuple(r.states for r in replicas),
        sum(r.pool.evicted for r in replicas),
        server.accept,
        server.kv_tokens,
    )


def _pool(server: ServerSpec, load: Load, prompts: Prompts | None) -> Pool | PromptPool:
    """One replica's, as priming left it."""
    if prompts is not None:
        return PromptPool(server.kv_tokens, prompts, reuse=server.reuse)
    pool = Pool(server.kv_tokens, load.prefix_tokens, reuse=server.reuse)
    if load.primed:
        pool.warm(range(load.distinct))
    return pool


def _open(  # noqa: PLR0917
    server: ServerSpec, load: Load, noise: Noise, requests: Requests, replicas: list[Replica], router: Router
) -> None:
    steps = _steps(load, server, noise, len(load.arrivals))
    requests.announce(load.arrivals, load.prefixes[: len(steps)], steps, load.columns(len(steps)))
    if server.routing == "round_robin" or len(replicas) == 1:
        for index, replica in enumerate(replicas):  # they never meet: one after the other
            replica.serve(range(index, len(load.arrivals), len(replicas)), index)
        return
    for number, now in enumerate(load.arrivals):
        for replica in replicas:
            replica.until(now)
        index = requests.replica[number] = router.pick([r.load() for r in replicas], number)
        replicas[index].arrive(number, now)
    for replica in replicas:
        replica.until(inf)


def _closed(  # noqa: PLR0917
    server: ServerSpec, load: Load, noise: Noise, requests: Requests, replicas: list[Replica], router: Router
) -> None:
    """Clients that ask again at once; whatever runs at `until` is played on to its end, but nobody asks any more."""
    steps = _steps(load, server, noise, len(load.prefixes))
    asking = [load.begin] * load.clients
    heapify(asking)
    while True:
        replica = min(replicas, key=lambda r: r.end)
        if asking and asking[0] <= replica.end:
            now = heappop(asking)
            if now >= load.until or len(requests.arrive) >= len(load.prefixes):
                continue
            next_ = len(requests.arrive)
            number = requests.add(now, load.prefixes[next_], steps[next_], *load.sizes(next_))
            index = requests.replica[number] = router.pick([r.load() for r in replicas], number)
            replicas[index].arrive(number, now)
        elif replica.end < inf:
            for number in replica.run():
                heappush(asking, requests.finish[number] + TURNAROUND_S)
        else:
            return
