"""`day0 worlds`: simulated nodes as documents: shipped ones, one's own, and drawn at random."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from day0.agent.cli_run import Json

app = typer.Typer(help="Simulated nodes as documents: shipped, your own, drawn at random.", no_args_is_help=True)
Named = Annotated[str, typer.Argument(help="name of a shipped world, or the path of a YAML file")]


@app.command("list")
def listed(json: Json = False) -> None:
    """The worlds that ship with day0: model, what goes wrong there, what solves it."""
    from day0.agent import worlds

    worlds.listed(as_json=json)


@app.command()
def check(world: Named, json: Json = False) -> None:
    """Read a world and say what it holds. What can't be meant is named with its line; exit code 2."""
    from day0.agent import worlds

    worlds.check(world, as_json=json)


@app.command()
def sample(
    seed: Annotated[int, typer.Option(min=0, help="equal seeds draw equal worlds")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="file to write; default: print it")] = None,
) -> None:
    """Draw a world that can be solved: geometry, efficiencies, best layout and faults that nobody wrote down."""
    from day0.agent import worlds

    worlds.sample(seed, output)


@app.command()
def oracle(
    world: Named,
    workload: Annotated[str, typer.Option(help="name or file of a workload")] = "agentic-20k1k",
    top: Annotated[int, typer.Option(min=1, max=200, help="candidates to show")] = 5,
    json: Json = False,
) -> None:
    """What the best candidates of a world's declared space are worth, without noise."""
    from day0.agent import worlds

    worlds.best(world, workload, top, as_json=json)


def add_to(main: typer.Typer) -> None:
    """Registers this module's commands."""
    main.add_typer(app, name="worlds")
