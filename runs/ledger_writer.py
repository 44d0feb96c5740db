"""One write transaction of a run: every change appends its event, all of it or nothing is kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from day0.runs import tables
from day0.runs.candidate import Candidate
from day0.runs.database import Row
from day0.runs.errors import Conflict
from day0.runs.facts import BootEnded, BootReady, Fact
from day0.runs.ledger_facts import admissible, key_of, key_of_boot
from day0.runs.ledger_patches import Reviewing
from day0.runs.ledger_rows import BOOTS, attempts_of, boots_of, plain, run_of, stamp, status_of, to_json
from day0.runs.schema import (
    ATTEMPT_MOVES,
    FINISHED,
    RUN_FINISHED,
    RUN_MOVES,
    Attempt,
    AttemptStatus,
    Run,
    RunRequest,
    RunStatus,
)
from sqlalchemy import Connection, func, insert, select, update


class Writer(Reviewing):
    """Changes one run inside one transaction that holds the run's row. Made by `Ledger.write`.

    Every method is safe to repeat after a crash: what is there already with the same content is left as it is.
    Raises `Conflict` for an illegal move, a changed finished row, a second, different verdict.
    """

    def __init__(self, connection: Connection, row: Row, now: Callable[[], datetime]) -> None:
        super().__init__(connection, str(row.id), now)
        self._status = status_of(RunStatus, row.status, f"run {row.id}")

    @property
    def run(self) -> Run:
        """The run as this transaction sees it."""
        return run_of(self._db.execute(select(tables.runs).where(tables.runs.c.id == self._id)).one())

    # ---- the run
    def move_run(self, to: RunStatus, reason: str = "") -> None:
        """To another status; to the present one: nothing."""
        to = RunStatus(to)
        if to == self._status:
            return
        if to not in RUN_MOVES.get(self._status, frozenset()):
            raise Conflict(f"run {self._id} can't go from {self._status} to {to}")
        at = stamp(self._now())
        change: dict[str, Any] = {"status": to, "reason": plain(reason)}
        if to == RunStatus.QUEUED:
            change |= {"queued_at": at, "finished_at": None, "cancel_requested": 0}
        elif to in RUN_FINISHED:
            change["finished_at"] = at
        self._set(change)
        self.event("run_moved", {"from": self._status, "to": to, "reason": reason})
        self._status = to

    def set_round(self, number: int) -> None:
        """The round that the next step of the loop works on."""
        self._set({"round": number})
        self.event("round", {"round": number})

    def set_baseline(self, attempt_id: str) -> None:
        """The attempt with the engine's defaults."""
        self._point("baseline", attempt_id)

    def set_leader(self, attempt_id: str) -> None:
        """The best kept attempt so far."""
        self._point("leader", attempt_id)

    def set_incumbent(self, attempt_id: str) -> None:
        """The best confirmed attempt so far."""
        self._point("incumbent", attempt_id)

    def spend(self, node_s: float) -> None:
        """Adds node seconds to what the run has used of its budget."""
        if node_s < 0:
            raise Conflict("node time is never given back")
        self._set({"spent_node_s": tables.runs.c.spent_node_s + node_s})
        self.event("spent", {"node_s": node_s})

    def set_request(self, request: RunRequest) -> None:
        """Takes new limits (budget, deadline). Raises `Conflict` when it would be another run."""
        if request.key() != self.run.key:
            raise Conflict(f"run {self._id} can't become another request")
        self._set({"request": to_json(request)})
        self.event("limits", {"budget_hours": request.budget_hours, "deadline_s": request.deadline_s})

    def request_cancel(self) -> bool:
        """A queued run is cancelled at once, a running one by its controller. False: it had ended already."""
        if self._status in RUN_FINISHED:
            return False
        if not self._db.execute(select(tables.runs.c.cancel_requested).where(tables.runs.c.id == self._id)).scalar():
            self._set({"cancel_requested": 1})
            self.event("cancel_requested", {})
        if self._status == RunStatus.QUEUED:
            self.move_run(RunStatus.CANCELLED, "cancelled before it started")
        return True

    def active(self) -> str | None:
        """The ID of the queued or running run with this run's key."""
        r = tables.runs
        mine = select(r.c.key).where(r.c.id == self._id).scalar_subquery()
        active = r.c.status.in_((RunStatus.QUEUED, RunStatus.RUNNING))
        return self._db.execute(select(r.c.id).where(r.c.key == mine, active)).scalar()

    def _point(self, column: str, attempt_id: str) -> None:
        self._attempt(attempt_id)
        self._set({column: attempt_id})
        self.event(column, {"attempt": attempt_id}, attempt=attempt_id)

    def _set(self, change: Mapping[str, Any]) -> None:
        self._db.execute(update(tables.runs).where(tables.runs.c.id == self._id).values(**change))

    # ---- attempts
    def add_attempt(
        self,
        *,
        candidate: Candidate,
        proposer: str,
        parent: str | None = None,
        action: str = "",
        hypothesis: str = "",
        expected_gain: float | None = None,
    ) -> Attempt:
        """Queues a candidate. The same candidate again returns its first attempt, unchanged."""
        a, digest = tables.attempts, candidate.digest()
        earlier = self._db.execute(select(a).where(a.c.run == self._id, a.c.digest == digest)).one_or_none()
        if earlier is not None:
            return attempts_of([earlier], [])[0]
        number = (self._db.execute(select(func.max(a.c.number)).where(a.c.run == self._id)).scalar() or 0) + 1
        row = {
            "id": f"{self._id}.{number}",
            "run": self._id,
            "number": number,
            "digest": digest,
            "candidate": to_json(candidate),
            "status": AttemptStatus.QUEUED,
            "parent": parent,
            "proposer": plain(proposer),
            "action": plain(action),
            "hypothesis": plain(hypothesis),
            "expected_gain": expected_gain,
            "reason": "",
        }
        self._db.execute(insert(a).values(**row))
        told = {key: row[key] for key in ("number", "digest", "parent", "proposer", "action", "hypothesis")}
        self.event("attempt_added", told, attempt=str(row["id"]))
        return attempts_of([self._attempt(str(row["id"]))], [])[0]

    def start_attempt(self, attempt_id: str, node: str) -> int:
        """Queued to running on a node; returns the epoch that its facts must carry."""
        row = self._move(attempt_id, AttemptStatus.RUNNING, {"node": node})
        self.event("attempt_started", {"node": node}, attempt=attempt_id, epoch=row.epoch)
        return int(row.epoch)

    def interrupt(self, attempt_id: str, reason: str = "interrupted") -> int:
        """Running back to queued; returns the new epoch. Boots left open are ended as lost, verdicts stand."""
        for boot in self._boots(attempt_id):
            if boot.ended is None:
                self.record(attempt_id, boot.epoch, BootEnded(boot=boot.number, reason="lost", node_s=0.0))
        epoch = int(self._attempt(attempt_id).epoch) + 1
        self._move(attempt_id, AttemptStatus.QUEUED, {"epoch": epoch, "node": None})
        self.event("attempt_interrupted", {"reason": reason}, attempt=attempt_id, epoch=epoch)
        return epoch

    def finish_attempt(self, attempt_id: str, epoch: int, status: AttemptStatus, reason: str) -> bool:
        """Ends an attempt. False: the epoch is old, nothing was written. Repeated with the same end: nothing."""
        row, status = self._attempt(attempt_id), AttemptStatus(status)
        if status not in FINISHED:
            raise Conflict(f"{status} is no end of an attempt")
        if epoch != row.epoch:
            return self._drop(row, epoch, f"finished as {status}")
        if row.status == status and row.reason == plain(reason):
            return True
        self._move(attempt_id, status, {"reason": plain(reason)})
        self.event("attempt_finished", {"status": status, "reason": reason}, attempt=attempt_id, epoch=epoch)
        return True

    def refuse_attempt(self, attempt_id: str, reason: str) -> None:
        """Not admitted: costs nothing."""
        row = self._attempt(attempt_id)
        if row.status == AttemptStatus.REFUSED and row.reason == plain(reason):
            return
        self._move(attempt_id, AttemptStatus.REFUSED, {"reason": plain(reason)})
        self.event("attempt_refused", {"reason": reason}, attempt=attempt_id)

    def _attempt(self, attempt_id: str) -> Row:
        a = tables.attempts
        row = self._db.execute(select(a).where(a.c.id == attempt_id, a.c.run == self._id)).one_or_none()
        if row is None:
            raise Conflict(f"run {self._id} has no attempt {attempt_id}")
        return row

    @staticmethod
    def _state(row: Row) -> AttemptStatus:
        return status_of(AttemptStatus, row.status, f"attempt {row.id}")

    def _move(self, attempt_id: str, to: AttemptStatus, change: Mapping[str, Any]) -> Row:
        row = self._attempt(attempt_id)
        if to not in ATTEMPT_MOVES.get(self._state(row), frozenset()):
            raise Conflict(f"attempt {attempt_id} can't go from {row.status} to {to}")
        a = tables.attempts
        self._db.execute(update(a).where(a.c.id == attempt_id).values(status=to, **change))
        return row

    def _boots(self, attempt_id: str) -> tuple[Any, ...]:
        e = tables.events
        rows = self._db.execute(select(e).where(e.c.attempt == attempt_id, e.c.kind.in_(BOOTS)).order_by(e.c.number))
        return boots_of(rows)

    # ---- facts
    def record(self, attempt_id: str, epoch: int, fact: Fact, *, node_s: float | None = None) -> bool:
        """Appends a fact of a climb. False: its epoch is old, it was dropped and counted (S04)."""
        row = self._attempt(attempt_id)
        if epoch < row.epoch:
            return self._drop(row, epoch, fact.kind)
        if epoch > row.epoch:
            raise Conflict(f"attempt {attempt_id} has no epoch {epoch}: it is in {row.epoch}")
        key = key_of(attempt_id, fact)
        if key is not None and self._stands(key, fact):
            return True
        refused = admissible(self._state(row), fact)
        if refused:
            raise Conflict(f"attempt {attempt_id}: {refused}")
        if isinstance(fact, (BootReady, BootEnded)) and not self._has(key_of_boot(attempt_id, fact.boot)):
            raise Conflict(f"attempt {attempt_id}: boot {fact.boot} was never started")
        self._append(fact.kind, fact, attempt=attempt_id, epoch=epoch, node_s=node_s, key=key)
        return True

    def _drop(self, row: Row, epoch: int, what: str) -> bool:
        self.event("fact_dropped", {"fact": what, "current": row.epoch}, attempt=row.id, epoch=epoch)
        return False
