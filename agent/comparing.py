"""`day0 compare A B`: two runs of the same traffic side by side, and what may be said of their difference.

Two runs were not interleaved: whatever changed on the node between them stands in the difference, and the bounds rest
on both noise floors alone. Between different accelerators only throughput per accelerator held at the same
interactivity is set against each other (S49, S50); everything else is refused in one sentence.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from math import exp, hypot, log
from typing import Any

from day0.agent import charts, show_best, story
from day0.agent.policy.decide import Z
from day0.agent.policy.untrusted import line
from day0.agent.printing import SIMULATED, number, say, say_json, table
from day0.agent.show import summary
from day0.agent.sources import opened
from day0.runs.errors import UserError
from day0.runs.ledger import Ledger
from day0.runs.schema import Run
from day0.runs.workload import Workload
from day0.tools import pareto

LABELS = frozenset({"summary"})
"""of a workload: what may differ without making it another traffic"""


def compare(first: str, second: str, *, as_json: bool) -> None:
    """Prints both. Raises `UserError` for what cannot be compared."""
    with opened() as (_, ledger):
        told = compared(ledger, first, second)
    if as_json:
        say_json(told)
        return
    one, two = told["runs"]
    label = SIMULATED * one["simulated"]
    keys = ("status", "model", "target", "policy", "seed", "round", "spent_node_s", "reason")
    rows: list[tuple[object, ...]] = [(k, one[k], two[k]) for k in keys]
    for side in ("best_line", "winner_line"):
        rows += [(row["workload"], *(_line(t, row["workload"], side) for t in (one, two))) for row in told["workloads"]]
    rows += [("noise floor", *(f"{t['noise']['sd']:.1%}" for t in (one, two)))]
    rows += [(f"request.{k}", *(json.dumps(v) for v in values)) for k, values in told["request_differs"].items()]
    table("two runs" + label, ("", first, second), rows)
    for row in told["workloads"]:
        for text in words(row):
            say(line(text, 600) + label)


def compared(ledger: Ledger, first: str, second: str) -> dict[str, Any]:
    """`day0 compare --json`: both summaries, what differs in their requests, and by workload what may be said."""
    runs = (ledger.run(first), ledger.run(second))
    shared = refuse(*runs)
    told = [summary(ledger, run.id) for run in runs]
    requests = [run.request.model_dump(mode="json") for run in runs]
    differs = {k: [r[k] for r in requests] for k in requests[0] if requests[0][k] != requests[1][k]}
    rows = [_workload(ledger, runs, told, workload) for workload in shared]
    return {
        "runs": told,
        "request_differs": differs,
        "same_interactivity": {row["workload"]: row["same_interactivity"] for row in rows},
        "workloads": rows,
    }


def refuse(first: Run, second: Run) -> tuple[Workload, ...]:
    """The workloads that both served. Raises `UserError` where figures of the two say nothing of each other."""
    if first.id == second.id:
        raise UserError(f"{first.id} twice: name two runs; `day0 show {first.id}` shows one")
    kinds = {run.id: "simulated" if run.request.target.kind == "twin" else "measured" for run in (first, second)}
    if kinds[first.id] != kinds[second.id]:
        raise UserError(
            f"{first.id} is {kinds[first.id]} and {second.id} is {kinds[second.id]}: compare two of a kind, a "
            "simulated figure says nothing of a machine"
        )
    models = [run.request.options.get("asked_for", run.request.model) for run in (first, second)]
    if models[0] != models[1] and first.request.revision != second.request.revision:
        raise UserError(
            f"{first.id} serves {line(models[0], 80)} and {second.id} {line(models[1], 80)}: tokens of different "
            "models are not compared"
        )
    mine, theirs = ({w.name: w for w in run.request.workloads} for run in (first, second))
    both = [name for name in mine if name in theirs]
    if not both:
        raise UserError(
            f"they share no workload: {first.id} has {', '.join(mine)}, {second.id} has {', '.join(theirs)}; run one "
            "again with --workload"
        )
    for name in both:
        if unlike := _unlike(mine[name], theirs[name]):
            raise UserError(f"workload {name} is other traffic in each, and its figures are not compared: {unlike}")
    return tuple(mine[name] for name in both)


def _unlike(mine: Workload, theirs: Workload) -> str:
    """What differs between two workloads of one name; empty where nothing does."""
    a, b = (w.model_dump(mode="json", exclude=set(LABELS)) for w in (mine, theirs))
    return ", ".join(f"{key} {a[key]} against {b[key]}" for key in a if a[key] != b[key])


def _workload(ledger: Ledger, runs: tuple[Run, Run], told: list[dict[str, Any]], workload: Workload) -> dict[str, Any]:
    found = []
    for run in runs:
        best = story.winner(ledger, run.id, workload.name) or run.leader
        attempt = ledger.attempt(best) if best else None
        if attempt is None or attempt.knee(workload.name) is None:
            raise UserError(
                f"run {run.id} has nothing measured on {workload.name} yet: `day0 show {run.id}` says where it stands"
            )
        found.append(attempt)
    half = Z * hypot(*(t["noise"]["sd"] for t in told))
    knees = [knee for a in found if (knee := a.knee(workload.name)) is not None]
    targets = [run.request.target for run in runs]
    alike = targets[0].accelerator == targets[1].accelerator and targets[0].gpus == targets[1].gpus
    same = pareto.equal(*(charts.spots_of(a, workload) for a in found))
    return {
        "workload": workload.name,
        "attempts": [a.id for a in found],
        "short": any(k.short for k in knees),
        "same_target": targets[0].name == targets[1].name,
        "same_hardware": alike,
        "knee": _difference(knees[0].rate_rps, knees[1].rate_rps, half) if alike else None,
        "same_interactivity": None
        if same is None
        else {**same._asdict(), **_difference(same.first, same.second, half)},
    }


def _difference(first: float, second: float, half: float) -> dict[str, Any]:
    """The gain of the second over the first, its bounds and a verdict: shown only beyond what both floors can fake."""
    if first <= 0 or second <= 0:
        return {"gain": None, "lower": None, "upper": None, "verdict": "not shown"}
    ratio = log(second / first)
    low, high = exp(ratio - half) - 1, exp(ratio + half) - 1
    verdict = "better" if low > 0 else "worse" if high < 0 else "not shown"
    return {"gain": exp(ratio) - 1, "lower": low, "upper": high, "verdict": verdict}


def words(row: Mapping[str, Any]) -> Iterator[str]:
    """What may be said of two runs on one workload."""
    name, told = row["workload"], "two runs, not interleaved" + ", short" * row["short"]
    if row["knee"] is not None:
        yield f"{name}: knee of the second over the first: {_gain(row['knee'])}; {told}"
    else:
        yield f"{name}: the nodes are not of one kind: only equal interactivity counts"
    same = row["same_interactivity"]
    if same is None:
        yield f"{name}: the two were not measured at the same tok/s per user: nothing is said at equal interactivity"
        return
    pair = f"{number(same['first'])} and {number(same['second'])} tok/s per accelerator held"
    yield f"{name}: at {same['user_tok_s']:.1f} tok/s per user {pair}: {_gain(same)}; {told}"


def _gain(one: Mapping[str, Any]) -> str:
    if one["gain"] is None:
        return f"nothing to divide by (verdict: {one['verdict']})"
    return f"{one['gain']:+.1%} (95 % bounds {one['lower']:+.1%} to {one['upper']:+.1%}; verdict: {one['verdict']})"


def _line(told: Mapping[str, Any], workload: str, which: str) -> str:
    won = next((w for w in told["winners"] if w["workload"] == workload), None)
    if won is None:
        return "not measured"
    if which == "best_line":
        return show_best.best_line(won, simulated=told["simulated"])
    return show_best.winner_line(won)
