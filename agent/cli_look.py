"""Commands that look at what the ledger holds, and at files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from day0.agent.cli_run import Json, Run


def show(
    run: Run,
    json: Json = False,
    canonical: Annotated[
        bool, typer.Option(help="with --json: only what the same seed must give again, to the byte")
    ] = False,
) -> None:
    """One run: what was asked, what was found, what it cost."""
    from day0.agent import showing

    showing.show(run, as_json=json, canonical=canonical)


def attempts(run: Run, json: Json = False) -> None:
    """The attempts of a run: what each changed, how far it climbed, what came out."""
    from day0.agent import showing

    showing.attempts(run, as_json=json)


def log(
    attempt: Annotated[str, typer.Argument(help="attempt ID such as r1a2b3c4d-1.3")],
    artifact: Annotated[str | None, typer.Option(help="name of another kept artifact; `list` lists them")] = None,
) -> None:
    """The server log of an attempt's last boot."""
    from day0.agent import looking

    looking.log(attempt, artifact)


def compare(first: Run, second: Run, json: Json = False) -> None:
    """Two runs side by side: what differs in the request and in the result."""
    from day0.agent import comparing

    comparing.compare(first, second, as_json=json)


def report(
    run: Run,
    output: Annotated[Path, typer.Option("--output", "-o", help="HTML file to write")],
) -> None:
    """A run as one HTML page that needs nothing else, with its pictures as PNG files beside it."""
    from day0.agent import looking

    looking.report(run, output)


def recipe(
    run: Run,
    workload: Annotated[str | None, typer.Option(help="which workload's recipe; default: the only one")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="file to write; default: print it")] = None,
) -> None:
    """The recipe that a run found."""
    from day0.agent import looking

    looking.recipe(run, workload, output)


def replay(
    file: Annotated[Path, typer.Argument(help="a recipe file")],
    model: Annotated[Path | None, typer.Option(help="model folder, where it lies elsewhere than in the recipe")] = None,
    json: Json = False,
) -> None:
    """Measure a recipe again, from the file alone, in a clean sandbox. Exits 1 outside its range."""
    from day0.agent import replaying

    raise typer.Exit(replaying.replay(file, model, as_json=json))


def replay_llm(
    run: Run,
    prompt: Annotated[str, typer.Option(help="a shipped prompt's name; default: the one that was asked with")] = "",
    json: Json = False,
) -> None:
    """Decide a run's rounds once more from the LLM's recorded answers; nothing is asked, nothing is started."""
    from day0.agent import replaying_llm

    replaying_llm.replay(run, prompt, as_json=json)


def diagnose(logfile: Annotated[Path, typer.Argument(help="log of a server that failed")], json: Json = False) -> None:
    """Why a server did not start or died: class, evidence line, known issue. Exits 0 for `unknown` too."""
    from day0.agent import looking

    looking.diagnose(logfile, as_json=json)


def add_to(app: typer.Typer) -> None:
    """Registers this module's commands."""
    for command in (show, attempts, log, compare, report, recipe, replay, diagnose):
        app.command()(command)
    app.command("replay-llm")(replay_llm)
