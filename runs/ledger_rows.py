"""Rows to frozen values and back. Text from the database is data: it is validated, never executed (S10)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, TypeVar

from day0.runs.candidate import Candidate
from day0.runs.climbed import Climbed
from day0.runs.database import Row
from day0.runs.errors import Infrastructure
from day0.runs.facts import BootEnded, BootReady, BootStarted, KneeFound, PointMeasured, Verdict
from day0.runs.findings import Explained
from day0.runs.schema import Attempt, Boot, Event, Run, RunRequest
from day0.runs.values import Frozen, canonical_json
from pydantic import TypeAdapter, ValidationError

F = TypeVar("F", bound=Frozen)
S = TypeVar("S", bound=StrEnum)
_OBJECT: TypeAdapter[dict[str, Any]] = TypeAdapter(dict[str, Any])

BOOTS = ("boot_started", "boot_ready", "boot_ended")
Counted = Verdict | PointMeasured | KneeFound | Explained | BootStarted | BootEnded
CLIMBED: dict[str, type[Counted]] = {
    "verdict": Verdict,
    "point": PointMeasured,
    "knee": KneeFound,
    "explained": Explained,
    "boot_started": BootStarted,
    "boot_ended": BootEnded,
}
"""kinds of facts that make up an attempt, see `day0.runs.climbed`"""


def stamp(moment: datetime) -> str:
    """RFC 3339 in UTC with `Z`, microseconds always there: text order is time order."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def plain(value: str) -> str:
    """Text that both databases can hold: no NUL, no lone surrogates."""
    return value.encode("utf-8", "replace").decode().replace("\x00", "\ufffd")


def to_json(value: Frozen | Mapping[str, Any]) -> str:
    """Canonical JSON of a value, for a text column."""
    return plain(value.canonical() if isinstance(value, Frozen) else canonical_json(dict(value)))


def read(model: type[F], data: str, where: str) -> F:
    """Validates JSON of a column. Raises `Infrastructure` that names the damaged row."""
    try:
        return model.model_validate_json(data)
    except ValidationError as error:
        raise Infrastructure(f"the ledger is damaged at {where}: {_why(error)}") from None


def read_object(data: str, where: str) -> dict[str, Any]:
    """Like `read`, for JSON objects without a model."""
    try:
        return _OBJECT.validate_python(json.loads(data))
    except ValueError as error:
        raise Infrastructure(f"the ledger is damaged at {where}: {str(error).splitlines()[0]}") from None


def status_of(statuses: type[S], value: str, where: str) -> S:
    """A status column. Raises `Infrastructure` that names the damaged row."""
    try:
        return statuses(value)
    except ValueError:
        raise Infrastructure(f"the ledger is damaged at {where}: no such status `{value}`") from None


def _why(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    return ".".join(map(str, (*first["loc"], first["msg"])))


def _made(model: type[F], where: str, **fields: Any) -> F:
    try:
        return model(**fields)
    except ValidationError as error:
        raise Infrastructure(f"the ledger is damaged at {where}: {_why(error)}") from None


def run_of(row: Row) -> Run:
    """A row of `runs`."""
    where = f"run {row.id}"
    return _made(
        Run,
        where,
        id=row.id,
        key=row.key,
        request=read(RunRequest, row.request, where),
        status=row.status,
        reason=row.reason,
        round=row.round,
        baseline=row.baseline,
        leader=row.leader,
        incumbent=row.incumbent,
        spent_node_s=row.spent_node_s,
        created_at=row.created_at,
        finished_at=row.finished_at,
    )


def event_of(row: Row) -> Event:
    """A row of `events`."""
    where = f"event {row.number} of run {row.run}"
    return _made(
        Event,
        where,
        run=row.run,
        number=row.number,
        at=row.at,
        node_s=row.node_s,
        attempt=row.attempt,
        epoch=row.epoch,
        kind=row.kind,
        data=read_object(row.data, where),
    )


def attempts_of(rows: Iterable[Row], facts: Iterable[Row]) -> tuple[Attempt, ...]:
    """Rows of `attempts` with the rows of `events` (kinds `CLIMBED`, in order) that belong to them."""
    climbed: dict[str, Climbed] = {}
    for row in facts:
        where = f"event {row.number} of run {row.run}"
        climbed.setdefault(row.attempt, Climbed()).add(read(CLIMBED[row.kind], row.data, where))
    return tuple(_attempt(row, climbed.get(row.id, Climbed())) for row in rows)


def _attempt(row: Row, climbed: Climbed) -> Attempt:
    where = f"attempt {row.id}"
    return _made(
        Attempt,
        where,
        id=row.id,
        run=row.run,
        number=row.number,
        candidate=read(Candidate, row.candidate, where),
        status=row.status,
        epoch=row.epoch,
        node=row.node,
        parent=row.parent,
        proposer=row.proposer,
        action=row.action,
        hypothesis=row.hypothesis,
        expected_gain=row.expected_gain,
        reason=row.reason,
        **climbed.fields(),
    )


def boots_of(rows: Iterable[Row]) -> tuple[Boot, ...]:
    """Rows of `events` (kinds `BOOTS`, in order) as boots, in order of their start."""
    started: dict[tuple[str, int], dict[str, Any]] = {}
    for row in rows:
        where = f"event {row.number} of run {row.run}"
        if row.kind == "boot_started":
            start = read(BootStarted, row.data, where)
            started[row.attempt, start.boot] = {
                "attempt": row.attempt,
                "number": start.boot,
                "epoch": row.epoch,
                "argv": start.argv,
                "env": start.env,
            }
        elif row.kind == "boot_ready":
            ready = read(BootReady, row.data, where)
            _begun(started, row, ready.boot)["facts"] = ready.facts
        else:
            ended = read(BootEnded, row.data, where)
            _begun(started, row, ended.boot)["ended"] = ended
    return tuple(Boot(**boot) for boot in started.values())


def _begun(started: Mapping[tuple[str, int], dict[str, Any]], row: Row, boot: int) -> dict[str, Any]:
    try:
        return started[row.attempt, boot]
    except KeyError:
        raise Infrastructure(
            f"the ledger is damaged at event {row.number} of run {row.run}: no start of boot {boot}"
        ) from None
