"""Rung `replay`: a recipe measured again in a clean sandbox with empty caches, from the recipe's value alone."""

from __future__ import annotations

from dataclasses import dataclass, replace

from day0.agent.confirm import around
from day0.agent.figures import KNEE, at_rate, proven_rate
from day0.agent.inputs import ClimbInputs
from day0.agent.lease import Facts, Lease
from day0.agent.preparing import verify
from day0.agent.wearing import prove
from day0.runs.errors import CandidateFailed
from day0.runs.facts import FailureClass, FigureChecked, Rung, RungStarted, Verdict
from day0.runs.recipe import Figure, Recipe
from day0.sandboxes.base import Node
from day0.tools import image

MODEL, PORT, HOST = "{model}", "{port}", "{host}"


@dataclass(frozen=True)
class Replayed:
    """Under which attempt's name, epoch and boot number a replay runs on the node."""

    attempt: str
    epoch: int
    boot: int


def replay(node: Node, *, recipe: Recipe, inputs: ClimbInputs, name: Replayed) -> Facts:
    """Verifies what the recipe pins, boots it cold, checks each figure, ends with a verdict on `replay`.

    Raises `Infrastructure` when the pinned build or revision is not here.
    """
    yield RungStarted(rung=Rung.REPLAY)
    candidate, inputs = recipe.candidate(), carrying(recipe, inputs)
    image.ready(node, inputs.environments.folder(candidate.build))
    verify(inputs, candidate)
    lease = Lease(node, name.attempt, name.epoch, candidate, inputs, name.boot, repeat=98, clean=True)
    rate, workload = proven_rate(recipe), recipe.workload
    outside: list[str] = []
    try:
        same_line(recipe, inputs)
        yield from prove(node, inputs, candidate, name.attempt, name.epoch)
        yield lease.begin()
        with lease.open() as booted:
            yield booted.ready()
            knee, points = yield from around(booted, workload, Rung.REPLAY, rate, inputs.seed)
        measured = {KNEE: knee.rate_rps, **at_rate(points, rate, workload)}
        for figure in recipe.figures:
            if figure.name not in measured:
                continue
            checked = check(figure, measured[figure.name])
            yield checked
            if not checked.within:
                outside.append(f"{figure.name} {checked.measured:.4g} {figure.unit}")
    except CandidateFailed as failed:
        yield from lease.end()
        yield failed_verdict(f"{failed.failure}: {failed.evidence}", failed.issue)
        return
    yield from lease.end()
    if outside:
        yield failed_verdict(f"outside its range: {', '.join(outside)}", "")
    else:
        yield Verdict(rung=Rung.REPLAY, passed=True, detail="every figure within its range, from empty caches")


def carrying(recipe: Recipe, inputs: ClimbInputs) -> ClimbInputs:
    """The inputs with the recipe's own patches and tables and no others."""
    patches = {patch.digest(): patch for patch in recipe.patches}
    return replace(inputs, patches=patches, tables={table.digest(): table for table in recipe.tables})


def check(figure: Figure, measured: float) -> FigureChecked:
    """A figure against its published range."""
    return FigureChecked(
        name=figure.name,
        unit=figure.unit,
        low=figure.low,
        high=figure.high,
        measured=measured,
        within=figure.holds(measured),
    )


def failed_verdict(evidence: str, issue: str) -> Verdict:
    """The recipe is not a result."""
    return Verdict(
        rung=Rung.REPLAY, passed=False, failure=FailureClass.NOT_REPRODUCIBLE, evidence=evidence, issue=issue
    )


def same_line(recipe: Recipe, inputs: ClimbInputs) -> None:
    """Raises `CandidateFailed` unless this day0 launches the candidate by the very line of the recipe."""
    asked = recipe.candidate()
    launch = inputs.engine.launch(asked, inputs.engine_facts.of(asked.build), host=HOST, port=0)
    mine = placeholders(launch.argv, recipe.model.id)
    if mine != recipe.launch.argv:
        raise CandidateFailed(
            FailureClass.NOT_REPRODUCIBLE, f"the recipe was launched by another line than this day0 builds: {mine}"
        )


def placeholders(argv: tuple[str, ...], model: str) -> tuple[str, ...]:
    """A launch line with `{model}`, `{host}` and `{port}` for what differs from machine to machine and boot to boot."""
    out: list[str] = []
    for word in argv:
        before = out[-1] if out else ""
        out.append(
            {"--model-path": MODEL, "--port": PORT, "--host": HOST}.get(before, MODEL if word == model else word)
        )
    return tuple(out)
