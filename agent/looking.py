"""`queue`, `show`, `attempts`, `log`, `compare`, `report`, `recipe`, `diagnose`: for people and programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from day0.agent import show as show_
from day0.agent import story
from day0.agent.inputs import SERVER_LOG
from day0.agent.policy.untrusted import clean, line
from day0.agent.show import summary
from day0.agent.sources import opened
from day0.runs.errors import UserError
from day0.runs.ledger import Ledger

__all__ = ["attempts", "compare", "diagnose", "end", "log", "queue", "recipe", "report", "show", "summary"]

LOG_BYTES = 1 << 20
SIMULATED = " (simulated)"
"""stands wherever a figure of the twin is shown"""


def say(text: str = "") -> None:
    """A line of output."""
    sys.stdout.write(text + "\n")


def say_json(value: object) -> None:
    """JSON, indented, keys as they are made."""
    say(json.dumps(value, indent=2, ensure_ascii=False))


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A table as wide as the terminal; cells are text, never markup."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    made = Table(title=title, title_justify="left", expand=False)
    for column in columns:
        made.add_column(column, overflow="fold")
    for row in rows:
        made.add_row(*(Text("" if cell is None else line(str(cell), 400)) for cell in row))
    console = Console()
    if not console.is_terminal:
        console.width = 160
    console.print(made)


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


def show(run_id: str, *, as_json: bool, canonical: bool) -> None:
    """One run."""
    with opened() as (_, ledger):
        if canonical:
            if not as_json:
                raise UserError("--canonical is a form of --json: give both")
            from day0.runs.canonical import canonical as canonical_form

            sys.stdout.write(canonical_form(ledger, run_id))
        elif as_json:
            say_json(summary(ledger, run_id))
        else:
            end(ledger, run_id, [])


def attempts(run_id: str, *, as_json: bool) -> None:
    """The attempts of a run."""
    with opened() as (_, ledger):
        rows = show_.attempt_rows(ledger, run_id)
        simulated = ledger.run(run_id).request.target.kind == "twin"
    if as_json:
        say_json(rows)
    else:
        attempts_table(rows, simulated=simulated)


def attempts_table(rows: list[dict[str, Any]], *, simulated: bool) -> None:
    """One line per attempt."""
    table(
        "attempts" + SIMULATED * simulated,
        ("attempt", "status", "change", "knee 1/s", "tok/s", "gain", "held back by", "why"),
        (
            (
                r["attempt"].rpartition("-")[2],
                r["status"],
                r["change_words"] or r["axis"],
                r["knee_words"],
                _number(r["goodput_tok_s"]),
                "" if r["gain"] is None else f"{r['gain']:+.1%}",
                ", ".join(d["name"] for d in r["explained"]),
                r["reason"],
            )
            for r in rows
        ),
    )


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def end(ledger: Ledger, run_id: str, files: Sequence[Path]) -> None:
    """What a run came to: attempts, winners with their interval, replay, recipes."""
    told = summary(ledger, run_id)
    for won in told["winners"]:
        if won["best"] is not None:
            say(show_.best_line(won, simulated=told["simulated"]))
            say(line(show_.answers_line(won), 600) + SIMULATED * told["simulated"])
    say(f"run {run_id}: {told['status']}{': ' + line(told['reason'], 400) if told['reason'] else ''}")
    label = SIMULATED * told["simulated"]
    say(f"{line(told['model'])} on {told['target']}{label}, policy {told['policy']}, seed {told['seed']}")
    if told["policy_note"]:
        say(told["policy_note"])
    if told["attempts"]:
        attempts_table(told["attempts"], simulated=told["simulated"])
    for item in told["refused"]:
        say(f"refused in round {item['round']}: {line(str(item['reason']), 300)}")
    if told["search_ended"]:
        say(f"the search ended: {line(str(told['search_ended']['reason']), 300)}")
    for won in told["winners"]:
        why_table(won, simulated=told["simulated"])
    for won in told["winners"]:
        if won["attempt"] is not None or told["finished_at"] is not None:
            say(_winner(won) + label)
    for patch in told["patches"]:
        say(f"patch {patch['patch'][7:19]}: {line(str(patch['title']), 200)}: {patch['status']}")
    share = told["orchestration"]["share"]
    if share is not None and not told["simulated"]:  # no node call takes wall time there
        say(f"orchestration took {share:.2%} of {told['orchestration']['wall_s']:.0f} s")
    for file in files:
        say(f"recipe: {file}")


def why_table(won: dict[str, Any], *, simulated: bool) -> None:
    """Why the best of a workload is faster, change by change, and what holds it back."""
    if won["waterfall"]:
        table(
            f"why {won['workload']} is faster" + SIMULATED * simulated,
            ("step", "change", "gain", "in all", "tok/s"),
            (
                (
                    w["attempt"].rpartition("-")[2],
                    w["change_words"],
                    "" if w["gain"] is None else f"{w['gain']:+.1%}",
                    "" if w["total"] is None else f"{w['total']:+.1%}",
                    _number(w["goodput_tok_s"]),
                )
                for w in won["waterfall"]
            ),
        )
    for found in won["explained"]:
        lift = f": {found['experiment']}" if found["experiment"] else ""
        say(line(f"{won['workload']} is held back by: {found['name']} ({found['evidence']}){lift}", 400))


def _winner(won: dict[str, Any]) -> str:
    if won["attempt"] is None:
        return f"{won['workload']}: no winner"
    text = f"{won['workload']}: {won['attempt']}"
    if won["goodput_tok_s"] is not None:
        text += f": {won['goodput_tok_s']:.4g} tok/s a node"
    if won["gain"] is not None:
        upper = "" if won["gain_upper"] is None else f" to {won['gain_upper']:+.1%}"
        text += f", {won['gain']:+.1%} over the baseline"
        text += f" (95 % bounds {won['gain_lower']:+.1%}{upper}; {won['pairs']} pairs)"
    else:
        text += ", the defaults"
    return text + {None: "", True: "; the recipe replays", False: "; the recipe does NOT replay"}[won["replayed"]]


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


def compare(first: str, second: str, *, as_json: bool) -> None:
    """Two runs side by side; throughput is set against each other at one interactivity (S49)."""
    from day0.agent import report as report_

    with opened() as (_, ledger):
        told = [summary(ledger, run_id) for run_id in (first, second)]
        requests = [ledger.run(run_id).request.model_dump(mode="json") for run_id in (first, second)]
        same = report_.same_interactivity(ledger, first, second)
    differs = {k: [r[k] for r in requests] for k in requests[0] if requests[0][k] != requests[1][k]}
    if as_json:
        say_json({"runs": told, "request_differs": differs, "same_interactivity": same})
        return
    keys = ("status", "model", "target", "policy", "seed", "round", "spent_node_s", "reason")
    rows: list[tuple[object, ...]] = [(k, told[0][k], told[1][k]) for k in keys]
    names = sorted({w["workload"] for t in told for w in t["winners"]})
    for name in names:
        cells = [next((_winner(w) for w in t["winners"] if w["workload"] == name), "not measured") for t in told]
        rows.append((name, *cells))
        if (at := same.get(name)) is not None:
            label = f"{name} at {at['user_tok_s']:.1f} tok/s per user, per accelerator held"
            rows.append((label, *(f"{at[key]:.4g} tok/s" for key in ("first", "second"))))
    rows += [(f"request.{k}", *(json.dumps(v) for v in values)) for k, values in differs.items()]
    table("", ("", first, second), rows)


def report(run_id: str, output: Path) -> None:
    """A run as one HTML page."""
    from day0.agent import report as page

    with opened() as (_, ledger):
        page.write(ledger, run_id, output)
    say(f"{output}: open it in a browser")


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
