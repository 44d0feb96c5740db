"""What `day0 worlds` prints and writes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from day0.runs.errors import UserError

if TYPE_CHECKING:
    from day0.sandboxes.twin.oracle import Rating
    from day0.sandboxes.twin.world import World


def listed(*, as_json: bool) -> None:
    """The shipped worlds."""
    from day0.runs.documents import names
    from day0.sandboxes.twin.world import world

    rows = [row(world(name)) for name in names("world")]
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return
    _table(
        ("world", "model", "weights", "candidates", "solved by", "faults"),
        [[r["world"], r["model"], r["precision"], str(r["candidates"]), r["solved_by"], _kinds(r)] for r in rows],
    )
    typer.echo("`day0 worlds check WORLD` says more of one")


def _kinds(made: dict[str, Any]) -> str:
    return ", ".join(dict.fromkeys(fault["kind"].replace("_", " ") for fault in made["faults"])) or "none"


def row(found: World) -> dict[str, Any]:
    """A world in a few words, with stable keys."""
    return {
        "world": found.name,
        "summary": found.summary,
        "model": found.model.id,
        "origin": found.model.origin,
        "precision": found.model.precision,
        "solved_by": found.solved_by,
        "builds": [build.name for build in found.builds],
        "faults": [{"name": fault.name, "kind": fault.kind} for fault in found.faults],
        "candidates": prod(max(1, len(axis)) for axis in found.space),
        "story": [told.name for told in found.story],
        "digest": found.digest(),
    }


def check(named: str, *, as_json: bool) -> None:
    """A world in a few words. Raises `UserError` that names file and line."""
    from day0.sandboxes.twin import wellformed
    from day0.sandboxes.twin.world import world

    found = world(named)
    for _, problem in wellformed.problems(found):  # of a file of one's own `world` has told with its line
        raise UserError(f"{named}: {problem}")
    made = row(found)
    if as_json:
        typer.echo(json.dumps(made, indent=2))
        return
    faults = ", ".join(f"{fault['kind']} ({fault['name']})" for fault in made["faults"]) or "none"
    typer.echo(f"{made['world']}: {made['summary']}")
    typer.echo(f"model {made['model']} in {made['precision']}; {made['candidates']} candidates; faults: {faults}")


def sample(seed: int, output: Path | None) -> None:
    """A drawn world as a document. Raises `UserError` where the file can't be written."""
    from day0.sandboxes.twin import sample as drawing

    text = drawing.render(drawing.sample(seed))
    if output is None:
        typer.echo(text, nl=False)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"{output} can't be written: {(error.strerror or 'unknown error').lower()}") from None
    typer.echo(f"wrote {output}")


def best(named: str, workload: str, top: int, *, as_json: bool) -> None:
    """The best candidates of a world. Raises `UserError`."""
    from day0.agent.settings import load
    from day0.runs.documents import workload as load_workload
    from day0.sandboxes.twin import oracle
    from day0.sandboxes.twin.world import world

    where = world(named)
    found = oracle.oracle(where, load_workload(workload), memory=load().home / "oracle")
    shown = found.ratings[:top]
    if as_json:
        told = {"world": found.world, "workload": found.workload, "key": found.key}
        typer.echo(json.dumps({**told, "ratings": [r.model_dump(mode="json") for r in shown]}, indent=2))
        return
    _table(
        ("output tok/s", "requests/s", "candidate", "bound by"),
        [[f"{r.tok_s:.0f}", f"{r.rate_rps:.2f}", _words(r, where), r.why] for r in shown],
    )
    serving = sum(r.tok_s > 0 for r in found.ratings)
    typer.echo(f"{serving} of {len(found.ratings)} candidates serve {found.workload}; simulated, without noise")


def _words(rating: Rating, found: World) -> str:
    words = [f"{name}={value}" for name, value in (*rating.flags.items(), *rating.env.items())]
    tuned = rating.tuned and found.tuned is not None
    words += [word for word, is_so in (("tuned", tuned), ("repaired", rating.repaired)) if is_so]
    return " ".join([*words, *([f"on {rating.build}"] if rating.build else [])]) or "the engine's defaults"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(*heads, box=None, header_style="bold")
    for cells in rows:
        table.add_row(*cells)
    Console().print(table)
