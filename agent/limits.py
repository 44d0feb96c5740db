"""The limits of a run, which are not part of what it is: the same request with others joins it and keeps its own."""

from __future__ import annotations

import math
import re
from datetime import datetime
from typing import Any

from day0.runs.errors import UserError
from day0.runs.schema import RUN_FINISHED, Run

LEAST_HOURS = 1 / 60
"""one node-minute: no server of any target boots and answers in less"""
SPAN = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([smhd])")
UNIT_S = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def check(budget_hours: float | None, max_attempts: int | None) -> None:
    """Raises `UserError` for limits that allow nothing; None = not given."""
    if budget_hours is not None and not (math.isfinite(budget_hours) and budget_hours > 0):
        raise UserError(f"a budget of {budget_hours:g} node-hours allows nothing: give --budget-hours above 0")
    if budget_hours is not None and budget_hours < LEAST_HOURS:
        raise UserError(
            f"a budget of {budget_hours:g} node-hours does not pay for a single boot: give --budget-hours 0.02 or more"
        )
    if max_attempts is not None and max_attempts < 1:
        raise UserError(f"--max-attempts {max_attempts} allows no candidate: give 1 or more")


def seconds_until(deadline: str | None, now: datetime) -> float | None:
    """Seconds from `now` (aware) to a deadline such as `6h`, `90m` or `2026-12-24T18:00`; None = not given.

    A moment without a zone is local time. Raises `UserError` for what is neither, or has passed.
    """
    if deadline is None:
        return None
    span = SPAN.fullmatch(deadline.strip())
    left = float(span[1]) * UNIT_S[span[2]] if span else _seconds_to_moment(deadline, now)
    if not (math.isfinite(left) and left >= LEAST_HOURS * 3600):
        raise UserError(f"deadline `{deadline}` leaves no time for a single boot: give a later one")
    return left


def _seconds_to_moment(deadline: str, now: datetime) -> float:
    try:
        moment = datetime.fromisoformat(deadline)
    except ValueError:
        raise UserError(
            f"deadline `{deadline}` is neither a time from now (`6h`, `90m`) nor a moment (`2026-12-24T18:00`)"
        ) from None
    return (moment.astimezone() - now).total_seconds()


def ignored(
    run: Run, budget_hours: float | None, max_attempts: int | None, deadline_s: float | None = None
) -> dict[str, dict[str, float]]:
    """Which limits were asked of a run that keeps others: name -> {asked, kept}."""
    kept = run.request
    both: dict[str, tuple[float | None, float]] = {
        "budget_hours": (budget_hours, kept.budget_hours),
        "max_attempts": (max_attempts, kept.max_attempts),
        "deadline_s": (deadline_s, kept.deadline_s or 0.0),
    }
    return {k: {"asked": asked, "kept": own} for k, (asked, own) in both.items() if asked is not None and asked != own}


def words(run: Run, without: dict[str, dict[str, Any]]) -> str:
    """One sentence about the limits that don't count, and the command that sets them; "" where all do."""
    if not without:
        return ""
    flags = {name: _flag(name, both["asked"]) for name, both in without.items()}
    kept = " and ".join(_told(name, both["kept"]) for name, both in without.items())
    command = "retry" if run.status in RUN_FINISHED else "resume"
    given = " ".join(flags.values())
    return f"run {run.id} keeps its own {kept}: `day0 {command} {run.id} {given}` sets what you gave"


def _flag(name: str, asked: float) -> str:
    """How a limit is given on the command line."""
    return f"--deadline {asked:.0f}s" if name == "deadline_s" else f"--{name.replace('_', '-')} {asked:g}"


def _told(name: str, kept: float) -> str:
    """A run's own limit in words; a deadline of 0 stands for none."""
    if name != "deadline_s":
        return f"{name.replace('_', ' ')} {kept:g}"
    return f"deadline ({kept / 3600:.2g} h after it was requested)" if kept else "end without a deadline"
