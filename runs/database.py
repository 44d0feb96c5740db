"""Opens the database: SQLite in WAL mode or PostgreSQL, migrated to the newest schema.

SQLite: the driver's own transaction control is off and this module sends the BEGIN: `BEGIN IMMEDIATE` for writers,
since a transaction that reads first and takes the write lock later loses concurrent read-modify-writes.
PostgreSQL: writers lock the run's row; readers get one snapshot (REPEATABLE READ) per transaction.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from day0.runs.errors import Conflict, DiskFull, Infrastructure, UserError
from sqlalchemy import URL, Connection, Engine, create_engine, event, inspect, make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError
from sqlalchemy.pool import ConnectionPoolEntry

HEAD = "0003"
"""Revision of the newest migration; known without loading Alembic, which costs 0.3 s."""

BUSY_S = 30.0
WRITE: dict[str, Any] = {"day0_write": True}
SNAPSHOT: dict[str, Any] = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
MIGRATION_LOCK = 0x64617930  # "day0": advisory lock that serialises migrations and submissions
REMOTE = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "lustre", "fuse.sshfs", "fuse.glusterfs"}
)


def parse_url(url: str) -> URL:
    """The URL with its driver. Raises `UserError`: not a URL, another database, SQLite without a file."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        raise UserError("the database URL must look like sqlite:///FILE or postgresql://USER@HOST/NAME") from None
    backend = parsed.get_backend_name()
    if backend == "postgresql":
        return parsed.set(drivername="postgresql+psycopg")
    if backend != "sqlite":
        raise UserError(f"database `{backend}` is not supported: use sqlite:///FILE or postgresql://USER@HOST/NAME")
    if not parsed.database or parsed.database == ":memory:" or "\0" in parsed.database:
        raise UserError("the ledger needs a file: sqlite:///FILE (a run must outlive its process)")
    return parsed


def sqlite_file(url: URL) -> Path:
    """The absolute path of a SQLite URL's file."""
    return Path(str(url.database)).absolute()


def filesystem(path: Path, mounts: str) -> str:
    """Type of the file system that holds `path`, by the text of /proc/self/mountinfo; "" when unknown."""
    best, kind = -1, ""
    for line in mounts.splitlines():
        left, _, right = line.partition(" - ")
        fields, types = left.split(), right.split()
        if len(fields) < 5 or not types:
            continue
        where = fields[4].encode().decode("unicode_escape")
        if path.is_relative_to(where) and len(where) >= best:  # the later of two mounts on one place is on top
            best, kind = len(where), types[0]
    return kind


def refuse_remote(path: Path, mounts: str | None = None) -> None:
    """SQLite's locks and shared memory do not work over a network. Raises `UserError` (S09)."""
    if mounts is None:
        table = Path("/proc/self/mountinfo")
        mounts = table.read_text() if table.exists() else ""
    kind = filesystem(path.parent.resolve() / path.name, mounts)
    if kind in REMOTE:
        raise UserError(
            f"{path} lies on {kind}, where SQLite loses data: "
            "point DAY0_HOME at a local disk or DAY0_DATABASE_URL at a PostgreSQL"
        )


def open_engine(url: str) -> Engine:
    """An engine whose database has the newest schema.

    Raises `UserError` (bad URL, network file system, missing driver, a newer day0's database) and
    `Infrastructure` (no connection, damaged file).
    """
    parsed = parse_url(url)
    if parsed.get_backend_name() == "sqlite":
        engine = _sqlite(parsed)
    else:
        try:
            engine = create_engine(parsed, pool_pre_ping=True, connect_args={"connect_timeout": 10})
        except ModuleNotFoundError:
            raise UserError("PostgreSQL needs the extra: pip install 'day0[postgres]'") from None
    try:
        with translated(parsed):
            _migrate(engine)
    except BaseException:
        engine.dispose()
        raise
    return engine


def _sqlite(url: URL) -> Engine:
    path = sqlite_file(url)
    refuse_remote(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{path.parent} can't be made ({error.strerror}): set DAY0_HOME to a folder of yours") from None
    engine = create_engine(url.set(database=str(path)), connect_args={"timeout": BUSY_S})

    @event.listens_for(engine, "connect")
    def connect(raw: sqlite3.Connection, record: ConnectionPoolEntry) -> None:
        raw.isolation_level = None
        raw.execute("PRAGMA foreign_keys=ON")
        raw.execute("PRAGMA synchronous=FULL")  # the ledger is the only truth: a commit survives a power cut
        _wal(raw)
        record.info["file"] = path.stat().st_ino

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        write = connection.get_execution_options().get("day0_write", False)
        if write and connection.info["file"] != _inode(path):  # SQLite itself would go on writing into the void
            raise Infrastructure(f"the ledger {path} was deleted or replaced while it was open")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")

    return engine


def _inode(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except OSError:
        return None


def _wal(raw: sqlite3.Connection) -> None:
    """The busy handler doesn't wait for a change of the journal mode, so this does."""
    deadline = time.monotonic() + BUSY_S
    while raw.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        try:
            raw.execute("PRAGMA journal_mode=WAL").fetchone()
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def _revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    found = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return None if found is None else str(found)


def _migrate(engine: Engine) -> None:
    with engine.connect() as connection, connection.begin():
        if _revision(connection) == HEAD:
            return
    with writing(engine) as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": MIGRATION_LOCK})
        upgrade(connection, "head")


def upgrade(connection: Connection, revision: str) -> None:
    """Runs the migrations inside the connection's transaction. Raises `UserError` for a newer day0's database."""
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    try:
        command.upgrade(config, revision)
    except CommandError as error:
        raise UserError(f"this database was written by another, newer day0: upgrade day0 ({error})") from None


@contextmanager
def reading(engine: Engine) -> Iterator[Connection]:
    """A transaction that sees one snapshot."""
    options = SNAPSHOT if engine.dialect.name == "postgresql" else {}
    with translated(engine.url), engine.connect().execution_options(**options) as connection, connection.begin():
        yield connection


@contextmanager
def writing(engine: Engine) -> Iterator[Connection]:
    """A transaction that holds SQLite's write lock from its start; all of it or nothing is kept."""
    with translated(engine.url), engine.connect().execution_options(**WRITE) as connection, connection.begin():
        yield connection


@contextmanager
def translated(url: URL) -> Iterator[None]:
    """Turns the driver's errors into day0's: `DiskFull`, `Conflict`, `Infrastructure`."""
    try:
        yield
    except IntegrityError as error:
        raise Conflict(_first_line(error)) from error
    except DBAPIError as error:
        line = _first_line(error)
        place = url.render_as_string(hide_password=True)
        if "day0:" in line:  # raised by our triggers
            raise Conflict(line) from error
        if "full" in line or "No space left" in line or getattr(error.orig, "sqlstate", None) == "53100":
            raise DiskFull(f"no room left for the ledger at {place}: {line}") from error
        raise Infrastructure(f"the ledger at {place} can't be used: {line}") from error


def _first_line(error: DBAPIError) -> str:
    return str(error.orig).strip().partition("\n")[0]


Row = Any
"""A row of a Core select: attributes are its columns."""
