"""One policy on one world: the loop of a run with the real ladder on a simulated node, without graph and ledger.

Survey, propose, admit, craft, climb, decide, confirm are the steps of `day0.agent.graph`, over a `Book` in memory.
Same world, policy and seed: same result, since all noise and all choices come from them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from day0.agent import crafting, floor, referring, surveying, twin
from day0.agent.climb import climb
from day0.agent.evaluation import answers
from day0.agent.evaluation.book import Book
from day0.agent.inputs import SERVER_LOG, ClimbInputs
from day0.agent.lease import Facts
from day0.agent.policy import decide, guard
from day0.agent.policy.actions import Action, Finish, Question, Sweep, TryCandidate
from day0.agent.policy.base import Answer, Policy, Proposal, RunView, Usage
from day0.agent.policy.turns import LLM
from day0.runs.candidate import Candidate
from day0.runs.errors import CandidateFailed, Infrastructure, NodeLost, Refused
from day0.runs.facts import Fact, PatchMade, TableMade
from day0.runs.patches import Patch, Table
from day0.runs.schema import FINISHED, Attempt, AttemptStatus, Comparison, RunRequest
from day0.sandboxes.twin import checkpoint
from day0.sandboxes.twin.node import TwinNode
from day0.sandboxes.twin.world import World
from day0.tools.engines.base import Engine
from day0.tools.engines.sglang import Sglang

MOST_INTERRUPTIONS = 3
IDLE_ROUNDS = 3


@dataclass
class Arena:
    """A world, a node of it, and the book of one run. `folder` is empty and private to it."""

    world: World
    request: RunRequest
    folder: Path
    patience: int = decide.PATIENCE
    engine: Engine = field(default_factory=Sglang)
    usage: Usage = field(default_factory=Usage)
    trail: list[tuple[float, str]] = field(default_factory=list)
    """(node seconds so far, attempt that took the lead)"""
    compared: list[Comparison] = field(default_factory=list)
    """what each confirmation came to, in order"""

    def __post_init__(self) -> None:
        self.model = checkpoint.write(self.world, self.folder / "models")
        self.at = twin.environments(self.world)
        self.book = Book(f"r{self.request.key()[7:15]}-1", self.request, images=dict(self.at.images))
        self._lost, self._lost_s = 0, 0.0
        self.node = self._node(self.world)

    def _node(self, world: World) -> TwinNode:
        return TwinNode(f"twin-{self._lost}", self.folder / "nodes", world, cancel=lambda: False)

    @property
    def node_s(self) -> float:
        """Node seconds of all nodes so far."""
        return self._lost_s + self.node.clock.now()

    # ---- work on the node
    def perform(self, key: str, make: Callable[[TwinNode], Facts]) -> None:
        """Takes all facts of a work; the node time it held counts as spent, whatever ended it. Raises what it raises.

        A node that was lost is replaced: the spare does not die a second time.
        """
        begun = self.node_s
        try:
            with closing(make(self.node)) as facts:
                for fact in facts:
                    self.book.take(key, fact)
        except NodeLost:
            self._lost_s, self._lost = self.node_s, self._lost + 1
            healthy = self.world.node.model_copy(update={"dies_at_s": None})
            self.node = self._node(self.world.model_copy(update={"node": healthy}))
            raise
        finally:
            self.book.spent_s += self.node_s - begun

    def insist(self, key: str, make: Callable[[TwinNode], Facts]) -> None:
        """As `perform`; what is nobody's fault is tried three times. Raises `Infrastructure`, `CandidateFailed`."""
        for number in range(1, MOST_INTERRUPTIONS + 1):
            try:
                self.perform(key, make)
                return
            except Infrastructure:
                if number == MOST_INTERRUPTIONS:
                    raise

    # ---- the steps
    def survey(self) -> None:
        """Model, engine and node facts; the baseline climbs."""
        look = partial(
            surveying.look, folder=self.model, request=self.request, engine=self.engine, at=self.at, known=None
        )
        self.insist("survey", look)
        target = self.request.target
        baseline = Candidate(
            engine=target.engine,
            build=self.at.engine_build,
            model=self.request.model,
            revision=self.request.revision,
            flags=target.base_flags,
            env=target.base_env,
        )
        self.climb(self.book.add(baseline, "baseline", action="baseline", hypothesis=target.baseline_label))

    def floor(self) -> None:
        """The baseline booted again for the noise floor, as often as the target asks; nothing where that was done."""
        base, failed, name = self.book.attempts()[0], "", self.request.workloads[0].name
        boots = self.request.target.measure.floor_boots if base.status == AttemptStatus.KEPT else 0
        if self.book.floors:
            return
        number = 0
        while floor.another(number, boots, [floor.repeated(now := self.book.attempt(base.id), name)]):
            number += 1
            make = partial(floor.boot, baseline=now, inputs=self.inputs(now), number=number)
            try:
                self.insist(base.id, make)
            except CandidateFailed as error:
                failed = error.evidence
                break
        if boots:
            seen = self.book.view()
            self.book.floors = floor.found(self.book.run, self.request, self.book.attempt(base.id), seen.node, failed)

    def search(self, policy: Policy, enough: Callable[[], bool] = lambda: False) -> str:
        """Rounds until the search ends, or until it is `enough`; why it did."""
        idle = 0
        while (stop := decide.stop(self.book.view(), self.patience)) is None:
            if enough():
                return "it is good enough"
            seen = self.book.view()
            proposal = policy.decide(seen)
            self.book.round += 1
            self._used(proposal.usage)
            began, crafted, asked = self._admit(proposal, seen)
            finish = next((a.reason for a in proposal.actions if isinstance(a, Finish)), "")
            idle = 0 if began or asked else idle + (proposal.proposer != LLM)
            if not began and ((finish and not crafted) or idle >= IDLE_ROUNDS):
                return finish or f"{idle} rounds in a row brought nothing that could be tried"
            for attempt in self.book.attempts():
                if attempt.status not in FINISHED:
                    self.climb(attempt)
        return stop.reason

    def _used(self, usage: Usage) -> None:
        mine = self.usage
        self.usage = Usage(
            calls=mine.calls + usage.calls,
            prompt_tokens=mine.prompt_tokens + usage.prompt_tokens,
            completion_tokens=mine.completion_tokens + usage.completion_tokens,
            usd=mine.usd + usage.usd,
        )

    def _admit(self, proposal: Proposal, seen: RunView) -> tuple[int, int, int]:
        """(attempts that were queued, things that were to be made, questions that were answered)."""
        began = crafted = asked = 0
        check = partial(self.engine.check, model=seen.model)
        wanted: list[tuple[int, TryCandidate, Candidate]] = []
        for number, action in enumerate(proposal.actions):
            if isinstance(action, Question | Sweep):
                asked += 1
                said = answers.answer(self, action, seen)
                self._tell(action, str(said), refused=isinstance(said, Refused))
            elif isinstance(action, TryCandidate):
                found = guard.admit(action, seen, check=check)
                if isinstance(found, Refused):
                    self._tell(action, str(found), refused=True)
                elif action.crafted:
                    wanted.append((number, action, found))
                else:
                    began += self._queue(action, found, proposal.proposer)
        for number, action, candidate in wanted:
            crafted += 1
            made = self._craft(f"{self.book.round}:{number}", action, candidate)
            began += self._queue(action, made, proposal.proposer) if made is not None else 0
        return began, crafted, asked

    def _tell(self, action: Action, text: str, *, refused: bool = False) -> None:
        self.book.answers.append(Answer(round=self.book.round, action=action, refused=refused, text=text))

    def _queue(self, action: TryCandidate, candidate: Candidate, proposer: str) -> bool:
        known = len(self.book.attempts())
        self.book.add(
            candidate,
            proposer,
            parent=action.parent,
            action=action.axis,
            hypothesis=action.hypothesis,
            gain=action.expected_gain,
        )
        return len(self.book.attempts()) > known

    def _craft(self, key: str, action: TryCandidate, candidate: Candidate) -> Candidate | None:
        """The candidate with what was made for it; None: it could not be made, and the answer says why."""
        parent = self.book.attempt(action.parent)
        failed = next((v for v in parent.verdicts if not v.passed), None)
        same = parent.candidate.flags == candidate.flags and parent.candidate.build == candidate.build
        order = crafting.Order(
            key,
            action,
            candidate,
            issue=failed.issue if failed else "",
            evidence=failed.evidence if failed else "",
            log=self.book.files.get((parent.id, SERVER_LOG), b"") if same else b"",
        )
        made: list[Patch | Table] = []

        def make(node: TwinNode) -> Facts:
            made.clear()
            inputs = self.inputs(parent)
            for fact in crafting.craft(node, order=order, inputs=inputs, key=f"{self.book.run}-craft"):
                _keep(fact, made)
                yield fact

        try:
            self.insist("craft", make)
        except Refused as refused:
            self._tell(action, str(refused), refused=True)
            return None
        except CandidateFailed as failure:
            self._tell(action, f"{failure.failure}: {failure.evidence}", refused=True)
            return None
        return crafting.with_made(candidate, made)

    def climb(self, attempt: Attempt) -> None:
        """The ladder, then the decision. Raises `Infrastructure` when it was interrupted three times."""
        for epoch in range(MOST_INTERRUPTIONS):
            self.book.move(attempt.id, AttemptStatus.RUNNING, epoch=epoch)
            now = self.book.attempt(attempt.id)
            try:
                self.perform(now.id, partial(climb, now, inputs=self.inputs(now)))
                break
            except Infrastructure:
                if epoch + 1 == MOST_INTERRUPTIONS:
                    raise
        self._decide(attempt.id)

    def _decide(self, attempt_id: str) -> None:
        if decide.hangs_on_noise(self.book.attempt(attempt_id), self.book.attempts(), self.request, self.gpus):
            self.floor()
        seen = self.book.view()
        end = decide.outcome(self.book.attempt(attempt_id), seen.attempts, self.request, seen.noise, self.gpus)
        self.book.move(attempt_id, end.status, end.reason)
        leader = decide.leader_of(self.book.attempts(), self.request, self.gpus)
        if leader is not None and leader.id != self.book.leader:
            self.book.leader = leader.id
            self.trail.append((self.node_s, leader.id))

    @property
    def gpus(self) -> int:
        """Accelerators of one node."""
        return self.request.target.gpus or self.world.node.gpus

    def inputs(self, attempt: Attempt) -> ClimbInputs:
        """What a climb compares with; the leaders' knees stand for the incumbent."""
        seen = self.book.view()
        own = attempt.id == seen.baseline
        best = {w.name: decide.leader_of(seen.attempts, self.request, self.gpus, w) for w in self.request.workloads}
        knees = {name: lead.knee(name) for name, lead in best.items() if lead is not None and not own}

        def read(name: str) -> bytes | None:
            return self.book.files.get((str(seen.baseline), name))

        return ClimbInputs(
            target=self.request.target,
            workloads=self.request.workloads,
            engine=self.engine,
            engine_facts=seen.engine,
            model_facts=seen.model,
            model_folder=str(self.model),
            environments=self.at,
            seed=self.request.seed,
            noise=seen.noise,
            reference=referring.kept(read, self.request.target.baseline_label, own=own),
            incumbent={name: knee for name, knee in knees.items() if knee is not None},
            patches=seen.patches,
            tables=seen.tables,
        )


def _keep(fact: Fact, made: list[Patch | Table]) -> None:
    if isinstance(fact, PatchMade):
        made.append(fact.patch)
    if isinstance(fact, TableMade):
        made.append(fact.table)
