"""Where the graph's checkpoints lie: beside the ledger, whose word is the only truth."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from day0.agent.settings import Settings
from day0.runs.errors import Infrastructure, UserError

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver

CHECKPOINT_SCHEMA = "day0_checkpoints"


@contextmanager
def saver(settings: Settings) -> Iterator[BaseCheckpointSaver[str]]:
    """Where the graph's checkpoints lie: a file of their own beside the ledger's, or a schema of its PostgreSQL."""
    if settings.database.startswith("postgresql"):
        with _postgres_saver("postgresql://" + settings.database.partition("://")[2]) as store:
            yield store
        return
    import sqlite3

    from langgraph.checkpoint.sqlite import SqliteSaver

    ledger_file = Path(settings.database.partition("///")[2])
    file = ledger_file.with_name(ledger_file.name + ".checkpoints")
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        with SqliteSaver.from_conn_string(str(file)) as store:
            yield store
    except sqlite3.Error as error:
        raise Infrastructure(
            f"the checkpoints can't be used ({error}); delete {file} and resume: the ledger has all"
        ) from error


@contextmanager
def _postgres_saver(url: str) -> Iterator[BaseCheckpointSaver[str]]:
    """Checkpoints in a schema of their own beside the ledger's tables."""
    try:
        import psycopg
        from langgraph.checkpoint.postgres import PostgresSaver
    except ModuleNotFoundError:
        raise UserError("PostgreSQL needs the extra: pip install 'day0[postgres]'") from None
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {CHECKPOINT_SCHEMA}")
    own = f"{url}{'&' if '?' in url else '?'}options=-csearch_path%3D{CHECKPOINT_SCHEMA}"
    with PostgresSaver.from_conn_string(own) as store:
        store.setup()
        yield store
