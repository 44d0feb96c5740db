"""`run`, `submit`, `resume`, `retry`, `cancel`: what the commands do."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import typer
from day0.agent import compose, limits
from day0.agent.asking import Asked, request
from day0.agent.controller import Controller
from day0.agent.live import Screen
from day0.agent.settings import Settings
from day0.agent.sources import opened
from day0.runs.errors import UserError
from day0.runs.ledger import Ledger, utc_now
from day0.runs.queue import ControllerLock, request_cancel
from day0.runs.schema import RUN_FINISHED, Run, RunStatus, Submitted

__all__ = ["Asked", "More", "cancel", "resume", "run", "submit"]

FOLLOW_S = 0.5
EXIT = {RunStatus.DONE: 0, RunStatus.NO_WINNER: 1, RunStatus.CANCELLED: 1, RunStatus.FAILED: 3}


def run(asked: Asked, *, again: bool, as_json: bool) -> int:
    """Submits and works on it here, or follows the process that does. The exit code."""
    with opened() as (settings, ledger):
        wanted = request(asked, settings)
        compose.ready(wanted.target, settings)  # an engine that is missing is said before anything is queued
        found = ledger.submit(wanted, again=again)
        from day0.agent import crashpoints

        crashpoints.reached("submitted")
        without = _without(asked, found)
        if found.finished:
            typer.echo(
                f"run {found.run.id} already answers this ({found.run.status}); --again starts a new one", err=True
            )
            return _end(ledger, found.run, as_json, without)
        if found.joined:
            typer.echo(f"the same request is active as run {found.run.id}: joined it", err=True)
        return _work(settings, ledger, found.run, as_json, without)


def submit(asked: Asked, *, again: bool, as_json: bool) -> None:
    """Queues and returns."""
    with opened() as (settings, ledger):
        found = ledger.submit(request(asked, settings), again=again)
    without = _without(asked, found)
    if as_json:
        told = {"run": found.run.id, "joined": found.joined, "finished": found.finished, "ignored": without}
        typer.echo(json.dumps(told))
    elif found.finished:
        typer.echo(f"{found.run.id} already answers this ({found.run.status}); --again starts a new one")
    else:
        typer.echo(f"{found.run.id}{' (joined)' if found.joined else ''}: `day0 resume {found.run.id}` works on it")


def _without(asked: Asked, found: Submitted) -> dict[str, dict[str, float]]:
    """The limits that were given and don't count, told on stderr: a run that was there already keeps its own."""
    if not (found.joined or found.finished):
        return {}
    until = limits.seconds_until(asked.deadline, utc_now())
    without = limits.ignored(found.run, asked.budget_hours, asked.max_attempts, until)
    if without:
        typer.echo(limits.words(found.run, without), err=True)
    return without


@dataclass(frozen=True)
class More:
    """Limits given to `resume` and `retry`; None = the run keeps its own."""

    budget_hours: float | None = None
    max_attempts: int | None = None
    deadline: str | None = None


def resume(run_id: str, more: More, *, as_json: bool, finished: bool = False) -> int:
    """Goes on with a run. `finished` (retry) is needed to search on in one that is done."""
    limits.check(more.budget_hours, more.max_attempts)
    until = limits.seconds_until(more.deadline, utc_now())
    with opened() as (settings, ledger):
        known = ledger.run(run_id)
        given = more != More()
        if finished and known.status not in RUN_FINISHED:
            works = "works on it" if known.status == RunStatus.QUEUED else "follows it, or goes on with it"
            raise UserError(f"run {run_id} is {known.status} already: `day0 resume {run_id}` {works}")
        if known.status in (RunStatus.DONE, RunStatus.NO_WINNER) and not (finished or given):
            raise UserError(f"run {run_id} is {known.status}; `day0 retry {run_id}` searches on, keeping what is done")
        if known.status in RUN_FINISHED or given:
            known = ledger.resume(
                run_id,
                budget_hours=more.budget_hours,
                max_attempts=more.max_attempts,
                deadline_s=None if until is None else until + ledger.age_s(known),
            )
        return _work(settings, ledger, known, as_json)


def cancel(run_id: str) -> None:
    """Asks a run to stop."""
    with opened() as (_, ledger):
        if request_cancel(ledger, run_id):
            typer.echo(f"{run_id}: its servers stop within seconds; `day0 resume {run_id}` continues it")
        else:
            typer.echo(f"{run_id} had ended already ({ledger.run(run_id).status})")


def _work(
    settings: Settings, ledger: Ledger, known: Run, as_json: bool, without: dict[str, dict[str, float]] | None = None
) -> int:
    """Works on the run here as soon as this process may, until then shows what the one that works tells."""
    lock = ControllerLock(settings.database)
    while not lock.acquire():
        typer.echo("another process is this database's controller: following its events", err=True)
        known = _follow(ledger, known, lock)
        if known.status in RUN_FINISHED:
            return _end(ledger, known, as_json, without)
    try:
        with Screen(ledger, known, quiet=as_json) as screen:
            known = Controller(settings, ledger, lock, screen.heard).work(known.id)
    finally:
        lock.release()
    return _end(ledger, known, as_json, without)


def _follow(ledger: Ledger, known: Run, lock: ControllerLock) -> Run:
    """Shows a run's events until it ends or its controller is gone. Ctrl-C stops following, not the run."""
    with Screen(ledger, known, quiet=False) as screen:
        after = 0
        while True:
            for event in ledger.events(known.id, after=after):
                after = event.number
                screen.event(event)
            known = ledger.run(known.id)
            if known.status in RUN_FINISHED:
                return known
            if lock.acquire():
                lock.release()
                return known
            time.sleep(FOLLOW_S)


def _end(ledger: Ledger, known: Run, as_json: bool, without: dict[str, dict[str, float]] | None = None) -> int:
    """The last word: what was found, and the recipes beside the user."""
    from day0.agent import show, showing

    files = []
    for recipe in {r.workload: r for r in ledger.recipes(known.id)}.values():
        path = Path.cwd() / f"recipe-{known.id}-{recipe.workload}.yaml"
        try:
            path.write_text(recipe.text)
        except OSError as error:
            typer.echo(f"{path} can't be written ({error.strerror}): `day0 recipe {known.id} -o FILE`", err=True)
            continue
        files.append(path)
    if as_json:
        told = show.summary(ledger, known.id) | {"recipes": [str(f) for f in files], "ignored": without or {}}
        sys.stdout.write(json.dumps(told) + "\n")
    else:
        showing.end(ledger, known.id, files)
    return EXIT.get(known.status, 3)
