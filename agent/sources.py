"""Settings and ledger of one command."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from day0.agent import settings as settings_
from day0.agent.settings import Settings
from day0.runs.ledger import Ledger


@contextmanager
def opened() -> Iterator[tuple[Settings, Ledger]]:
    """Settings and ledger, closed afterwards."""
    settings = settings_.load()
    ledger = Ledger.open(settings.database)
    try:
        yield settings, ledger
    finally:
        ledger.close()
