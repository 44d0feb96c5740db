"""What `day0 eval` does: picks worlds and policies, plays them, prints tables or JSON."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer
from day0.agent.settings import Settings, load
from day0.runs.errors import UserError
from day0.runs.workload import MeasureRules

TPE_SEEDS = 3
COLUMNS = ("world", "policy", "solved", "of oracle", "node-hours to 95 %", "refused", "broken promotion", "tokens")


@dataclass(frozen=True)
class Plan:
    """The command line."""

    worlds: Path | None = None
    sample: int = 0
    seed: int = 0
    policies: tuple[str, ...] = ()
    jobs: int = 2
    again: bool = False
    out: Path | None = None
    rules: MeasureRules | None = None
    """in place of the target's; no option of the command line"""


def names(plan: Plan) -> list[str]:
    """The worlds to play: those of a folder, sampled ones, else all that ship. Raises `UserError`."""
    from day0.agent.evaluation.playing import SAMPLED
    from day0.runs import documents

    found: list[str] = []
    if plan.worlds is not None:
        files = [plan.worlds] if plan.worlds.is_file() else sorted(plan.worlds.glob("*.y*ml"))
        if not files:
            raise UserError(f"{plan.worlds} holds no world (a *.yaml file)")
        found += [str(file.absolute()) for file in files]
    found += [f"{SAMPLED}{plan.seed + n}" for n in range(plan.sample)]
    return found or list(documents.names("world"))


def policies(plan: Plan, settings: Settings) -> tuple[str, ...]:
    """The policies to play; an LLM by default only where one is configured. Raises `UserError`."""
    from day0.agent.evaluation.playing import POLICIES, Job

    wrong = [p for p in plan.policies if p not in POLICIES and not Job(world="", policy=p).led]
    if wrong:
        raise UserError(f"policy `{wrong[0]}` is unknown: choose of {', '.join(POLICIES)}")
    if plan.policies:
        return tuple(dict.fromkeys(plan.policies))
    llm = bool(settings.llm_base_url and settings.llm_model)
    return tuple(p for p in POLICIES if llm or p != "llm")


def evaluate(plan: Plan, *, as_json: bool) -> None:
    """Plays everything and prints it. Raises `UserError`, `Infrastructure`."""
    from day0.agent.evaluation.crew import played, rated
    from day0.agent.evaluation.playing import Job, policy_of, world_of
    from day0.agent.evaluation.report import told

    settings, begun = load(), time.monotonic()
    chosen, worlds = policies(plan, settings), names(plan)
    for name in worlds:
        world_of(Job(world=name, policy="default"), settings.home)  # a malformed one is named before anything is played
    for policy in chosen:
        policy_of(Job(world=worlds[0], policy=policy), settings)
    solvable: dict[str, bool] = {}
    for number, (name, good) in enumerate(rated(worlds, settings.home, plan.jobs), 1):
        solvable[name] = good
        _progress(f"oracle {number} of {len(worlds)}: {name}")
    jobs = [
        Job(world=name, policy=policy, seed=plan.seed + n, rules=plan.rules)
        for name in worlds
        for policy in chosen
        if policy != "tpe" or solvable[name]
        for n in range(TPE_SEEDS if policy == "tpe" else 1)
    ]
    scores = []
    for number, (job, score) in enumerate(played(jobs, settings.home, plan.jobs, again=plan.again), 1):
        scores.append(score)
        mark = "solved" if score.solved else "BROKEN" if score.broken else "not solved"
        wall = time.monotonic() - begun
        _progress(
            f"{number}/{len(jobs)} {wall:5.0f} s  {score.world} {job.policy}: {mark}, {score.share:.1%} of oracle"
        )
    made = {**told(scores), "not_compared": sorted(n for n, good in solvable.items() if not good)}
    made["wall_s"] = round(time.monotonic() - begun, 1)
    if plan.out is not None:
        plan.out.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    if as_json:
        typer.echo(json.dumps(made, indent=1))
    else:
        _print(made, scores)


def _progress(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def _print(made: dict[str, Any], scores: Sequence[Any]) -> None:
    from day0.agent.evaluation.report import lines
    from rich.console import Console
    from rich.table import Table

    console = Console()
    if not console.is_terminal:
        console = Console(width=140)
    console.print(made["headline"], style="bold", highlight=False, markup=False)
    per_policy = Table()
    for column in made["summary"][0] if made["summary"] else ():
        per_policy.add_column(column.replace("_", " "))
    for row in made["summary"]:
        per_policy.add_row(*(f"{v:.1%}" if key.endswith("share") else str(v) for key, v in row.items()))
    console.print(per_policy)
    table = Table()
    for column in COLUMNS:
        table.add_column(column)
    for line in lines(scores):
        table.add_row(*line)
    console.print(table)
    if made["not_compared"] and any(s.policy == "tpe" for s in scores):
        left = ", ".join(Path(n).stem for n in made["not_compared"])
        console.print(f"tpe is not compared where flags alone don't solve: {left}", style="dim", highlight=False)
    console.print(f"simulated; {made['wall_s']:.0f} s", style="dim", highlight=False)
