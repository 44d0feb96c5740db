"""The first schema: runs, attempts, events, knowledge, and the triggers that hold their rules."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

ACTIVE = sa.text("status IN ('queued', 'running')")
OVER = "('kept', 'discarded', 'refused', 'failed', 'void', 'cancelled')"
RUN_OVER = "('done', 'no_winner', 'failed', 'cancelled')"

# table, event, when it is refused, message. `IS DISTINCT FROM` is spelled so that both databases know it.
RULES = (
    ("events", "UPDATE", "1 = 1", "an event never changes"),
    ("events", "DELETE", "1 = 1", "an event is never deleted"),
    ("attempts", "DELETE", "1 = 1", "an attempt is never deleted"),
    ("attempts", "UPDATE", f"OLD.status IN {OVER}", "a finished attempt never changes"),
    (
        "attempts",
        "UPDATE",
        "NOT (OLD.id = NEW.id AND OLD.run = NEW.run AND OLD.number = NEW.number AND OLD.digest = NEW.digest"
        " AND OLD.candidate = NEW.candidate AND OLD.proposer = NEW.proposer)",
        "the candidate of an attempt never changes",
    ),
    (
        "attempts",
        "UPDATE",
        "NOT ((OLD.status = NEW.status AND OLD.epoch = NEW.epoch)"
        " OR (OLD.status = 'queued' AND NEW.status IN ('running', 'refused', 'cancelled') AND OLD.epoch = NEW.epoch)"
        f" OR (OLD.status = 'running' AND NEW.status IN {OVER} AND NEW.status <> 'refused' AND OLD.epoch = NEW.epoch)"
        " OR (OLD.status = 'running' AND NEW.status = 'queued' AND NEW.epoch = OLD.epoch + 1))",
        "an illegal move of an attempt",
    ),
    ("runs", "DELETE", "1 = 1", "a run is never deleted"),
    (
        "runs",
        "UPDATE",
        "NOT (OLD.id = NEW.id AND OLD.key = NEW.key AND OLD.created_at = NEW.created_at)",
        "the identity of a run never changes",
    ),
    ("runs", "UPDATE", f"OLD.status IN {RUN_OVER} AND NEW.status <> 'queued'", "a finished run never changes"),
    (
        "runs",
        "UPDATE",
        "NOT (OLD.status = NEW.status"
        " OR (OLD.status = 'queued' AND NEW.status IN ('running', 'cancelled'))"
        f" OR (OLD.status = 'running' AND NEW.status IN {RUN_OVER})"
        f" OR (OLD.status IN ('running', 'done', 'no_winner', 'failed', 'cancelled') AND NEW.status = 'queued'))",
        "an illegal move of a run",
    ),
)


def upgrade() -> None:
    _tables()
    postgresql = op.get_bind().dialect.name == "postgresql"
    for number, (table, verb, refused, message) in enumerate(RULES):
        name = f"{table}_{verb.lower()}_{number}"
        if postgresql:
            _function(name, table, verb, refused, message)
        else:
            op.execute(
                f"CREATE TRIGGER {name} BEFORE {verb} ON {table} WHEN {refused} "
                f"BEGIN SELECT RAISE(ABORT, 'day0: {message}'); END"
            )


def _function(name: str, table: str, verb: str, refused: str, message: str) -> None:
    op.execute(
        f"CREATE FUNCTION day0_{name}() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN RAISE EXCEPTION 'day0: {message}'; END $$"
    )
    op.execute(
        f"CREATE TRIGGER {name} BEFORE {verb} ON {table} FOR EACH ROW WHEN ({refused}) EXECUTE FUNCTION day0_{name}()"
    )


def _tables() -> None:
    op.create_table(
        "runs",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("request", sa.Text, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("round", sa.Integer, nullable=False, server_default="0"),
        sa.Column("baseline", sa.Text),
        sa.Column("leader", sa.Text),
        sa.Column("incumbent", sa.Text),
        sa.Column("spent_node_s", sa.Float, nullable=False, server_default="0"),
        sa.Column("cancel_requested", sa.Integer, nullable=False, server_default="0"),
        sa.Column("created_at", sa.Text, nullable=False),
        sa.Column("queued_at", sa.Text, nullable=False),
        sa.Column("finished_at", sa.Text),
    )
    op.create_index("runs_by_key", "runs", ["key"])
    op.create_index("runs_by_age", "runs", ["created_at", "id"])
    op.create_index("runs_active_key", "runs", ["key"], unique=True, sqlite_where=ACTIVE, postgresql_where=ACTIVE)
    op.create_table(
        "attempts",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("run", sa.Text, sa.ForeignKey("runs.id"), nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("candidate", sa.Text, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("epoch", sa.Integer, nullable=False, server_default="0"),
        sa.Column("node", sa.Text),
        sa.Column("parent", sa.Text),
        sa.Column("proposer", sa.Text, nullable=False),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("hypothesis", sa.Text, nullable=False),
        sa.Column("expected_gain", sa.Float),
        sa.Column("reason", sa.Text, nullable=False),
    )
    op.create_index("attempts_by_number", "attempts", ["run", "number"], unique=True)
    op.create_index("attempts_by_candidate", "attempts", ["run", "digest"], unique=True)
    op.create_table(
        "events",
        sa.Column("run", sa.Text, sa.ForeignKey("runs.id"), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("at", sa.Text, nullable=False),
        sa.Column("node_s", sa.Float),
        sa.Column("attempt", sa.Text, sa.ForeignKey("attempts.id")),
        sa.Column("epoch", sa.Integer),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("key", sa.Text),
        sa.Column("data", sa.Text, nullable=False),
    )
    op.create_index("events_by_kind", "events", ["run", "kind", "number"])
    op.create_index("events_by_attempt", "events", ["attempt", "kind"])
    op.create_index("events_by_key", "events", ["run", "key"], unique=True)
    op.create_table(
        "knowledge",
        sa.Column("kind", sa.Text, primary_key=True),
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("data", sa.Text, nullable=False),
        sa.Column("run", sa.Text, sa.ForeignKey("runs.id"), nullable=False),
    )
