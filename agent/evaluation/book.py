"""What a ledger knows of one run, kept in memory: attempts and their facts, answers, what was made, node time."""

from __future__ import annotations

from dataclasses import dataclass, field

from day0.agent import referring, seeing
from day0.agent.inputs import SERVER_LOG
from day0.agent.policy.base import Answer, RunView
from day0.runs.accuracy import Judged, Judgement
from day0.runs.candidate import Candidate
from day0.runs.climbed import Climbed
from day0.runs.engine_facts import BootFacts, EngineFacts, ModelFacts, NodeFacts
from day0.runs.facts import (
    ArtifactKept,
    BootReady,
    Fact,
    NodeChecked,
    Pair,
    PairMeasured,
    PatchMade,
    Rung,
    Surveyed,
    TableMade,
    Verdict,
)
from day0.runs.findings import NoiseFloor
from day0.runs.patches import Patch, Table
from day0.runs.schema import Attempt, AttemptStatus, RunRequest

KEPT_FILES = frozenset({SERVER_LOG, referring.NAME, *referring.ANSWERS})


@dataclass
class Book:
    """One run. Attempts are numbered from 1; what `take` gets is what the ledger's writer would record."""

    run: str
    request: RunRequest
    model: ModelFacts | None = None
    engine: EngineFacts | None = None
    node: NodeFacts | None = None
    round: int = 0
    leader: str | None = None
    spent_s: float = 0.0
    answers: list[Answer] = field(default_factory=list)
    patches: dict[str, Patch] = field(default_factory=dict)
    tables: dict[str, Table] = field(default_factory=dict)
    pairs: dict[str, list[Pair]] = field(default_factory=dict)
    files: dict[tuple[str, str], bytes] = field(default_factory=dict)
    judged: dict[str, list[Judgement]] = field(default_factory=dict)
    boots: dict[str, BootFacts] = field(default_factory=dict)
    images: dict[str, str] = field(default_factory=dict)
    floors: tuple[NoiseFloor, ...] = ()
    _attempts: dict[str, Attempt] = field(default_factory=dict)
    _climbed: dict[str, Climbed] = field(default_factory=dict)

    @property
    def baseline(self) -> str | None:
        """The first attempt."""
        return next(iter(self._attempts), None)

    def attempts(self) -> tuple[Attempt, ...]:
        """All attempts in their order."""
        return tuple(self._attempts.values())

    def attempt(self, attempt_id: str) -> Attempt:
        """The attempt as it stands now."""
        return self._attempts[attempt_id]

    def add(
        self,
        candidate: Candidate,
        proposer: str,
        *,
        parent: str | None = None,
        action: str = "",
        hypothesis: str = "",
        gain: float | None = None,
    ) -> Attempt:
        """Queues a candidate; the same candidate again is its first attempt."""
        earlier = next((a for a in self._attempts.values() if a.candidate == candidate), None)
        if earlier is not None:
            return earlier
        number = len(self._attempts) + 1
        made = Attempt(
            id=f"{self.run}.{number}",
            run=self.run,
            number=number,
            candidate=candidate,
            status=AttemptStatus.QUEUED,
            parent=parent,
            proposer=proposer,
            action=action,
            hypothesis=hypothesis,
            expected_gain=gain,
        )
        self._attempts[made.id], self._climbed[made.id] = made, Climbed()
        return made

    def move(self, attempt_id: str, status: AttemptStatus, reason: str = "", *, epoch: int | None = None) -> None:
        """Another status."""
        held = self._attempts[attempt_id]
        change = {"status": status, "reason": reason, "epoch": held.epoch if epoch is None else epoch}
        self._attempts[attempt_id] = held.model_copy(update=change)

    def take(self, key: str, fact: Fact) -> None:
        """One fact of an attempt, of the survey or of a craft (`key` is then no attempt's)."""
        match fact:
            case NodeChecked():
                self.node = fact.node
            case Surveyed():
                self.model, self.engine = fact.model, fact.engine
            case PatchMade():
                self.patches[fact.patch.digest()] = fact.patch
            case TableMade():
                self.tables[fact.table.digest()] = fact.table
            case ArtifactKept():
                if fact.name in KEPT_FILES:
                    self.files[key, fact.name] = fact.data
            case PairMeasured():
                self.pairs.setdefault(key, []).append(fact.pair)
            case Judged():
                self.judged.setdefault(key, []).append(fact.found)
            case BootReady():
                self.boots[key] = fact.facts
            case _:
                self._count(key, fact)

    def _count(self, key: str, fact: Fact) -> None:
        held = self._attempts.get(key)
        if held is None or (isinstance(fact, Verdict) and held.verdict(fact.rung) is not None):
            return  # a verdict is final
        climbed = self._climbed[key]
        climbed.add(fact)
        self._attempts[key] = held.model_copy(update=climbed.fields())

    def ended(self, attempt_id: str) -> bool:
        """Whether the ladder is behind an attempt: a rung failed, or the last one passed."""
        held = self._attempts[attempt_id]
        return any(not v.passed for v in held.verdicts) or held.verdict(Rung.MEASURE) is not None

    def view(self) -> RunView:
        """What the policies may know, by the same rules as `day0.agent.view.view`."""
        assert self.model is not None and self.engine is not None and self.node is not None
        attempts = self.attempts()
        noise = seeing.noise(attempts, self.pairs, self.floors)
        return RunView(
            run=self.run,
            round=self.round,
            request=self.request,
            model=self.model,
            node=self.node,
            engine=self.engine,
            attempts=attempts,
            baseline=self.baseline,
            leader=self.leader,
            noise=noise,
            budget_left_s=seeing.search_left_s(self.request, attempts, self.spent_s, noise),
            attempts_left=self.request.max_attempts - seeing.tried(attempts),
            answers=tuple(self.answers),
            boots=dict(self.boots),
            patches=dict(self.patches),
            tables=dict(self.tables),
            images=dict(self.images),
        )


__all__ = ["Book"]
