"""Consents of people to code of checkpoints: a row is never changed and never removed; what counts is the last word."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.create_table(
        "consents",
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("data", sa.Text, nullable=False),
    )
    message = "day0: a consent is never changed: another word is added"
    for verb in ("UPDATE", "DELETE"):
        name = f"consents_{verb.lower()}"
        if op.get_bind().dialect.name != "postgresql":
            op.execute(f"CREATE TRIGGER {name} BEFORE {verb} ON consents BEGIN SELECT RAISE(ABORT, '{message}'); END")
            continue
        op.execute(
            f"CREATE FUNCTION day0_{name}() RETURNS trigger LANGUAGE plpgsql AS "
            f"$$ BEGIN RAISE EXCEPTION '{message}'; END $$"
        )
        op.execute(f"CREATE TRIGGER {name} BEFORE {verb} ON consents FOR EACH ROW EXECUTE FUNCTION day0_{name}()")
