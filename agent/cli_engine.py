"""Commands about this machine: engines, checks, clean-up."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from day0.agent.cli_run import Json

engine = typer.Typer(help="Engines that day0 installed for itself.", no_args_is_help=True)


@engine.command()
def install(
    name: Annotated[
        str,
        typer.Argument(
            help="`cpu`: SGLang for this machine's processor; `harness`: the load generator alone; `evals`: lm-eval; "
            "`checks`: clang-tidy for patches to kernels"
        ),
    ],
) -> None:
    """Install an engine and the load generator, each into its own environment. Repeating it does nothing."""
    from day0.agent import machine

    machine.install(name)


@engine.command()
def use(
    folder: Annotated[Path, typer.Argument(help="a Python environment with SGLang in it, as its `sys.prefix` says")],
    name: Annotated[str, typer.Option(help="what targets call it")] = "rocm",
) -> None:
    """Name an engine that is on this machine already, such as the one of the container that day0 runs in."""
    from day0.agent import machine

    machine.use(folder, name)


@engine.command("list")
def listed(json: Json = False) -> None:
    """What is installed."""
    from day0.agent import machine

    machine.engines(as_json=json)


@engine.command("tiny-model")
def tiny_model(
    folder: Annotated[Path, typer.Argument(help="folder to make")],
    damaged: Annotated[bool, typer.Option("--damaged", help="the broken-but-fast control")] = False,
    layers: Annotated[int, typer.Option(min=1, max=64, help="transformer layers")] = 8,
) -> None:
    """Make a small trained model that answers 200 sums, in about half a minute."""
    from day0.agent import machine

    machine.tiny_model(folder, damaged=damaged, layers=layers)


def doctor(json: Json = False) -> None:
    """What this machine has and lacks, and what to do about it. Exits 3 when something needed is missing."""
    from day0.agent import machine

    raise typer.Exit(machine.doctor(as_json=json))


def gc(
    days: Annotated[float, typer.Option(min=0, help="keep artifacts younger than this; recipes' for ever")] = 30.0,
    sweep: Annotated[bool, typer.Option("--sweep", help="only stop what dead owners left running")] = False,
) -> None:
    """Remove old artifacts and images that day0 built, stop what dead runs left behind; only what carries our label."""
    from day0.agent import machine

    machine.gc(days, sweep_only=sweep)


def add_to(app: typer.Typer) -> None:
    """Registers this module's commands."""
    app.add_typer(engine, name="engine")
    app.command()(doctor)
    app.command()(gc)
