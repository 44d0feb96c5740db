"""Runs, attempts and events as the ledger keeps them; states and their legal transitions."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any, Literal

from day0.runs.candidate import Candidate
from day0.runs.engine_facts import BootFacts
from day0.runs.facts import BootEnded, Fact, Knee, LoadPoint, Pair, Rung, Verdict
from day0.runs.findings import Diagnosis, Explained
from day0.runs.values import Frozen, Map, canonical_json, sha256
from day0.runs.workload import Objective, Target, Workload
from pydantic import Field


class RunStatus(StrEnum):
    """Life of a run."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    NO_WINNER = "no_winner"
    """finished without a working configuration"""
    FAILED = "failed"
    """infrastructure ended it; it can be resumed or retried"""
    CANCELLED = "cancelled"


class AttemptStatus(StrEnum):
    """Life of an attempt."""

    QUEUED = "queued"
    RUNNING = "running"
    KEPT = "kept"
    DISCARDED = "discarded"
    REFUSED = "refused"
    FAILED = "failed"
    VOID = "void"
    CANCELLED = "cancelled"


FINISHED = frozenset(AttemptStatus) - {AttemptStatus.QUEUED, AttemptStatus.RUNNING}
RUN_FINISHED = frozenset({RunStatus.DONE, RunStatus.NO_WINNER, RunStatus.FAILED, RunStatus.CANCELLED})

ATTEMPT_MOVES: dict[AttemptStatus, frozenset[AttemptStatus]] = {
    AttemptStatus.QUEUED: frozenset({AttemptStatus.RUNNING, AttemptStatus.REFUSED, AttemptStatus.CANCELLED}),
    # back to queued only by an interruption, with epoch + 1
    AttemptStatus.RUNNING: frozenset(AttemptStatus) - {AttemptStatus.RUNNING, AttemptStatus.REFUSED},
}
RUN_MOVES: dict[RunStatus, frozenset[RunStatus]] = {
    RunStatus.QUEUED: frozenset({RunStatus.RUNNING, RunStatus.CANCELLED}),
    RunStatus.RUNNING: RUN_FINISHED | {RunStatus.QUEUED},
    # resume (a raised budget, a mended node) and retry continue; a finished run never starts from zero
    RunStatus.FAILED: frozenset({RunStatus.QUEUED}),
    RunStatus.CANCELLED: frozenset({RunStatus.QUEUED}),
    RunStatus.NO_WINNER: frozenset({RunStatus.QUEUED}),
    RunStatus.DONE: frozenset({RunStatus.QUEUED}),
}


class RunRequest(Frozen):
    """What a user asked for. `key()` decides whether two requests are the same run."""

    model: str
    revision: str = Field(description="resolved before submission: hub commit or content hash")
    target: Target
    workloads: tuple[Workload, ...] = Field(min_length=1)
    objective: Objective = Objective.GOODPUT
    policy: str = "auto"
    seed: int = 0
    engine_source: str = ""
    budget_hours: float = Field(default=24.0, gt=0)
    deadline_s: float | None = None
    max_attempts: int = Field(default=200, ge=1)
    options: Map[Any] = Field(default_factory=dict)

    def key(self) -> str:
        """sha256 over what defines the run; its limits (budget, deadline, attempts) are not part of it."""
        same = self.model_dump(mode="json", exclude={"budget_hours", "deadline_s", "max_attempts"})
        return sha256(canonical_json(same))


class Run(Frozen):
    """One run as the ledger shows it. `id` is `r` + 8 hex of the key + `-N`."""

    id: str
    key: str
    request: RunRequest
    status: RunStatus
    reason: str = ""
    round: int = 0
    baseline: str | None = Field(default=None, description="attempt ID of the engine's defaults")
    leader: str | None = Field(default=None, description="attempt ID of the best kept candidate so far")
    incumbent: str | None = Field(default=None, description="attempt ID of the best confirmed candidate")
    spent_node_s: float = 0.0
    created_at: datetime
    finished_at: datetime | None = None


