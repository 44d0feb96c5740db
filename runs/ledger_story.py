"""The append-only half of a write transaction: events numbered without gaps, and what else a run leaves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from day0.runs import tables
from day0.runs.engine_facts import EngineFacts, ModelFacts, NodeFacts
from day0.runs.errors import Conflict
from day0.runs.findings import NoiseFloor
from day0.runs.gained import KIND as GAINED
from day0.runs.gained import Gained
from day0.runs.learned import KIND, Learned
from day0.runs.ledger_facts import model_key
from day0.runs.ledger_rows import stamp, to_json
from day0.runs.schema import Comparison
from day0.runs.values import Frozen, sha256
from sqlalchemy import Connection, func, insert, select, update


class Story:
    """Appends to one run's story inside a transaction that holds the run's row."""

    def __init__(self, connection: Connection, run_id: str, now: Callable[[], datetime]) -> None:
        self._db, self._now, self._id = connection, now, run_id
        self._next: int | None = None

    # ---- what else a run leaves
    def add_comparison(self, comparison: Comparison) -> None:
        """The confirm rung's result."""
        key = f"comparison:{comparison.digest()}"
        self.event("comparison", comparison, attempt=comparison.challenger, key=key)

    def add_recipe(self, workload: str, text: str, digest: str) -> None:
        """A rendered recipe; `digest` must be the sha256 of its text."""
        if digest != sha256(text):
            raise Conflict("the digest is not that of the recipe's text")
        self.event("recipe", {"workload": workload, "sha256": digest, "text": text}, key=f"recipe:{workload}:{digest}")

    def add_answer(self, answer: Frozen | Mapping[str, Any], *, key: str | None = None) -> None:
        """An answer to a policy's question, or why its action was refused."""
        self.event("answer", answer, key=None if key is None else f"answer:{key}")

    def add_llm_call(self, call: Frozen | Mapping[str, Any], *, key: str | None = None) -> None:
        """One call of the LLM with its usage and cost."""
        self.event("llm_call", call, key=None if key is None else f"llm:{key}")

    def keep_engine(self, facts: EngineFacts) -> None:
        """Facts of an engine build, for every later run too."""
        self._keep("engine", facts.build, facts)

    def keep_model(self, facts: ModelFacts) -> None:
        """Facts of a model's revision."""
        self._keep("model", model_key(facts.model, facts.revision), facts)

    def keep_node(self, facts: NodeFacts) -> None:
        """The newest facts of a node."""
        self._keep("node", facts.name, facts)

    def keep_floor(self, key: str, floor: NoiseFloor) -> None:
        """A noise floor just measured, for every later run under the same conditions, and when that was."""
        self._keep("floor", key, floor.model_copy(update={"at": stamp(self._now())}))

    def keep_learned(self, lesson: Learned) -> None:
        """A failure and a way around it, for every later run on the same build; the first sight of it stands."""
        k = tables.knowledge
        known = select(k.c.key).where(k.c.kind == KIND, k.c.key == lesson.key)
        if self._db.execute(known).scalar() is None:
            self._keep(KIND, lesson.key, lesson)

    def keep_gained(self, gained: Gained) -> None:
        """What an experiment brought, for later runs on the same build."""
        self._keep(GAINED, gained.attempt, gained)

    def _keep(self, kind: str, key: str, facts: Frozen) -> None:
        k, data = tables.knowledge, to_json(facts)
        known = self._db.execute(select(k.c.data).where(k.c.kind == kind, k.c.key == key)).scalar()
        if known == data:
            return
        if known is None:
            self._db.execute(insert(k).values(kind=kind, key=key, data=data, run=self._id))
        else:
            self._db.execute(update(k).where(k.c.kind == kind, k.c.key == key).values(data=data, run=self._id))
        self.event(f"{kind}_facts", {"key": key, "sha256": sha256(data)})

    # ---- the story
    def event(
        self,
        kind: str,
        data: Frozen | Mapping[str, Any],
        *,
        attempt: str | None = None,
        epoch: int | None = None,
        node_s: float | None = None,
        key: str | None = None,
    ) -> None:
        """Appends an event. With a `key` it is written once: a repetition must have the same content."""
        if key is None or not self._stands(key, data):
            self._append(kind, data, attempt=attempt, epoch=epoch, node_s=node_s, key=key)

    def _append(
        self,
        kind: str,
        data: Frozen | Mapping[str, Any],
        *,
        attempt: str | None,
        epoch: int | None,
        node_s: float | None,
        key: str | None,
    ) -> None:
        e = tables.events
        if self._next is None:
            self._next = self._db.execute(select(func.max(e.c.number)).where(e.c.run == self._id)).scalar() or 0
        self._next += 1
        self._db.execute(
            insert(e).values(
                run=self._id,
                number=self._next,
                at=stamp(self._now()),
                node_s=node_s,
                attempt=attempt,
                epoch=epoch,
                kind=kind,
                key=key,
                data=to_json(data),
            )
        )

    def _stands(self, key: str, data: Frozen | Mapping[str, Any]) -> bool:
        """Whether it is written already. Raises `Conflict` when another content stands under the key."""
        e = tables.events
        earlier = self._db.execute(select(e.c.data).where(e.c.run == self._id, e.c.key == key)).scalar()
        if earlier is not None and earlier != to_json(data):
            raise Conflict(f"{key} is already in the ledger with another content")
        return earlier is not None

    def _has(self, key: str) -> bool:
        e = tables.events
        return self._db.execute(select(e.c.number).where(e.c.run == self._id, e.c.key == key)).scalar() is not None
