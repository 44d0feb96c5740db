"""What runs learned of failures that no known issue covers: how it shows, on which build, and what leads around it."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

from day0.runs.values import Frozen, Map, sha256
from day0.runs.workload import FlagValue
from pydantic import Field, ValidationError

KIND = "learned"


class Learned(Frozen):
    """One failure and one way around it, seen on one engine build. It says nothing of another build.

    `signature` is a regular expression over the evidence line; `flags` and `env` are the remedy, set on top of a
    candidate that fails so. `mended`: an attempt had the remedy and worked; else it only undoes what brought it.
    """

    failure: str = Field(description="failure class")
    signature: str
    example: str = Field(description="the evidence line; untrusted text")
    build: str
    packages: Map[str] = Field(default_factory=dict, description="versions of the build's packages that decide")
    flags: Map[FlagValue | None] = Field(default_factory=dict)
    env: Map[str | None] = Field(default_factory=dict)
    mended: bool = False
    run: str = ""
    attempt: str = ""

    @property
    def id(self) -> str:
        """The issue's name: the same failure on the same build has one."""
        return f"learned-{sha256(f'{self.failure} {self.signature} {self.build}')[7:17]}"

    @property
    def key(self) -> str:
        """Where it stands among all: an issue may have several remedies."""
        remedy = sha256(json.dumps([dict(self.flags), dict(self.env)], sort_keys=True))[7:15]
        return f"{self.id}-{'mended' if self.mended else 'undone'}-{remedy}"


def read_file(database: str) -> tuple[Learned, ...]:
    """What a ledger in an SQLite file holds, without opening it as a ledger: nothing is made, migrated or locked.

    Empty for another kind of database, and where there is none, or none that can be read.
    """
    file = Path(database.partition(":///")[2])
    if not database.startswith("sqlite:///") or not file.is_file():
        return ()
    found = []
    with suppress(sqlite3.Error), closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as db:
        for (data,) in db.execute("SELECT data FROM knowledge WHERE kind = ? ORDER BY key", (KIND,)):
            with suppress(ValidationError):
                found.append(Learned.model_validate_json(data))
    return tuple(found)
