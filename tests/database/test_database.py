"""The database itself: its history of schemas, and the rules that it holds whoever writes."""

import itertools

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from day0.runs import migrations, tables
from day0.runs.database import HEAD, open_engine, writing
from day0.runs.errors import Conflict, Infrastructure, UserError
from day0.runs.ledger import Ledger
from day0.runs.schema import ATTEMPT_MOVES, RUN_MOVES, AttemptStatus, RunStatus
from sqlalchemy import insert, inspect, text, update


def test_head_is_the_newest_migration():
    config = Config()
    config.set_main_option("script_location", migrations.__path__[0])
    assert ScriptDirectory.from_config(config).get_heads() == [HEAD]


def test_an_empty_database_becomes_the_present_schema(url):
    engine = open_engine(url)
    with engine.connect() as db:
        context = MigrationContext.configure(db, opts={"compare_type": True, "compare_server_default": True})
        assert compare_metadata(context, tables.metadata) == []
    engine.dispose()


def test_opening_again_changes_nothing(url, make):
    first = Ledger.open(url)
    run = first.submit(make.request()).run
    second = Ledger.open(url)
    assert second.run(run.id) == run
    first.close()
    second.close()


def test_a_newer_day0s_database_is_refused(url):
    engine = open_engine(url)
    with engine.begin() as db:
        db.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    engine.dispose()
    with pytest.raises(UserError, match="newer day0"):
        open_engine(url)


def test_a_migration_that_fails_half_way_leaves_nothing(url):
    engine = open_engine(url)
    with engine.begin() as db:
        for table in ("consents", "patches", "knowledge", "events", "attempts", "runs", "alembic_version"):
            db.execute(text(f"DROP TABLE {table}"))
        if engine.dialect.name == "postgresql":
            mine = "SELECT proname FROM pg_proc WHERE pronamespace = current_schema()::regnamespace"
            for name in db.execute(text(mine)).scalars().all():
                db.execute(text(f"DROP FUNCTION {name}"))
        db.execute(text("CREATE TABLE patches (x integer)"))  # in the way of a migration
    with pytest.raises(Infrastructure, match="patches"):
        open_engine(url)
    assert inspect(engine).get_table_names() == ["patches"]
    with engine.begin() as db:
        db.execute(text("DROP TABLE patches"))
    open_engine(url).dispose()
    assert inspect(engine).has_table("runs")
    engine.dispose()


def test_sqlite_is_set_up_for_concurrent_writers(tmp_path):
    engine = open_engine(f"sqlite:///{tmp_path}/ledger.db")
    with engine.connect() as db:
        found = {name: db.execute(text(f"PRAGMA {name}")).scalar() for name in ("journal_mode", "foreign_keys")}
        found["busy_timeout"] = db.execute(text("PRAGMA busy_timeout")).scalar()
        found["synchronous"] = db.execute(text("PRAGMA synchronous")).scalar()
    assert found == {"journal_mode": "wal", "foreign_keys": 1, "busy_timeout": 30000, "synchronous": 2}
    engine.dispose()


def test_a_sqlite_file_that_was_deleted_takes_no_more_writes(make, tmp_path):
    ledger = Ledger.open(f"sqlite:///{tmp_path}/ledger.db")
    run = ledger.submit(make.request()).run.id
    (tmp_path / "ledger.db").rename(tmp_path / "moved.db")
    with pytest.raises(Infrastructure, match="deleted or replaced"), ledger.write(run) as writer:
        writer.spend(1)
    ledger.close()


@pytest.fixture
def row(ledger, make):
    """A run with one queued attempt, straight in the tables."""
    run = ledger.submit(make.request()).run.id
    with ledger.write(run) as writer:
        attempt = writer.add_attempt(candidate=make.candidate(), proposer="baseline").id
    return run, attempt


