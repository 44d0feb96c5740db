"""What a climb, a pair and a replay get to work with: frozen values and the engine's stateless adapter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from day0.agent.parts import Environments
from day0.runs.candidate import Candidate
from day0.runs.engine_facts import EngineFacts, ModelFacts
from day0.runs.errors import Infrastructure
from day0.runs.facts import Knee
from day0.runs.patches import Patch, Table
from day0.runs.workload import Target, Workload
from day0.tools.engines.base import Engine
from day0.tools.known import KnownIssue
from day0.tools.vendor import Vendor

V = TypeVar("V")
SERVER_LOG = "server.log"
"""artifact name of a boot's log; the newest of an attempt is its last boot's"""


@dataclass(frozen=True)
class ClimbInputs:
    """Everything a climb compares with; nothing in it knows the ledger."""

    target: Target
    workloads: tuple[Workload, ...]
    engine: Engine
    engine_facts: EngineFacts
    model_facts: ModelFacts
    model_folder: str
    environments: Environments
    seed: int
    noise: float
    """relative s.d. of a knee between boots"""
    reference: bytes = b""
    """the run's fixed reference (`day0.agent.referring`); empty: there is none, or this climb makes it"""
    vendor: Vendor | None = None
    """the vendor's endpoint, asked before anything on this node"""
    incumbent: Mapping[str, Knee] = field(default_factory=dict)
    """workload -> the incumbent's knee; empty for the baseline"""
    patches: Mapping[str, Patch] = field(default_factory=dict)
    tables: Mapping[str, Table] = field(default_factory=dict)
    """by digest: everything that candidates of this run may name"""

    learned: tuple[KnownIssue, ...] = ()
    """what runs on this very build learned of failures"""

    def launched(self, candidate: Candidate) -> Candidate:
        """The candidate with the model folder of this node in place of a hub ID."""
        return candidate.model_copy(update={"model": self.model_folder})

    def patches_of(self, candidate: Candidate) -> tuple[Patch, ...]:
        """The candidate's patches in the order they are applied. Raises `Infrastructure` for one that is not here."""
        return tuple(_known(self.patches, digest, "patch") for digest in candidate.patches)

    def tables_of(self, candidate: Candidate) -> tuple[Table, ...]:
        """The candidate's tuned tables. Raises `Infrastructure` for one that is not here."""
        return tuple(_known(self.tables, digest, "table") for digest in candidate.tables)


def _known(held: Mapping[str, V], digest: str, what: str) -> V:
    if digest not in held:
        raise Infrastructure(f"the {what} {digest[:19]} is not in the ledger")
    return held[digest]
