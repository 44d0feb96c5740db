"""A run, and a recipe, without what may differ between two equal runs: the form in which they are the same bytes.

Left out: wall and node time, also in front of a log line, host paths, ports, PIDs, software versions and builds,
epochs, boots and what was measured on a boot that was lost.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from day0.runs.facts import Rung
from day0.runs.ledger_reads import Reads
from day0.runs.recipe import Recipe, parse
from day0.runs.schema import Attempt, Boot, Run

# `id`, `run` and the like stay: they come from the request's key alone
DROPPED = frozenset(
    {
        "at",
        "beside_s",
        "created_at",
        "finished_at",
        "queued_at",
        "node_s",
        "spent_node_s",
        "epoch",
        "boot",
        "boots",
        "build",
    }
    | {"version", "packages", "day0", "kernel", "boot_id", "disk_free_bytes"}
)
_PATH = re.compile(r"(?<![\w.:/{}])(?:/[\w.+@=-]+){2,}/?")
_STAMP = re.compile(r"\b\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d+)?Z?")
"""in front of a line of a log"""
_PORT = re.compile(r"(?<=[\w\])]):\d{2,5}\b(?!:)|\b(port[ =]+)\d+", re.IGNORECASE)
_PID = re.compile(r"\b(pid[ =:]+)\d+", re.IGNORECASE)


def canonical(ledger: Reads, run_id: str) -> str:
    """The run as JSON with sorted keys, ending in a line break. Raises `UserError` for an unknown run."""
    run, boots = ledger.run(run_id), ledger.boots(run_id)
    shown = {
        "run": _run(run),
        "attempts": [_attempt(attempt, boots) for attempt in ledger.attempts(run_id)],
        "comparisons": [value.model_dump(mode="json") for value in ledger.comparisons(run_id)],
        "recipes": [_recipe(parse(recipe.text)) for recipe in ledger.recipes(run_id)],
    }
    return json.dumps(clean(shown), sort_keys=True, indent=2, ensure_ascii=False) + "\n"


def canonical_recipe(text: str) -> str:
    """A recipe likewise. Raises `UserError` when it is none."""
    return json.dumps(clean(_recipe(parse(text))), sort_keys=True, indent=2, ensure_ascii=False) + "\n"


def clean(value: Any) -> Any:
    """The same value without dropped keys, and with host paths, ports and PIDs replaced inside text."""
    if isinstance(value, Mapping):
        return {key: clean(item) for key, item in value.items() if key not in DROPPED}
    if isinstance(value, str):
        text = _PATH.sub("<path>", _STAMP.sub("<time>", value))
        text = _PORT.sub(lambda found: (found[1] or ":") + "<port>", text)
        return _PID.sub(lambda found: found[1] + "<pid>", text)
    if isinstance(value, Sequence):
        return [clean(item) for item in value]
    return value


def _run(run: Run) -> dict[str, Any]:
    return run.model_dump(mode="json", exclude={"request": {"budget_hours", "deadline_s"}})


def _attempt(attempt: Attempt, boots: Sequence[Boot]) -> dict[str, Any]:
    lost = {boot.number for boot in boots if boot.attempt == attempt.id and _is_lost(boot)}
    measured = max((boot for boot, rung, _ in attempt.points if rung == Rung.MEASURE), default=0)

    def stands(boot: int, rung: Rung) -> bool:
        """`measure` stands by its last boot, also where that was lost once the verdict was written."""
        return boot == measured if rung == Rung.MEASURE else boot not in lost

    shown = attempt.model_dump(mode="json", exclude={"points", "knees", "explained", "node"})
    # warm-ups belong to a boot, and a screen's point is told by its verdict: a boot lost after it takes the point along
    shown["points"] = [
        {"rung": rung, **point.model_dump(mode="json")}
        for boot, rung, point in attempt.points
        if stands(boot, rung) and not point.warmup and rung != Rung.SCREEN
    ]
    shown["knees"] = [
        {"rung": rung, **knee.model_dump(mode="json")} for boot, rung, knee in attempt.knees if stands(boot, rung)
    ]
    shown["explained"] = [e.model_dump(mode="json") for e in attempt.explained if e.boot == measured]
    return shown


def _is_lost(boot: Boot) -> bool:
    return boot.ended is None or boot.ended.reason == "lost"


def _recipe(recipe: Recipe) -> dict[str, Any]:
    return recipe.model_dump(mode="json", exclude={"node": {"name"}})