class Attempt(Frozen):
    """One candidate climbing the ladder. `id` is `RUN.N`."""

    id: str
    run: str
    number: int
    candidate: Candidate
    status: AttemptStatus
    epoch: int = 0
    node: str | None = None
    parent: str | None = Field(default=None, description="attempt whose candidate this one changes")
    proposer: str = Field(description="baseline, playbook, llm, tpe, random")
    action: str = ""
    hypothesis: str = ""
    expected_gain: float | None = Field(default=None, description="0.1 = 10 % more goodput")
    reason: str = Field(default="", description="why it ended as it did, one sentence")
    verdicts: tuple[Verdict, ...] = ()
    points: tuple[tuple[int, Rung, LoadPoint], ...] = Field(default=(), description="(boot, rung, point)")
    knees: tuple[tuple[int, Rung, Knee], ...] = ()
    explained: tuple[Explained, ...] = Field(
        default=(), description="what holds back its knees, one a boot and workload"
    )
    boots: int = Field(default=0, description="highest boot number recorded; the next boot is one more")
    node_s: float = Field(default=0.0, description="node seconds of all its ended boots")
    beside_s: float = Field(default=0.0, description="of them, of boots beside the ladder: repetitions, ablations")

    def verdict(self, rung: Rung) -> Verdict | None:
        """The verdict on a rung, if it was reached."""
        return next((v for v in self.verdicts if v.rung == rung), None)

    def knee(self, workload: str) -> Knee | None:
        """The knee that `measure` found for a workload."""
        return next((k for _, rung, k in self.knees if rung == Rung.MEASURE and k.workload == workload), None)

    def diagnoses(self, workload: str) -> tuple[Diagnosis, ...]:
        """What holds back its knee on a workload, most important first; empty where it was not measured."""
        return next((e.found for e in reversed(self.explained) if e.workload == workload), ())


class Comparison(Frozen):
    """The confirm rung's result: challenger against incumbent over the pairs."""

    incumbent: str
    challenger: str
    pairs: tuple[Pair, ...]
    gain: float = Field(description="exp(mean log ratio) - 1")
    lower: float = Field(description="one-sided 95 % bound of the gain, valid at whatever pair one stops")
    upper: float
    better: bool
    method: str
    verdict: Literal["", "open", "better", "not better", "not shown"] = Field(
        default="", description="`open`: another pair is due; `not shown`: the pairs that are allowed do not settle it"
    )


class Boot(Frozen):
    """A lease of an attempt on a node; `ended` is None while no end of it was recorded."""

    attempt: str
    number: int
    epoch: int
    argv: tuple[str, ...]
    env: Map[str] = Field(default_factory=dict)
    facts: BootFacts | None = Field(default=None, description="None: it never became ready")
    ended: BootEnded | None = None


class Submitted(Frozen):
    """What became of a request: a new run, an active one that was joined, or a finished one to look at."""

    run: Run
    joined: bool
    finished: bool


class StoredRecipe(Frozen):
    """A rendered recipe; `sha256` is that of its text."""

    run: str
    workload: str
    sha256: str
    text: str


class Event(Frozen):
    """One line of a run's story; `number` counts per run without gaps."""

    run: str
    number: int
    at: datetime
    node_s: float | None = None
    attempt: str | None = None
    epoch: int | None = None
    kind: str
    data: Map[Any] = Field(default_factory=dict)


__all__ = [
    "ATTEMPT_MOVES",
    "FINISHED",
    "RUN_FINISHED",
    "RUN_MOVES",
    "Attempt",
    "AttemptStatus",
    "Boot",
    "Comparison",
    "Event",
    "Fact",
    "Pair",
    "Run",
    "RunRequest",
    "RunStatus",
    "StoredRecipe",
    "Submitted",
]
