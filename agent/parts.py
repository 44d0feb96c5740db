"""What one run works with: implementations behind ports, picked in `compose.py`, handed to the graph's nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from day0.agent.nodes import NodePool
from day0.agent.overhead import Meter
from day0.agent.policy.base import Policy
from day0.agent.pump import Listener, Pump
from day0.agent.settings import Settings
from day0.runs.artifacts import Artifacts
from day0.runs.errors import Infrastructure
from day0.runs.ledger import Ledger
from day0.runs.queue import ControllerLock
from day0.tools.engines.base import Engine
from day0.tools.hip_check import Checker
from day0.tools.vendor import Vendor


@dataclass(frozen=True)
class Environments:
    """The folders of the engine's and the harness' environments and the digests they must have."""

    engine: str
    engine_build: str
    harness: str
    harness_build: str
    digest: Callable[[str], str]
    """of an environment's folder, as it is now"""
    images: Mapping[str, str] = field(default_factory=dict)
    """build -> environment of further engine images on these nodes"""
    evals: str = ""
    """where lm-eval is; empty: full evals can't run on this target"""
    checker: Checker = field(default_factory=Checker)
    """what compiles patched kernels without a GPU"""
    patchable: bool = False
    """the engine's sources can be changed per sandbox; not so where all share one folder"""
    overlays: bool = False
    """a sandbox takes its engine from an image, which is changed by another one over it, not by writing into it"""

    def folder(self, build: str) -> str:
        """The environment of a build. Raises `Infrastructure` for a build that is not here."""
        found = self.engine if build == self.engine_build else self.images.get(build)
        if found is None:
            raise Infrastructure(f"the engine build {build[:19]} is not here; the environment is {self.engine}")
        return found

    def on(self, build: str) -> Environments:
        """The same with another of its builds in use. Raises `Infrastructure`."""
        others = {**self.images, self.engine_build: self.engine}
        return replace(
            self,
            engine=self.folder(build),
            engine_build=build,
            images={k: v for k, v in others.items() if k != build},
        )


@dataclass(frozen=True)
class Desk:
    """What a controller has before it takes a run."""

    settings: Settings
    ledger: Ledger
    lock: ControllerLock
    listener: Listener
    meter: Meter


@dataclass(frozen=True)
class Parts:
    """One run's implementations."""

    ledger: Ledger
    artifacts: Artifacts
    pool: NodePool
    pump: Pump
    policy: Policy
    engine: Engine
    environments: Environments
    model_folder: Path
    home: Path
    node: str
    meter: Meter
    stand_in: str = ""
    """why another policy than the asked one decides; empty: the asked one does"""
    vendor: Vendor | None = None
    calls: list[dict[str, Any]] = field(default_factory=list)
    """records of LLM calls that are not yet in the ledger"""
    upstream: Callable[[Sequence[str]], str] = field(default=lambda _: "upstream can't be asked here")
    """what the engine's repository has about words"""
