"""A simulated server that is up: how fast it is on this boot, what it is busy with, what its counters say."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import cos, exp, inf, pi, sin
from typing import Any

from day0.runs.values import canonical_json, sha256
from day0.sandboxes.simulated.machine import SimProcess
from day0.sandboxes.twin import layout
from day0.sandboxes.twin.activity import Activity, Totals
from day0.sandboxes.twin.conditions import Scene, holds
from day0.sandboxes.twin.replica import ServerSpec
from day0.sandboxes.twin.simulate import Load, Noise, Point, simulate
from day0.sandboxes.twin.world import Build, Fault, World

_OWN = ("--host", "--port", "--model-path", "--router-dp-worker-base-port")
_ENV = re.compile(
    r"(SGLANG|AITER|ROCM|NCCL|RCCL|HIP|HSA|GPU|FLYDSL|TRITON|TORCH|USE_ROCM|SAFETENSORS|AMD|PYTORCH)[A-Z0-9_]*\Z"
)


def identity(words: Sequence[str], env: Mapping[str, str]) -> str:
    """What keys a candidate's noise: its command line and the variables that engines read, without place and port."""
    kept, skip = [], False
    for word in words:
        if skip or word in _OWN:
            skip = not skip
            continue
        kept.append(word)
    return sha256(canonical_json([kept, {k: v for k, v in env.items() if _ENV.match(k)}]))


def draw(sd: float, *parts: str) -> float:
    """A factor around 1 with that relative deviation, by its key alone."""
    return exp(random.Random("\0".join(parts)).gauss(0.0, sd)) if sd else 1.0


def wander(sd: float, key: str, at_s: float) -> float:
    """A factor around 1 that wanders with node time: a draw of each hour, blended so that its spread stays the same."""
    if not sd:
        return 1.0
    hour, part = divmod(at_s / 3600.0, 1.0)
    last, next_ = (random.Random(f"drift\0{key}\0{hour + n:.0f}").gauss(0.0, sd) for n in (0, 1))
    return exp(last * cos(part * pi / 2) + next_ * sin(part * pi / 2))


