"""Commands that start, continue and stop runs."""

from __future__ import annotations

from typing import Annotated

import typer

Model = Annotated[str, typer.Argument(help="a model folder or a hub ID such as `org/name`")]
Run = Annotated[str, typer.Argument(help="run ID, as `day0 queue` lists them")]
Json = Annotated[bool, typer.Option("--json", help="print JSON with stable keys")]
Target = Annotated[str | None, typer.Option(help="class of node: `cpu`, `cpu-quick`, `mi355x-twin`, or a YAML file")]
Workload = Annotated[list[str] | None, typer.Option(help="traffic: a shipped name or a YAML file; may be repeated")]
Budget = Annotated[float | None, typer.Option("--budget-hours", help="node-hours for everything, closing included")]
Seed = Annotated[int, typer.Option(help="the same seed gives the same traffic and the same proposals")]
Policy = Annotated[str | None, typer.Option(help="auto, playbook, llm, tpe, random or default")]
Again = Annotated[bool, typer.Option("--again", help="start a new run though the same one is finished")]
World = Annotated[str | None, typer.Option(help="simulated node: a shipped world or a YAML file; default: the model's")]
Deadline = Annotated[
    str | None, typer.Option(help="when all must be over, closing included: `6h`, `90m`, or `2026-12-24T18:00`")
]
EngineSource = Annotated[
    str, typer.Option(help="simulated node: a release whose real source is served and patched, `sglang==VERSION`")
]
Eval = Annotated[
    list[str] | None,
    typer.Option("--eval", help="NAME=FILE: questions like GSM8K's or GPQA's, or a task of lm-eval, for the winner"),
]
EvalCommand = Annotated[
    list[str] | None,
    typer.Option(
        "--eval-command", help="NAME=COMMAND with {base_url}, {model} and {out}: an eval by a program of yours"
    ),
]
Patch = Annotated[
    list[str] | None,
    typer.Option(
        "--patch",
        help="a unified diff to engine source, measured first (its own test: FILE with .test.py); may be repeated",
    ),
]
Margin = Annotated[float | None, typer.Option(help="points that the winner may lose in full evals; default 1")]
Most = Annotated[int | None, typer.Option("--max-attempts", help="candidates to try beyond the baseline")]


def run(
    model: Model,
    *,
    target: Target = None,
    workload: Workload = None,
    budget_hours: Budget = None,
    seed: Seed = 0,
    policy: Policy = None,
    again: Again = False,
    max_attempts: Most = None,
    world: World = None,
    deadline: Deadline = None,
    engine_source: EngineSource = "",
    evals: Eval = None,
    eval_command: EvalCommand = None,
    margin: Margin = None,
    patch: Patch = None,
    json: Json = False,
) -> None:
    """Search, confirm, write the recipe and replay it, with live progress."""
    from day0.agent import running

    asked = running.Asked(
        model, target, tuple(workload or ()), budget_hours, seed, policy, max_attempts, world, deadline, engine_source,
        tuple(evals or ()), tuple(eval_command or ()), margin, tuple(patch or ()),
    )  # fmt: skip
    raise typer.Exit(running.run(asked, again=again, as_json=json))


def submit(
    model: Model,
    *,
    target: Target = None,
    workload: Workload = None,
    budget_hours: Budget = None,
    seed: Seed = 0,
    policy: Policy = None,
    again: Again = False,
    max_attempts: Most = None,
    world: World = None,
    deadline: Deadline = None,
    engine_source: EngineSource = "",
    evals: Eval = None,
    eval_command: EvalCommand = None,
    margin: Margin = None,
    patch: Patch = None,
    json: Json = False,
) -> None:
    """Put a run into the queue and return; `day0 resume RUN` works on it."""
    from day0.agent import running

    asked = running.Asked(
        model, target, tuple(workload or ()), budget_hours, seed, policy, max_attempts, world, deadline, engine_source,
        tuple(evals or ()), tuple(eval_command or ()), margin, tuple(patch or ()),
    )  # fmt: skip
    running.submit(asked, again=again, as_json=json)


def queue(limit: Annotated[int, typer.Option(min=1, max=1000, help="how many runs")] = 50, json: Json = False) -> None:
    """The runs, newest first."""
    from day0.agent import looking

    looking.queue(limit, as_json=json)


def resume(
    run: Run,
    budget_hours: Budget = None,
    max_attempts: Most = None,
    deadline: Deadline = None,
    json: Json = False,
) -> None:
    """Continue a run from the ledger: after Ctrl-C, a kill, a mended node, or with a raised budget."""
    from day0.agent import running

    more = running.More(budget_hours, max_attempts, deadline)
    raise typer.Exit(running.resume(run, more, as_json=json))


def retry(
    run: Run,
    budget_hours: Budget = None,
    max_attempts: Most = None,
    deadline: Deadline = None,
    json: Json = False,
) -> None:
    """Search on in a finished run. What is done stays done: nothing is measured twice."""
    from day0.agent import running

    more = running.More(budget_hours, max_attempts, deadline)
    raise typer.Exit(running.resume(run, more, as_json=json, finished=True))


def cancel(run: Run) -> None:
    """Stop a run within seconds, its servers too; `day0 resume RUN` continues it."""
    from day0.agent import running

    running.cancel(run)


def add_to(app: typer.Typer) -> None:
    """Registers this module's commands."""
    for command in (run, submit, queue, resume, retry, cancel):
        app.command()(command)
