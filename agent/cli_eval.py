"""`day0 eval`: policies against simulated worlds whose best configuration is known."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def evaluate(  # noqa: PLR0917 -- typer builds the command line from the signature
    worlds: Annotated[Path | None, typer.Option(help="folder of world files, or one; default: all that ship")] = None,
    sample: Annotated[int, typer.Option(min=0, max=10_000, help="play this many worlds drawn at random")] = 0,
    seed: Annotated[int, typer.Option(help="first number of drawn worlds, and the seed of traffic and chance")] = 0,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            help="playbook, tpe, random, default, llm, llm@PROMPT, scripted:NAME; repeatable; default: the first five"
        ),
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, max=256, help="worker processes")] = 2,
    again: Annotated[
        bool, typer.Option("--again", help="play also what was played before with this very code")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="write the JSON to this file, too")] = None,
    json: Annotated[bool, typer.Option("--json", help="print JSON with stable keys")] = False,
) -> None:
    """Play policies on simulated nodes and say how near to each world's best they came, and at what price."""
    from day0.agent import evaluating

    plan = evaluating.Plan(worlds, sample, seed, tuple(policy or ()), jobs, again, out)
    evaluating.evaluate(plan, as_json=json)


def add_to(app: typer.Typer) -> None:
    """Registers this module's command."""
    app.command("eval")(evaluate)
