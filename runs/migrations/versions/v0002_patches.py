"""Patches that wait for a person's review: content never changes, a review is final."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

# event, when it is refused, message
RULES = (
    ("DELETE", "1 = 1", "a patch is never deleted"),
    ("INSERT", "NEW.status <> 'waiting'", "a patch begins by waiting for its review"),
    (
        "UPDATE",
        "NOT (OLD.run = NEW.run AND OLD.digest = NEW.digest AND OLD.number = NEW.number AND OLD.patch = NEW.patch)",
        "the content of a patch never changes",
    ),
    ("UPDATE", "OLD.status <> 'waiting'", "a review is final"),
    ("UPDATE", "NEW.status NOT IN ('waiting', 'approved', 'rejected')", "an unknown outcome of a review"),
)


def upgrade() -> None:
    op.create_table(
        "patches",
        sa.Column("run", sa.Text, sa.ForeignKey("runs.id"), primary_key=True),
        sa.Column("digest", sa.Text, primary_key=True),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("patch", sa.Text, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
    )
    op.create_index("patches_by_digest", "patches", ["digest"])
    op.create_index("patches_by_number", "patches", ["run", "number"], unique=True)
    postgresql = op.get_bind().dialect.name == "postgresql"
    for number, (verb, refused, message) in enumerate(RULES):
        name = f"patches_{verb.lower()}_{number}"
        if postgresql:
            _function(name, verb, refused, message)
        else:
            op.execute(
                f"CREATE TRIGGER {name} BEFORE {verb} ON patches WHEN {refused} "
                f"BEGIN SELECT RAISE(ABORT, 'day0: {message}'); END"
            )


def _function(name: str, verb: str, refused: str, message: str) -> None:
    op.execute(
        f"CREATE FUNCTION day0_{name}() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN RAISE EXCEPTION 'day0: {message}'; END $$"
    )
    op.execute(
        f"CREATE TRIGGER {name} BEFORE {verb} ON patches FOR EACH ROW WHEN ({refused}) EXECUTE FUNCTION day0_{name}()"
    )
