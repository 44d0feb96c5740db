"""The tables. JSON lies in text columns as its canonical form; times are RFC 3339 text in UTC with `Z`.

Two kinds of rows: `runs` and `attempts` hold the present state, guarded by their legal moves; `events` is the
append-only story, facts included, numbered per run without gaps. Triggers in the migrations hold both rules in
the database itself, whoever writes.
"""

from __future__ import annotations

from sqlalchemy import Column, Float, ForeignKey, ForeignKeyConstraint, Index, Integer, MetaData, Table, Text, text

metadata = MetaData()

runs = Table(
    "runs",
    metadata,
    Column("id", Text, primary_key=True),
    Column("key", Text, nullable=False),
    Column("request", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("round", Integer, nullable=False, server_default="0"),
    Column("baseline", Text),
    Column("leader", Text),
    Column("incumbent", Text),
    Column("spent_node_s", Float, nullable=False, server_default="0"),
    Column("cancel_requested", Integer, nullable=False, server_default="0"),
    Column("created_at", Text, nullable=False),
    Column("queued_at", Text, nullable=False),
    Column("finished_at", Text),
    Index("runs_by_key", "key"),
    Index("runs_by_age", "created_at", "id"),
    # the same request is active at most once, whatever two submitting processes do
    Index(
        "runs_active_key",
        "key",
        unique=True,
        sqlite_where=text("status IN ('queued', 'running')"),
        postgresql_where=text("status IN ('queued', 'running')"),
    ),
)

attempts = Table(
    "attempts",
    metadata,
    Column("id", Text, primary_key=True),
    Column("run", Text, ForeignKey("runs.id"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("digest", Text, nullable=False),
    Column("candidate", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("epoch", Integer, nullable=False, server_default="0"),
    Column("node", Text),
    Column("parent", Text),
    Column("proposer", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("hypothesis", Text, nullable=False),
    Column("expected_gain", Float),
    Column("reason", Text, nullable=False),
    Index("attempts_by_number", "run", "number", unique=True),
    Index("attempts_by_candidate", "run", "digest", unique=True),
)

events = Table(
    "events",
    metadata,
    Column("run", Text, ForeignKey("runs.id"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("at", Text, nullable=False),
    Column("node_s", Float),
    Column("attempt", Text),
    Column("epoch", Integer),
    Column("kind", Text, nullable=False),
    Column("key", Text),
    Column("data", Text, nullable=False),
    ForeignKeyConstraint(["attempt"], ["attempts.id"]),
    Index("events_by_kind", "run", "kind", "number"),
    Index("events_by_attempt", "attempt", "kind"),
    # a side effect that is repeated after a crash finds its first copy by this key
    Index("events_by_key", "run", "key", unique=True),
)

knowledge = Table(
    "knowledge",
    metadata,
    Column("kind", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("data", Text, nullable=False),
    Column("run", Text, ForeignKey("runs.id"), nullable=False),
)

patches = Table(
    "patches",
    metadata,
    Column("run", Text, ForeignKey("runs.id"), primary_key=True),
    Column("digest", Text, primary_key=True),
    Column("number", Integer, nullable=False),
    Column("patch", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Index("patches_by_digest", "digest"),
    Index("patches_by_number", "run", "number", unique=True),
)

consents = Table(
    "consents",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("data", Text, nullable=False),
)
