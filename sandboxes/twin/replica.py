"""One replica of a simulated engine: continuous batching with chunked prefill, in jumps from event to event.

The scheduler is SGLang's: whatever waits and may be admitted is prefilled first, at most `chunk` prompt tokens a batch;
decode goes on only while nothing can be prefilled. Between two events the batch does not change, each step takes
`base + kappa x C` seconds and the sum of contexts C grows by a constant `g`, so that k steps take

    k (base + kappa C) + kappa g k (k - 1) / 2

and any number of steps is one jump. An arrival inside a jump is noticed where the running step ends.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from math import ceil, inf, sqrt

from day0.sandboxes.twin.costs import Costs
from day0.sandboxes.twin.prefixcache import Pool
from day0.sandboxes.twin.promptcache import PromptPool

IDLE, PREFILL, DECODE = 0, 1, 2
Sizes = tuple[list[int], list[int]]
NEVER = -inf
"""The first token and the end of a request that the engine refused; times before the window are negative too."""


@dataclass(frozen=True)
class ServerSpec:
    """A server as the scheduler sees it. `kv_tokens`, `cap` and `chunk` count per replica.

    `accept` is the mean number of tokens that a request gains per decode step (1.0 without speculation).
    """

    replicas: int
    cap: int
    chunk: int
    kv_tokens: int
    costs: Costs
    accept: float = 1.0
    reuse: bool = True
    routing: str = "round_robin"


class Requests:
    """What is asked and what came of it, a list per quantity; seconds; `first` and `finish` are `NEVER` until known."""

    __slots__ = (
        "arrive", "cached", "finish", "first", "outputs", "own", "prefix", "prompts", "replica", "step", "steps",
    )  # fmt: skip

    def __init__(self) -> None:
        self.prompts: list[int] = []
        self.outputs: list[int] = []
        self.arrive: list[float] = []
        self.prefix: list[int] = []
        self.steps: list[int] = []
        self.first: list[float] = []
        self.finish: list[float] = []
        self.cached: list[int] = []
        self.own: list[int] = []
        self.replica: list[int] = []
        self.step: list[int] = []

    def add(self, arrive: float, prefix: int, steps: int, prompt: int, output: int) -> int:
        """A request of so many tokens that needs `steps` decode steps after its first token; its number."""
        self.prompts.append(prompt)
        self.outputs.append(output)
        self.arrive.append(arrive)
        self.prefix.append(prefix)
        self.steps.append(steps)
        self._unknown(1)
        return len(self.arrive) - 1

    def announce(self, arrive: Sequence[float], prefix: Sequence[int], steps: Sequence[int], sizes: Sizes) -> None:
        """All requests of an open loop at once, `sizes` being the tokens of their prompts and of their answers."""
        self.prompts, self.outputs = sizes
        self.arrive, self.prefix, self.steps = list(arrive), list(prefix), list(steps)
        self._unknown(len(arrive))

    def _unknown(self, count: int) -> None:
        """What comes of that many more requests is not known yet."""
        self.first += [NEVER] * count
        self.finish += [NEVER] * count
        nothing = [0] * count
        for column in (self.cached, self.own, self.replica, self.step):
            column.extend(nothing)


class Replica:
    """`end` is the time of its next own event, `inf` while idle. Call `arrive` and `run` in order of time.

    A point is ten thousand events: what one event needs often is looked up once, and nothing is worked out twice.
    `bases` are the seconds of a step by its batch, which all replicas of a point share.
    """

    __slots__ = (
        "_growth", "_jump", "_pace", "_since", "accept", "all", "bases", "blocked", "context", "end", "filling",
        "jumps", "kappa", "mode", "pool", "rest", "running", "spec", "speed", "states", "steps", "waiting",
    )  # fmt: skip

    def __init__(
        self, spec: ServerSpec, requests: Requests, speed: float, pool: Pool | PromptPool, bases: dict[int, float]
    ) -> None:
        self.spec, self.all, self.speed, self.pool, self.bases = spec, requests, speed, pool, bases
        self.end, self.mode = inf, IDLE
        self.waiting: deque[int] = deque()
        self.running: list[tuple[int, int]] = []
        self.filling: list[int] = []
        self.rest = 0
        self.blocked = False
        self.steps = 0
        self.context = 0.0
        self.accept = spec.accept
        self.kappa = spec.costs.kappa * speed
        self._since = self._pace = self._growth = 0.0
        self._jump = 0
        self.jumps: list[tuple[float, float, int, int]] = []
        """(begin, end, step before, step after) of every run of decode steps"""
        self.states: list[tuple[float, int, int, int]] = []
        """(time, running, waiting, tokens in use) whenever the scheduler looked"""

    def load(self) -> int:
        """Requests that are not done."""
        return len(self.waiting) + len(self.filling) + len(self.running)

    def arrive(self, number: int, now: float) -> None:
        """A request reached this replica."""
        self.waiting.append(number)
        if self.mode == IDLE:
            self._schedule(now)
        elif self.mode == DECODE and not self.blocked and len(self.running) < self.spec.cap:
            jump = self._steps_until(now)
            if jump < self._jump:
                self._jump = jump
                self.end = self._since + self._lasts(jump)

    def serve(self, numbers: Iterable[int], index: int) -> None:
        """All requests that ever reach this replica, the `index`th one, by their times of arrival, to their end."""
        requests = self.all
        for number in numbers:
            requests.replica[number] = index
            now = requests.arrive[number]
            self.until(now)
            self.arrive(number, now)
        self.until(inf)

    def until(self, now: float) -> None:
        """Whatever happens here before `now`."""
        while self.end < now:
            self.run()

    def run(self) -> list[int]:
        """Goes to `end`; the numbers of requests that are done there."""
        now = self.end
        done = self._begin_decode(now) if self.mode == PREFILL else self._end_steps(now)
        self._schedule(now)
        return done

    def _end_steps(self, now: float) -> list[int]:
        requests, running, before = self.all, self.running, self.steps
        self.steps = step = before + self._jump
        self.jumps.append((self._since, now, before, step))
        self.context += len(running) * self.accept * self._jump
        done: list[int] = []
        while running and running[0][0] <= step:
            number = heappop(running)[1]
            requests.finish[number] = now
            self.context -= requests.prompts[number] + self.accept * requests.steps[number]
            self._leave(number)
            done.append(number)
        return done

    def _begin_decode(self, now: float) -> list[int]:
        requests, pool, steps = self.all, self.pool, self.steps
        done: list[int] = []
        keep = [self.filling.pop()] if self.rest else []
        for number in self.filling:
            requests.first[number] = now
            requests.step[number] = steps
            if pool.traced or not requests.cached[number]:
                requests.own[number] -= pool.filled(requests.prefix[number])
            needed = requests.steps[number]
            if needed == 0:
                requests.finish[number] = now
                self._leave(number)
                done.append(number)
            else:
                heappush(self.running, (steps + needed, number))
                self.context += requests.prompts[number]
        self.filling = keep
        return done

    def _leave(self, number: int) -> None:
        requests, pool = self.all, self.pool
        tail = requests.prompts[number] + requests.outputs[number] - pool.prefix_tokens
        pool.release(number, requests.prefix[number], requests.own[number], tail)
        self.blocked = False

    def _schedule(self, now: float) -> None:
        running, pool = self.running, self.pool
        batch = len(running)
        if (self.waiting or self.rest) and self._prefill(now):
            pass
        elif batch:
            base = self.bases.get(batch)
            if base is None:
                base = self.bases[batch] = self.spec.costs.step(batch) * self.speed
            self.mode, self._since = DECODE, now
            self._pace = base + self.kappa * self.context
            self._growth = self.kappa * batch * self.accept
            self._jump = running[0][0] - self.steps
            self.end = now + self._lasts(self._jump)
        else:
            self.mode, self.end = IDLE, inf
        self.states.append((now, batch + len(self.filling), len(self.waiting), pool.held + pool.pinned))

    def _lasts(self, steps: int) -> float:
        return steps * self._pace + self._growth * steps * (steps - 1) * 0.5

    def _steps_until(self, now: float) -> int:
        """Whole steps of this jump that begin before `now`, at least one."""
        gone = now - self._since
        half = self._growth * 0.5
        slope = self._pace - half
        if half * gone < 1e-9 * slope * slope:
            steps = gone / self._pace
        else:
            steps = (sqrt(slope * slope + 4.0 * half * gone) - slope) / (2.0 * half)
        return max(1, ceil(steps - 1e-9))

    def _prefill(self, now: float) -> bool:
        """Takes the next batch of prompt tokens, if anything may be admitted."""
        spec = self.spec
        room = spec.cap - len(self.running) - len(self.filling)
        if room <= 0 and not self.rest:
            return False
        requests, pool, waiting = self.all, self.pool, self.waiting
        budget = spec.chunk
        tokens = 0
        pairs = 0.0
        if self.rest:
            take = min(self.rest, budget)
            tokens, budget, self.rest = take, budget - take, self.rest - take
            pairs = take * (requests.prompts[self.filling[0]] - self.rest - take * 0.5)
        while waiting and budget > 0 and room > 0 and not self.rest:
            number = waiting[0]
            prompt, output = requests.prompts[number], requests.outputs[number]
            hit = pool.admit(requests.prefix[number], prompt, output)
            if hit < 0:
                if not self.running and not self.filling:
                    waiting.popleft()  # it will never fit: the engine answers with an error
                    continue
                self.blocked = True
                break
            waiting.popleft()
            room -= 1
            requests.cached[number] = hit
            need = prompt - hit
            requests.own[number] = need + output
            take = min(need, budget)
            self.rest = need - take
            budget -= take
            tokens += take
            pairs += take * (hit + take * 0.5)
            self.filling.append(number)
        if not tokens:
            return False
        self.mode, self.end = PREFILL, now + spec.costs.prefill(tokens, pairs) * self.speed
        return True
