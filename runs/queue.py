"""Who may work on what: one controller per database, runs in order of their waiting, cancelling across processes."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path
from typing import IO, Protocol

from day0.runs import tables
from day0.runs.database import parse_url, reading, refuse_remote, sqlite_file, translated
from day0.runs.errors import Infrastructure, LostLease
from day0.runs.ledger import Ledger
from day0.runs.ledger_rows import run_of
from day0.runs.schema import Run, RunStatus
from sqlalchemy import URL, Connection, create_engine, select, text
from sqlalchemy.pool import NullPool

CONTROLLER_LOCK = 0x64617931
POLL_S = 0.1


class _Held(Protocol):
    def try_acquire(self) -> bool: ...
    def check(self) -> None: ...
    def release(self) -> None: ...


class ControllerLock:
    """The right to be the only controller of a database; the system frees it when this process dies.

    SQLite: `flock` on a file beside the database. PostgreSQL: an advisory lock on a connection of its own.
    Raises `UserError` for a database on a network file system (S09).
    """

    def __init__(self, url: str) -> None:
        parsed = parse_url(url)
        self._lock: _Held = _FileLock(sqlite_file(parsed)) if _is_sqlite(parsed) else _AdvisoryLock(parsed)
        self.held = False

    def acquire(self, wait_s: float = 0) -> bool:
        """Tries for `wait_s` wall seconds; False: another controller has it."""
        deadline = time.monotonic() + wait_s
        while not self.held and not self._lock.try_acquire():
            if time.monotonic() >= deadline:
                return False
            time.sleep(POLL_S)
        self.held = True
        return True

    def check(self) -> None:
        """To be called at every heartbeat. Raises `LostLease`: stop the servers, write nothing, exit."""
        if not self.held:
            raise LostLease("this process is not the controller of its database")
        try:
            self._lock.check()
        except LostLease:
            self.held = False
            raise

    def release(self) -> None:
        """Gives it back; twice is harmless."""
        self._lock.release()
        self.held = False


def _is_sqlite(url: URL) -> bool:
    return url.get_backend_name() == "sqlite"


class _FileLock:
    def __init__(self, database: Path) -> None:
        refuse_remote(database)
        self._path = database.with_name(database.name + ".controller")
        self._file: IO[str] | None = None

    def try_acquire(self) -> bool:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            file = self._path.open("a+")
        except OSError as error:
            raise Infrastructure(f"{self._path} can't be opened: {error.strerror}") from None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return False
        except OSError as error:
            file.close()
            raise Infrastructure(f"{self._path} can't be locked: {error.strerror}") from None
        self._file = file
        if not self._same():  # somebody deleted the file between open and lock: the lock guards nothing
            self.release()
            return False
        return True

    def _same(self) -> bool:
        try:
            there = self._path.stat()
        except OSError:
            return False
        mine = os.fstat(self._file.fileno()) if self._file else None
        return mine is not None and (mine.st_dev, mine.st_ino) == (there.st_dev, there.st_ino)

    def check(self) -> None:
        if not self._same():
            raise LostLease(f"{self._path} was replaced: another controller may have started")

    def release(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


class _AdvisoryLock:
    def __init__(self, url: URL) -> None:
        self._url = url
        self._engine = create_engine(url, poolclass=NullPool, connect_args={"connect_timeout": 10})
        self._db: Connection | None = None

    def try_acquire(self) -> bool:
        with translated(self._url):
            db = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
            if db.execute(text("SELECT pg_try_advisory_lock(:lock)"), {"lock": CONTROLLER_LOCK}).scalar():
                self._db = db
                return True
            db.close()
            return False

    def check(self) -> None:
        mine = text(
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = :lock AND pid = pg_backend_pid()"
            " AND granted"
        )
        try:
            with translated(self._url):
                held = self._db is not None and self._db.execute(mine, {"lock": CONTROLLER_LOCK}).scalar()
        except Infrastructure as error:
            raise LostLease(f"the connection that holds the controller lock is gone: {error}") from None
        if not held:
            raise LostLease("the database no longer holds the controller lock for this process")

    def release(self) -> None:
        if self._db is not None:
            self._db.invalidate()  # closes the session itself, and with it the lock, even when it is broken
            self._db.close()
            self._db = None


def next_run(ledger: Ledger) -> Run | None:
    """The run to work on: one whose controller died comes first, then the longest queued."""
    r = tables.runs
    active = r.c.status.in_((RunStatus.RUNNING, RunStatus.QUEUED))
    query = select(r).where(active).order_by(r.c.status.desc(), r.c.queued_at, r.c.created_at, r.c.id).limit(1)
    with reading(ledger.engine) as db:
        row = db.execute(query).one_or_none()
    return None if row is None else run_of(row)


def request_cancel(ledger: Ledger, run_id: str) -> bool:
    """Asks a run to stop; a queued one is cancelled at once. False: it had ended already. Raises `UserError`."""
    with ledger.write(run_id) as writer:
        return writer.request_cancel()


def cancel_requested(ledger: Ledger, run_id: str) -> bool:
    """Whether somebody asked to stop this run: one indexed read, cheap enough for each second."""
    r = tables.runs
    with reading(ledger.engine) as db:
        return bool(db.execute(select(r.c.cancel_requested).where(r.c.id == run_id)).scalar())
