"""`day0 forecast`: what to expect of a model before any GPU is booked, and of tables of measured points."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="print JSON with stable keys")]


def forecast(  # noqa: PLR0917 -- typer builds the command line from the signature
    model: Annotated[str | None, typer.Argument(help="a folder with config.json, or a hub ID")] = None,
    target: Annotated[str, typer.Option(help="class of node, such as mi355x")] = "mi355x",
    workload: Annotated[str | None, typer.Option(help="name or file of a workload; default: the target's")] = None,
    against: Annotated[Path | None, typer.Option(help="predict the rows of this table of measured points")] = None,
    models: Annotated[Path | None, typer.Option(help="with --against: geometries of further models, JSON")] = None,
    every: Annotated[bool, typer.Option("--all", help="also list layouts that do not fit")] = False,
    json: Json = False,
) -> None:
    """Which layouts of a node fit, what throughput and cost to expect, and what will break."""
    from day0.agent import forecasting

    if against is not None:
        forecasting.against(against, models, as_json=json)
    else:
        forecasting.forecast(model, target, workload, every=every, as_json=json)


def add_to(app: typer.Typer) -> None:
    """Registers this module's command."""
    app.command()(forecast)
