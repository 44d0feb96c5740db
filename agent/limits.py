"""The limits of a run, which are not part of what it is: the same request with others joins it and keeps its own."""

from __future__ import annotations

import math
from typing import Any

from day0.runs.errors import UserError
from day0.runs.schema import RUN_FINISHED, Run

LEAST_HOURS = 1 / 60
"""one node-minute: no server of any target boots and answers in less"""


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


def ignored(run: Run, budget_hours: float | None, max_attempts: int | None) -> dict[str, dict[str, float]]:
    """Which limits were asked of a run that keeps others: name -> {asked, kept}."""
    kept = run.request
    both: dict[str, tuple[float | None, float]] = {
        "budget_hours": (budget_hours, kept.budget_hours),
        "max_attempts": (max_attempts, kept.max_attempts),
    }
    return {k: {"asked": asked, "kept": own} for k, (asked, own) in both.items() if asked is not None and asked != own}


def words(run: Run, without: dict[str, dict[str, Any]]) -> str:
    """One sentence about the limits that don't count, and the command that sets them; "" where all do."""
    if not without:
        return ""
    flags = {name: f"--{name.replace('_', '-')} {both['asked']:g}" for name, both in without.items()}
    kept = " and ".join(f"{name.replace('_', ' ')} {both['kept']:g}" for name, both in without.items())
    command = "retry" if run.status in RUN_FINISHED else "resume"
    given = " ".join(flags.values())
    return f"run {run.id} keeps its own {kept}: `day0 {command} {run.id} {given}` sets what you gave"
