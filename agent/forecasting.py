"""What `day0 forecast` prints: the report of a model on a target, and predicted tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from day0.runs.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from day0.tools.forecast.report import Report
    from rich.table import Table

SHOWN = 12
"""Layouts in the table unless all are asked for."""


def forecast(model: str | None, target: str, workload: str | None, *, every: bool, as_json: bool) -> None:
    """Prints the forecast of a model. Raises UserError, one sentence, when it is no model or no known target."""
    if model is None:
        raise UserError("name a model (a folder or a hub ID), or give a table with --against")
    from day0.tools.forecast.report import report

    made = report(model, target, workload)
    if as_json:
        typer.echo(json.dumps(made.model_dump(mode="json"), indent=2))
        return
    _print(made, every)


def against(table: Path, models: Path | None, *, as_json: bool) -> None:
    """Predicts every row of a table. Raises UserError, one sentence, when a file can't be read."""
    from day0.tools.forecast.against import against as predict
    from day0.tools.forecast.against import read_models, read_rows

    made = predict(read_rows(table), read_models(models) if models is not None else None)
    if as_json:
        typer.echo(json.dumps(made, indent=1))
        return
    _print_summary(made["summary"])


def _print_summary(summary: dict[str, Any]) -> None:
    typer.echo(f"{summary['predicted']} of {summary['rows']} rows predicted")
    for reason, count in summary["skipped_reasons"].items():
        typer.echo(f"  {count:5d} skipped: {reason}")
    if summary["compared"]:
        typer.echo(
            f"against {summary['compared']} measured: median error {summary['median_abs_error']:.1%}, "
            f"p90 {summary['p90_abs_error']:.1%}; 80 % intervals hold {summary['interval_holds']:.0%}"
        )
        typer.echo(summary["note"])


def _print(made: Report, every: bool) -> None:
    from rich.console import Console

    console = Console()
    if not console.is_terminal:
        console = Console(width=140)
    console.print(
        f"[bold]{made.model}[/bold] on {made.gpus} x {made.accelerator} under {made.workload}", highlight=False
    )
    console.print(f"from {made.found}; assumes {made.assumes}; {made.trust}", style="dim", highlight=False)
    fit = [layout for layout in made.layouts if layout.fits]
    console.print(_table(fit if every else fit[:SHOWN]))
    if not fit:
        console.print("no layout fits this node under this workload")
    misfits = [layout for layout in made.layouts if not layout.fits]
    if every or not fit:
        for layout in misfits:
            console.print(f"  does not fit: {layout.name}: {layout.why}", highlight=False, markup=False)
    elif misfits:
        console.print(f"{len(misfits)} layouts do not fit (--all lists them)", style="dim")
    if made.cost is not None:
        _print_cost(console, made)
    for omen in made.omens:
        console.print(f"expect: {omen.text}", highlight=False, markup=False)


def _table(layouts: Sequence[Any]) -> Table:
    from rich.table import Table

    table = Table()
    for column in (
        "layout",
        "out tok/s node",
        "80 %",
        "req/s",
        "TPOT ms",
        "p95 TTFT s",
        "bound by",
        "GiB",
        "cap",
        "USD/Mtok",
    ):
        table.add_column(column, justify="left" if column in {"layout", "bound by"} else "right", no_wrap=True)
    for layout in layouts:
        knee = layout.knee
        table.add_row(
            layout.name, f"{layout.node_output_tok_s:.0f}", f"{layout.low:.0f}-{layout.high:.0f}",
            f"{knee.rate_rps:.2f}",
            f"{knee.tpot_ms:.1f}", f"{knee.ttft_ms / 1e3:.2f}", knee.bound_by, f"{layout.weight_bytes / 2**30:.0f}",
            f"{layout.running_cap:.0f}", "-" if layout.usd_per_mtok is None else f"{layout.usd_per_mtok:.2f}",
        )  # fmt: skip
    return table


def _print_cost(console: Any, made: Report) -> None:
    cost = made.cost
    assert cost is not None
    console.print(
        f"{cost.break_even:.2f} of a {cost.reference} accelerator's throughput ({made.reference_layout} there): costs "
        f"are equal where an hour costs {cost.break_even:.2f} of a {cost.reference} hour",
        highlight=False,
    )  # fmt: skip
    for price in cost.prices:
        console.print(
            f"  {price.kind}: {price.usd_per_mtok:.2f} USD/Mtok out at {price.usd_per_hour:.2f} USD/h against "
            f"{price.reference_usd_per_mtok:.2f} at {price.reference_usd_per_hour:.2f}",
            highlight=False,
        )
    console.print(f"  prices: {cost.source}", style="dim", highlight=False)
