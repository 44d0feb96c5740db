"""A twin node with its real callers around it: the engine adapter, `serve`, the load generator's owner."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from day0.runs.candidate import Candidate
from day0.runs.documents import target
from day0.runs.engine_facts import EngineFacts
from day0.runs.workload import MeasureRules, Workload
from day0.sandboxes.spec import SandboxSpec
from day0.sandboxes.twin import checkpoint
from day0.sandboxes.twin.node import HARNESS, TwinNode, environments
from day0.sandboxes.twin.world import World, world
from day0.tools.bench import Harness
from day0.tools.engines.sglang import Sglang
from day0.tools.serve import Server, serve

RULES = MeasureRules(point_s=20.0, min_requests=30, p95_multiples=0.0, max_points=3, max_pairs=2, stability_s=0.0)
SHORT = Workload(name="short", input_tokens=4000, output_tokens=200, prefixes=4, cached_share=0.5)
BASE = {"tp-size": 4, "dp-size": 2}
SPECULATION = {
    "speculative-algorithm": "EAGLE",
    "speculative-num-steps": 3,
    "speculative-eagle-topk": 1,
    "speculative-num-draft-tokens": 4,
}


@dataclass
class Bench:
    """What tests drive."""

    home: Path
    world: World
    engine: Sglang = field(default_factory=Sglang)

    def __post_init__(self) -> None:
        self.node = self.another()
        self.model = checkpoint.write(self.world, self.home / "models")
        self.build = self.world.builds[0].name
        self._facts: EngineFacts | None = None

    def another(self) -> TwinNode:
        return TwinNode("twin-0", self.home / "twin", self.world, cancel=lambda: False)

    @property
    def facts(self) -> EngineFacts:
        if self._facts is None:
            with self.node.open(SandboxSpec("job", self.build, "survey")) as sandbox:
                self._facts = self.engine.take_facts(sandbox, environments(self.world)[self.build])
        return self._facts

    def candidate(self, flags=None, env=None, **more) -> Candidate:
        given = {"flags": {**BASE, **(flags or {})}, "env": env or {}}
        return Candidate(
            engine="sglang", build=self.facts.build, model=str(self.model), revision="r", **given, **more
        )  # fmt: skip

    @contextmanager
    def serving(self, flags=None, env=None) -> Iterator[tuple[Server, Harness]]:
        limits, candidate = target("mi355x-twin"), self.candidate(flags, env)
        spec = SandboxSpec("server", self.build, "r1.1", caches=self.engine.caches)
        with (
            Harness.open(self.node, HARNESS, "r1.1", 0, ()) as harness,
            serve(self.node, spec, self.engine, candidate, self.facts, limits) as server,
        ):
            yield server, harness


@pytest.fixture
def bench(tmp_path) -> Bench:
    return Bench(tmp_path, world("glm-5.2").mended())


@pytest.fixture
def bench_of(tmp_path):
    """A bench over a changed world."""

    def make(**changes) -> Bench:
        return Bench(tmp_path, world("glm-5.2").mended().model_copy(update=changes))

    return make