@dataclass
class LiveServer:
    """Registered under its port while its process lives. Times are the node's."""

    world: World
    build: Build
    args: Mapping[str, Any]
    scene: Scene
    key: str
    process: SimProcess
    faults: tuple[Fault, ...] = ()
    totals: Totals = field(default_factory=Totals)
    activity: Activity | None = None
    first: str = ""
    stuck: int = 0
    """requests that will never end"""
    _found: dict[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.spec: ServerSpec = layout.server(self.world.physics(), self.args, self.scene)

    @classmethod
    def up(cls, world: World, build: Build, args: Mapping[str, Any], scene: Scene, **more: Any) -> LiveServer:
        """With the faults that hold here."""
        return cls(world, build, args, scene, faults=tuple(f for f in world.faults if holds(f.when, scene)), **more)

    @property
    def slow(self) -> float:
        """The factor that faults put on all time."""
        out = 1.0
        for fault in self.faults:
            if fault.kind in ("wrong_output", "slow"):
                out *= fault.time
        return out

    def wrong(self, concurrency: int) -> tuple[float, str]:
        """The share of answers that are wrong at that many requests at once, and the fault's name."""
        running = -(-concurrency // self.spec.replicas)
        for fault in self.faults:
            sound = (fault.only_at_load and concurrency < 2) or running < (fault.when.running or 0)
            if fault.kind == "wrong_output" and not sound:
                return fault.wrong_share, fault.name
        return 0.0, ""

    def noise(self, content: str, at_s: float) -> Noise:
        """Of a point: this boot's factor, keyed by its first point's contents, the point's own, the node's by hour."""
        self.first = self.first or content
        sd = self.world.noise
        speed = draw(sd.boot, "boot", self.key, self.first) * draw(sd.point, "point", self.key, content)
        if sd.burst and random.Random(f"burst\0{content}").random() < sd.burst:
            speed *= sd.burst_time
        speed *= wander(sd.drift, self.world.name, at_s)
        spread = self.world.truth.speculation.spread if self.spec.accept > 1 else 0.0
        return Noise(speed * self.slow, spread, int(sha256(content)[7:19], 16))

    def begin(self, load: Load, content: str, zero: float, now: float) -> tuple[Point, float]:
        """Starts a point whose time 0 is `zero`: the point, and when, in node time, the server dies of it (or inf)."""
        self.settle(now)
        point = simulate(self.spec, load, self.noise(content, zero))
        self.activity = Activity(point, zero)
        dies = inf
        for fault in self.faults:
            at = zero + first_with(point, fault.when.running) if fault.when.running else inf
            if fault.kind == "hang" and at < self.activity.frozen:
                self.activity.frozen = at
            elif fault.kind in ("crash", "oom"):
                dies = min(dies, at)
        return point, dies

    def fault_under(self, running: int, kinds: tuple[str, ...]) -> Fault | None:
        """The fault that this many requests per replica set off."""
        hit = (f for f in self.faults if f.kind in kinds and f.when.running and running >= f.when.running)
        return next(hit, None)

    def settle(self, now: float) -> None:
        """Books what the last point did until now; what of it still ran is dropped by its client."""
        if self.activity is not None:
            self.stuck += self.activity.state(now)[0] if now >= self.activity.frozen else 0
            self.totals.add(self.activity.totals(now))
            self._found = dict(enumerate(self.found(now)))
            self.activity = None

    def alone_s(self, prompt: int, output: int, cached: int = 0) -> float:
        """Seconds of one request that nothing else disturbs."""
        costs = self.spec.costs
        fresh = max(1, prompt - cached)
        prefill = costs.prefill(fresh, fresh * (cached + fresh / 2))
        step = costs.step(1) + costs.kappa * (prompt + output / 2)
        return (prefill + max(0, output - 1) / self.spec.accept * step) * self.slow

    def together_s(self, prompt: int, output: int, concurrency: int) -> float:
        """Seconds of one of `concurrency` requests that start together."""
        costs, batch = self.spec.costs, max(1, min(self.spec.cap, -(-concurrency // self.spec.replicas)))
        prefill = costs.prefill(prompt * batch, prompt * batch * prompt / 2)
        return (prefill + max(0, output - 1) / self.spec.accept * costs.step(batch)) * self.slow

    def served(self, prompt: int, output: int, seconds: float, cached: int = 0, rank: int = 0) -> None:
        """Counts a single request of one data-parallel rank."""
        self.totals.add(Totals(float(output), float(prompt), float(cached), 1.0, seconds, 1.0))
        self._found[rank] = self._found.get(rank, 0.0) + cached

    @property
    def workers(self) -> tuple[str, ...]:
        """Addresses of the separate servers behind a router; none where one server has all replicas."""
        base = self.args.get("router_dp_worker_base_port")
        return () if base is None else tuple(f"http://127.0.0.1:{base + 100 * n}" for n in range(self.spec.replicas))

    @property
    def ranks(self) -> int:
        """Data-parallel ranks: replicas, each with its groups of attention."""
        return max(1, self.spec.replicas) * max(1, int(self.args.get("attn_dp_size") or 1))

    def found(self, now: float) -> tuple[float, ...]:
        """Prompt tokens that each rank found in its cache so far; groups of a replica share what it found alike."""
        groups = self.ranks // max(1, self.spec.replicas)
        live = [0.0] * self.spec.replicas if self.activity is None else self.activity.found(now)
        return tuple(self._found.get(rank, 0.0) + live[rank // groups] / groups for rank in range(self.ranks))


def first_with(point: Point, running: int) -> float:
    """When a replica first runs that many requests, in the point's time; inf = never."""
    times = [next((s[0] for s in states if s[1] >= running), inf) for states in point.states]
    return min(times, default=inf)
