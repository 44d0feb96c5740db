"""What the ledger answers: frozen values, few queries each."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any, TypeVar

from day0.runs import tables
from day0.runs.database import Row, reading
from day0.runs.engine_facts import EngineFacts, ModelFacts, NodeFacts
from day0.runs.errors import UserError
from day0.runs.facts import PairMeasured
from day0.runs.findings import NoiseFloor
from day0.runs.gained import KIND as GAINED
from day0.runs.gained import Gained
from day0.runs.learned import KIND, Learned
from day0.runs.ledger_facts import model_key
from day0.runs.ledger_rows import BOOTS, CLIMBED, attempts_of, boots_of, event_of, read, read_object, run_of
from day0.runs.schema import Attempt, Boot, Comparison, Event, Pair, Run, StoredRecipe
from day0.runs.values import Frozen
from sqlalchemy import Connection, Engine, func, select, tuple_

F = TypeVar("F", bound=Frozen)


class Reads:
    """The reading half of `day0.runs.ledger.Ledger`; each method sees one snapshot."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @property
    def engine(self) -> Engine:
        """For modules of this package that read further columns."""
        return self._engine

    # ---- runs
    def run(self, run_id: str) -> Run:
        """Raises `UserError` with the nearest IDs when it is unknown."""
        with reading(self._engine) as db:
            return run_of(self._run_row(db, run_id))

    def runs(self, *, limit: int = 50, before: str | None = None) -> tuple[Run, ...]:
        """Newest first; `before` a run's ID gives the page after it."""
        r = tables.runs
        query = select(r).order_by(r.c.created_at.desc(), r.c.id.desc()).limit(limit)
        with reading(self._engine) as db:
            if before is not None:
                last = self._run_row(db, before)
                query = query.where(tuple_(r.c.created_at, r.c.id) < tuple_(last.created_at, last.id))
            return tuple(run_of(row) for row in db.execute(query))

    def _run_row(self, db: Connection, run_id: str, *, lock: bool = False) -> Row:
        r = tables.runs
        query = select(r).where(r.c.id == run_id)
        row = db.execute(query.with_for_update() if lock else query).one_or_none()
        if row is None:
            known = db.execute(select(r.c.id).order_by(r.c.created_at.desc()).limit(500)).scalars().all()
            raise UserError(f"there is no run {run_id}{nearest(run_id, known)}")
        return row

    # ---- what a run holds
    def attempts(self, run_id: str) -> tuple[Attempt, ...]:
        """All attempts in their order, each with its verdicts, points and knees: two queries."""
        a, e = tables.attempts, tables.events
        with reading(self._engine) as db:
            rows = db.execute(select(a).where(a.c.run == run_id).order_by(a.c.number)).all()
            if not rows:
                self._run_row(db, run_id)
            facts = select(e).where(e.c.run == run_id, e.c.kind.in_(CLIMBED)).order_by(e.c.number)
            return attempts_of(rows, db.execute(facts))

    def attempt(self, attempt_id: str) -> Attempt:
        """Raises `UserError` with the nearest IDs when it is unknown."""
        a, e = tables.attempts, tables.events
        with reading(self._engine) as db:
            row = db.execute(select(a).where(a.c.id == attempt_id)).one_or_none()
            if row is None:
                run_id = attempt_id.rpartition(".")[0] or attempt_id
                self._run_row(db, run_id)
                known = db.execute(select(a.c.id).where(a.c.run == run_id).order_by(a.c.number)).scalars().all()
                raise UserError(f"there is no attempt {attempt_id}{nearest(attempt_id, known)}")
            facts = select(e).where(e.c.attempt == attempt_id, e.c.kind.in_(CLIMBED)).order_by(e.c.number)
            return attempts_of([row], db.execute(facts))[0]

    def boots(self, run_id: str, *, attempt: str | None = None) -> tuple[Boot, ...]:
        """Boots in order of their start; those without an end are what a dead owner may have left running."""
        return boots_of(self._events(run_id, BOOTS, attempt))

    def events(self, run_id: str, *, after: int = 0, limit: int = 1000) -> tuple[Event, ...]:
        """The story after event number `after`."""
        e = tables.events
        query = select(e).where(e.c.run == run_id, e.c.number > after).order_by(e.c.number).limit(limit)
        with reading(self._engine) as db:
            return tuple(event_of(row) for row in db.execute(query))

    def facts(self, run_id: str, kind: str, *, attempt: str | None = None) -> tuple[Event, ...]:
        """All events of one kind, `figure` or `artifact` say."""
        return tuple(event_of(row) for row in self._events(run_id, (kind,), attempt))

    def comparisons(self, run_id: str) -> tuple[Comparison, ...]:
        """What confirm found, in order."""
        rows = self._events(run_id, ("comparison",))
        return tuple(read(Comparison, row.data, f"event {row.number} of run {row.run}") for row in rows)

    def pairs(self, challenger_id: str) -> tuple[Pair, ...]:
        """The pairs of an attempt as challenger, in order."""
        rows = self._events(challenger_id.rpartition(".")[0], ("pair",), challenger_id)
        return tuple(read(PairMeasured, row.data, f"event {row.number} of run {row.run}").pair for row in rows)

    def recipes(self, run_id: str) -> tuple[StoredRecipe, ...]:
        """Rendered recipes, in order; the last of a workload is its present one."""
        return tuple(
            StoredRecipe(run=run_id, **read_object(row.data, f"event {row.number} of run {row.run}"))
            for row in self._events(run_id, ("recipe",))
        )

    def answers(self, run_id: str) -> tuple[dict[str, Any], ...]:
        """What `Writer.add_answer` was given, in order."""
        return tuple(dict(event.data) for event in self.facts(run_id, "answer"))

    def llm_calls(self, run_id: str) -> tuple[dict[str, Any], ...]:
        """What `Writer.add_llm_call` was given, in order."""
        return tuple(dict(event.data) for event in self.facts(run_id, "llm_call"))

    def dropped(self, run_id: str) -> int:
        """How many facts came with an old epoch and were dropped."""
        e = tables.events
        count = select(func.count()).select_from(e).where(e.c.run == run_id, e.c.kind == "fact_dropped")
        with reading(self._engine) as db:
            return int(db.execute(count).scalar_one())

    def _events(self, run_id: str, kinds: tuple[str, ...], attempt: str | None = None) -> list[Row]:
        e = tables.events
        query = select(e).where(e.c.run == run_id, e.c.kind.in_(kinds)).order_by(e.c.number)
        if attempt is not None:
            query = query.where(e.c.attempt == attempt)
        with reading(self._engine) as db:
            return list(db.execute(query).all())

    # ---- what outlives a run
    def facts_engine(self, build: str) -> EngineFacts | None:
        """Facts of an engine build, taken once by whatever run came first."""
        return self._known(EngineFacts, "engine", build)

    def facts_model(self, model: str, revision: str) -> ModelFacts | None:
        """Facts of a model's revision."""
        return self._known(ModelFacts, "model", model_key(model, revision))

    def facts_node(self, name: str) -> NodeFacts | None:
        """The newest facts of a node."""
        return self._known(NodeFacts, "node", name)

    def floor(self, key: str) -> NoiseFloor | None:
        """The newest noise floor that was measured under these conditions."""
        return self._known(NoiseFloor, "floor", key)

    def learned(self) -> tuple[Learned, ...]:
        """What runs learned of failures, on whatever build, by key."""
        k = tables.knowledge
        with reading(self._engine) as db:
            rows = db.execute(select(k.c.key, k.c.data).where(k.c.kind == KIND).order_by(k.c.key)).all()
        return tuple(read(Learned, row.data, f"learned issue {row.key}") for row in rows)

    def gained(self) -> tuple[Gained, ...]:
        """What experiments of all runs brought, on whatever build, by attempt."""
        k = tables.knowledge
        with reading(self._engine) as db:
            rows = db.execute(select(k.c.key, k.c.data).where(k.c.kind == GAINED).order_by(k.c.key)).all()
        return tuple(read(Gained, row.data, f"what attempt {row.key} brought") for row in rows)

    def _known(self, model: type[F], kind: str, key: str) -> F | None:
        k = tables.knowledge
        with reading(self._engine) as db:
            data = db.execute(select(k.c.data).where(k.c.kind == kind, k.c.key == key)).scalar()
        return None if data is None else read(model, data, f"{kind} facts of {key}")


def nearest(wanted: str, known: Sequence[str]) -> str:
    """The end of a sentence that says what is not there; empty when nothing is near."""
    near = difflib.get_close_matches(wanted, known, n=3, cutoff=0.5)
    return f": did you mean {' or '.join(near)}?" if near else ""
