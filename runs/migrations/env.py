"""Alembic's entry: migrates on the connection it is handed, inside that connection's transaction."""

from __future__ import annotations

from alembic import context
from day0.runs.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=True,
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
