"""The ledger: the only truth about runs. Reads are frozen values, writes are one transaction per step."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from day0.runs import ledger_consents, tables
from day0.runs.consents import Consent
from day0.runs.database import MIGRATION_LOCK, open_engine, writing
from day0.runs.errors import Conflict, UserError
from day0.runs.ledger_consents import ConsentReads
from day0.runs.ledger_rows import run_of, stamp, to_json
from day0.runs.ledger_writer import Writer
from day0.runs.schema import RUN_FINISHED, Run, RunRequest, RunStatus, Submitted
from sqlalchemy import Connection, Engine, func, insert, select, text


def utc_now() -> datetime:
    """The present moment, aware, in UTC."""
    return datetime.now(UTC)


class Ledger(ConsentReads):
    """Runs, attempts and their story in SQLite or PostgreSQL. Safe to use from several threads.

    Every method raises `Infrastructure` when the database can't be used, `DiskFull` when it can't grow.
    """

    def __init__(self, engine: Engine, now: Callable[[], datetime] = utc_now) -> None:
        super().__init__(engine)
        self._now = now
        self._thread = threading.local()

    @classmethod
    def open(cls, url: str, *, now: Callable[[], datetime] = utc_now) -> Ledger:
        """Opens `sqlite:///FILE` or `postgresql://...` and migrates it. Raises `UserError`."""
        return cls(open_engine(url), now)

    @property
    def url(self) -> str:
        """Where it lies, password included: for `ControllerLock`, never for display."""
        return self._engine.url.render_as_string(hide_password=False)

    def age_s(self, run: Run) -> float:
        """Wall seconds since the run was requested, never below 0."""
        return max(0.0, (self._now() - run.created_at).total_seconds())

    def close(self) -> None:
        """Gives back its connections."""
        self._engine.dispose()

    # ---- runs
    def submit(self, request: RunRequest, *, again: bool = False) -> Submitted:
        """A new run; or the active one of the same key, joined (S07); or, without `again`, its finished one."""
        key, r = request.key(), tables.runs
        with self._one_writer() as db:
            if self._engine.dialect.name == "postgresql":
                db.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": MIGRATION_LOCK})
            newest = db.execute(
                select(r)
                .where(r.c.key == key)
                .order_by(r.c.created_at.desc(), func.length(r.c.id).desc(), r.c.id.desc())
            )
            same = [run_of(row) for row in newest]
            active = next((run for run in same if run.status not in RUN_FINISHED), None)
            if active is not None:
                return Submitted(run=active, joined=True, finished=False)
            if same and not again:
                return Submitted(run=same[0], joined=False, finished=True)
            return Submitted(run=self._new(db, request, key), joined=False, finished=False)

    def _new(self, db: Connection, request: RunRequest, key: str) -> Run:
        r, prefix = tables.runs, "r" + key.removeprefix("sha256:")[:8] + "-"
        taken = db.execute(select(r.c.id).where(r.c.id.startswith(prefix, autoescape=True))).scalars()
        number = max((int(run_id.removeprefix(prefix)) for run_id in taken), default=0) + 1
        at, run_id = stamp(self._now()), f"{prefix}{number}"
        new = {"id": run_id, "key": key, "request": to_json(request), "status": RunStatus.QUEUED, "reason": ""}
        db.execute(insert(r).values(**new, created_at=at, queued_at=at))
        row = db.execute(select(r).where(r.c.id == run_id)).one()
        Writer(db, row, self._now).event("submitted", {"model": request.model, "target": request.target.name})
        return run_of(row)

    def resume(
        self,
        run_id: str,
        *,
        budget_hours: float | None = None,
        deadline_s: float | None = None,
        max_attempts: int | None = None,
    ) -> Run:
        """Queues a finished run again, with what it has learnt (S12, S13); an active one only takes the new limits.

        Raises `UserError`: unknown run, a budget that is already spent, the same request active as another run.
        """
        limits = {"budget_hours": budget_hours, "deadline_s": deadline_s, "max_attempts": max_attempts}
        limits = {name: value for name, value in limits.items() if value is not None}
        with self.write(run_id) as writer:
            run = writer.run
            request = RunRequest.model_validate(run.request.model_dump() | limits)
            spent = run.spent_node_s / 3600
            if spent >= request.budget_hours:
                raise UserError(
                    f"run {run_id} has used {spent:.2f} of its {request.budget_hours:g} node-hours: "
                    "give it more with --budget-hours"
                )
            if request.deadline_s is not None and self.age_s(run) >= request.deadline_s:
                raise UserError(f"the deadline of run {run_id} has passed: give it a later one with --deadline")
            if run.status in RUN_FINISHED:
                other = writer.active()
                if other:
                    raise UserError(f"the same request is active as run {other}: follow that one")
                writer.move_run(RunStatus.QUEUED, "resumed")
            if request != run.request:
                writer.set_request(request)
            return writer.run

    def consent(self, consent: Consent) -> None:
        """Records what a person allowed or took back."""
        with self._one_writer() as db:
            if self._engine.dialect.name == "postgresql":
                db.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": MIGRATION_LOCK})
            ledger_consents.add(db, consent)

    # ---- writing
    @contextmanager
    def write(self, run_id: str) -> Iterator[Writer]:
        """One transaction that holds the run's row; all of it is kept, or, after any exception, nothing.

        Raises `UserError` (unknown run) and `Conflict` (what the rules forbid; a second transaction of this thread).
        """
        with self._one_writer() as db:
            yield Writer(db, self._run_row(db, run_id, lock=True), self._now)

    @contextmanager
    def _one_writer(self) -> Iterator[Connection]:
        """A second transaction of the same thread would wait for the first one for ever."""
        if getattr(self._thread, "writing", False):
            raise Conflict("this thread is already writing: one transaction per step")
        self._thread.writing = True
        try:
            with writing(self._engine) as db:
                yield db
        finally:
            self._thread.writing = False
