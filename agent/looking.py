"""`queue`, `log`, `report`, `recipe`, `diagnose`: for people and programs."""

from __future__ import annotations

import sys
from pathlib import Path

from day0.agent import show as show_
from day0.agent import story
from day0.agent.inputs import SERVER_LOG
from day0.agent.policy.untrusted import clean, line
from day0.agent.printing import SIMULATED, say, say_json, table
from day0.agent.sources import opened
from day0.runs.errors import UserError

__all__ = ["diagnose", "log", "queue", "recipe", "report", "say", "say_json", "table"]


def queue(limit: int, *, as_json: bool) -> None:
    """Runs, newest first."""
    with opened() as (_, ledger):
        rows = [show_.run_row(run) for run in ledger.runs(limit=limit)]
    if as_json:
        say_json(rows)
        return
    table(
        "",
        ("run", "status", "model", "target", "node-h", "reason"),
        (
            (
                r["run"],
                r["status"],
                r["model"],
                r["target"] + SIMULATED * r["simulated"],
                f"{r['spent_node_s'] / 3600:.2f}",
                r["reason"],
            )
            for r in rows
        ),
    )


def log(attempt_id: str, artifact: str | None) -> None:
    """A kept artifact, the last boot's server log by default; terminal escapes stripped."""
    with opened() as (settings, ledger):
        ledger.attempt(attempt_id)
        kept = ledger.facts(attempt_id.rpartition(".")[0], "artifact", attempt=attempt_id)
        names = sorted({str(e.data["name"]) for e in kept})
        if artifact == "list":
            say("\n".join(names))
            return
        stored = story.artifact(ledger, attempt_id, artifact or SERVER_LOG)
        if stored is None:
            there = f"there are: {', '.join(names)}" if names else "nothing of it was kept"
            raise UserError(f"attempt {attempt_id} has no artifact {artifact or SERVER_LOG}; {there}")
        from day0.agent.compose import artifacts as store

        say(clean(store(settings).get(stored).decode(errors="replace")))


def report(run_id: str, output: Path) -> None:
    """A run as one HTML page, and its pictures as PNG files beside it."""
    from day0.agent import report as page

    with opened() as (_, ledger):
        files, why = page.write(ledger, run_id, output)
    say(f"{files[0]}: open it in a browser")
    for file in files[1:]:
        say(str(file))
    if why:
        say(why)


def recipe(run_id: str, workload: str | None, output: Path | None) -> None:
    """A run's recipe, printed or written."""
    with opened() as (_, ledger):
        found = {r.workload: r for r in ledger.recipes(ledger.run(run_id).id)}
    if not found:
        raise UserError(f"run {run_id} has no recipe (yet): `day0 show {run_id}` says where it stands")
    if workload is None and len(found) > 1:
        raise UserError(f"run {run_id} has recipes for {', '.join(sorted(found))}: choose one with --workload")
    chosen = found.get(workload) if workload else next(iter(found.values()))
    if chosen is None:
        raise UserError(f"run {run_id} has no recipe for `{workload}`: there is {', '.join(sorted(found))}")
    if output is None:
        sys.stdout.write(chosen.text)
        return
    try:
        output.write_text(chosen.text)
    except OSError as error:
        raise UserError(f"{output} can't be written: {error.strerror}") from None


def diagnose(logfile: Path, *, as_json: bool) -> None:
    """Why a server failed, from its log."""
    from day0.agent.explaining import diagnosed
    from day0.agent.settings import load
    from day0.runs.learned import read_file
    from day0.tools.learned import issues_of

    found = diagnosed(logfile, issues_of(read_file(load().database)))
    if as_json:
        say_json(found)
        return
    for key, value in found.items():
        for item in value if isinstance(value, list) else [value]:
            if item not in ("", None):
                say(f"{key + ':':12} {line(str(item), 400)}")