TAMPERED = [
    "UPDATE events SET data = '{}'",
    "UPDATE events SET number = number + 100",
    "DELETE FROM events",
    "DELETE FROM attempts",
    "DELETE FROM runs",
    "UPDATE attempts SET candidate = '{}'",
    "UPDATE attempts SET digest = 'x'",
    "UPDATE attempts SET epoch = epoch + 1",
    "UPDATE attempts SET status = 'kept'",
    "UPDATE runs SET key = 'x'",
    "UPDATE runs SET created_at = 'x'",
    "UPDATE runs SET status = 'done'",
    "INSERT INTO events (run, number, at, kind, data) VALUES ('nobody', 1, '', 'x', '{}')",
    "INSERT INTO attempts (id, run, number, digest, candidate, status, proposer, action, hypothesis, reason)"
    " SELECT 'a', 'nobody', 9, 'x', candidate, status, proposer, action, hypothesis, reason FROM attempts",
]


def test_the_database_refuses_what_the_rules_forbid(ledger, row):
    for statement in TAMPERED:
        with pytest.raises(Conflict), writing(ledger.engine) as db:
            db.execute(text(statement))
            pytest.fail(f"taken: {statement}")


def put(ledger, table, key, status):
    """A copy of a row in any status, by insertion: triggers guard changes."""
    with writing(ledger.engine) as db:
        values = dict(db.execute(table.select()).mappings().first()) | {"status": status, "id": key}
        values |= {"key": key} if table is tables.runs else {"digest": key, "number": int(key)}
        db.execute(insert(table).values(**values))


@pytest.mark.parametrize(
    ("table", "moves", "statuses"),
    [(tables.attempts, ATTEMPT_MOVES, AttemptStatus), (tables.runs, RUN_MOVES, RunStatus)],
    ids=["attempts", "runs"],
)
def test_the_triggers_know_the_same_moves_as_the_code(ledger, row, table, moves, statuses):
    for number, (old, new) in enumerate(itertools.product(statuses, statuses), start=100):
        put(ledger, table, str(number), old)
        change = {"status": new, "reason": "moved"}
        if table is tables.attempts and (old, new) == (AttemptStatus.RUNNING, AttemptStatus.QUEUED):
            change["epoch"] = 1
        legal = new in moves.get(old, ()) or (old == new and old in {"queued", "running"})
        try:
            with writing(ledger.engine) as db:
                db.execute(update(table).where(table.c.id == str(number)).values(**change))
        except Conflict:
            assert not legal, (old, new)
        else:
            assert legal, (old, new)


def test_the_code_refuses_the_moves_that_the_database_refuses(ledger, make):
    run = ledger.submit(make.request()).run.id
    for number, (old, new) in enumerate(itertools.product(AttemptStatus, AttemptStatus)):
        if new in ATTEMPT_MOVES.get(old, ()) or old == AttemptStatus.QUEUED:
            continue
        with ledger.write(run) as writer:
            attempt = writer.add_attempt(candidate=make.candidate(number), proposer="baseline").id
            if old == AttemptStatus.REFUSED:
                writer.refuse_attempt(attempt, "no")
            else:
                writer.start_attempt(attempt, "n")
            if old not in {AttemptStatus.REFUSED, AttemptStatus.RUNNING}:
                writer.finish_attempt(attempt, 0, old, "so it is")
        with pytest.raises(Conflict), ledger.write(run) as writer:
            to(writer, attempt, new)


def to(writer, attempt, status):
    if status == AttemptStatus.RUNNING:
        writer.start_attempt(attempt, "n")
    elif status == AttemptStatus.QUEUED:
        writer.interrupt(attempt)
    elif status == AttemptStatus.REFUSED:
        writer.refuse_attempt(attempt, "another reason")
    else:
        writer.finish_attempt(attempt, 0, status, "another reason")


def test_a_run_goes_only_where_it_may(ledger, make):
    for number, (old, new) in enumerate(itertools.product(RunStatus, RunStatus)):
        run = ledger.submit(make.request(seed=number)).run.id
        with ledger.write(run) as writer:
            if old != RunStatus.QUEUED:
                writer.move_run(RunStatus.RUNNING)
            writer.move_run(old)
        if new in RUN_MOVES[old] or new == old:
            with ledger.write(run) as writer:
                writer.move_run(new)
            assert ledger.run(run).status == new
        else:
            with pytest.raises(Conflict, match="can't go"), ledger.write(run) as writer:
                writer.move_run(new)
