"""From a confirmed attempt to its recipe."""

from __future__ import annotations

from collections.abc import Sequence

from day0.agent import consenting, figures, story
from day0.agent.accuracies import accuracy
from day0.agent.floor import spread
from day0.agent.gathering import climb_inputs, current_view
from day0.agent.parts import Parts
from day0.agent.policy import decide
from day0.agent.replay import HOST, placeholders
from day0.runs.consents import KINDS
from day0.runs.errors import Infrastructure
from day0.runs.facts import Knee, Rung
from day0.runs.findings import Held, Stability
from day0.runs.ledger import Ledger
from day0.runs.recipe import (
    Configuration,
    EnginePin,
    Gain,
    LaunchLine,
    ModelPin,
    Noise,
    Provenance,
    Recipe,
    Step,
)
from day0.runs.schema import Attempt, Run
from day0.runs.workload import Workload
from day0.tools.publish_text import waiver
from day0.tools.revision import file_hashes


def recipe_of(parts: Parts, run: Run, winner: Attempt, workload: Workload) -> Recipe:
    """The recipe of a workload's winner, from the ledger and the model folder."""
    seen, inputs = current_view(parts, run), climb_inputs(parts, run, winner)
    candidate = winner.candidate
    boots = own_boots(parts.ledger, winner, seen.attempts if winner.id == run.baseline else (winner,), workload)
    if not boots:
        raise Infrastructure(f"{winner.id} has no knee on {workload.name}")
    launch = parts.engine.launch(candidate, inputs.engine_facts.of(candidate.build), host=HOST, port=0)
    return Recipe(
        replay=f"day0 replay recipe-{run.id}-{workload.name}.yaml",
        engine=EnginePin(
            name=candidate.engine,
            build=candidate.build,
            version=seen.engine.version,
            packages=seen.engine.packages,
        ),
        model=ModelPin(
            id=candidate.model,
            revision=candidate.revision,
            files=file_hashes(parts.model_folder, parts.home),
            consents=tuple(kind for kind in KINDS if kind in consenting.of(run.request)),
        ),
        configuration=Configuration(
            flags=candidate.flags, env=candidate.env, patches=candidate.patches, tables=candidate.tables
        ),
        patches=inputs.patches_of(candidate),
        patched=bool(candidate.patches),
        waiver=waiver(inputs.patches_of(candidate), pulls=(), model=candidate.model) if candidate.patches else "",
        tables=inputs.tables_of(candidate),
        launch=LaunchLine(argv=placeholders(launch.argv, candidate.model), env=dict(launch.env)),
        figures=figures.figures(workload, boots, seen.noise, simulated=run.request.target.kind == "twin"),
        conditions=figures.conditions(workload, boots),
        gain=_gain(parts, run, winner),
        accuracy=accuracy(parts.ledger, winner.id),
        noise=_noise(parts.ledger, run, workload, seen.noise),
        stability=_stability(parts, run, winner, workload),
        waterfall=waterfall(run, winner, seen.attempts, workload),
        workload=workload,
        target=run.request.target,
        node=seen.node.model_copy(update={"boot_id": ""}),
        provenance=Provenance(
            run=run.id,
            attempt=winner.id,
            day0=version(),
            seed=run.request.seed,
            policy=run.request.policy,
            objective=run.request.objective,
        ),
    )


def own_boots(
    ledger: Ledger, winner: Attempt, challengers: Sequence[Attempt], workload: Workload
) -> list[figures.OwnBoot]:
    """The winner's boot that was measured, then those of its side in the challengers' pairs, under whom they stand."""

    def bracketed(attempt: Attempt, rung: Rung, knee: Knee | None) -> list[figures.OwnBoot]:
        """The boot of that attempt that gave this knee; None = the first of that rung."""
        found = [(b, k) for b, r, k in attempt.knees if r == rung and k.workload == workload.name]
        boot, own = next(((b, k) for b, k in found if knee is None or k == knee), (0, knee))
        points = tuple(p for b, r, p in attempt.points if (b, r, p.workload) == (boot, rung, workload.name))
        return [] if own is None else [figures.OwnBoot(own, points)]

    boots = bracketed(winner, Rung.MEASURE, None)
    for attempt in challengers:
        for pair in ledger.pairs(attempt.id):
            own = pair.challenger if attempt.id == winner.id else pair.incumbent
            if own.workload == workload.name:
                boots += bracketed(attempt, Rung.CONFIRM, own)
    return boots


def _gain(parts: Parts, run: Run, winner: Attempt) -> Gain | None:
    found = [c for c in parts.ledger.comparisons(run.id) if c.challenger == winner.id and c.better]
    if not found:
        return None
    last = found[-1]
    return Gain(
        baseline=run.request.target.baseline_label,
        gain=last.gain,
        lower=last.lower,
        upper=last.upper,
        pairs=len(last.pairs),
        method=last.method,
    )


def _noise(ledger: Ledger, run: Run, workload: Workload, sd: float) -> Noise | None:
    found = next((f for f in story.floors(ledger, run.id) if f.workload == workload.name), None)
    if found is None:
        return None
    boots = len(found.rates_rps)
    return Noise(sd=sd, boots=boots, spread=spread(found) if boots else None, why_none=found.why_none)


def _stability(parts: Parts, run: Run, winner: Attempt, workload: Workload) -> Stability | None:
    told = [e.data for e in parts.ledger.facts(run.id, "held", attempt=winner.id)]
    found = [Held.model_validate({"kind": "held", **data}).found for data in told if data["workload"] == workload.name]
    return found[-1] if found else None


def waterfall(run: Run, winner: Attempt, attempts: tuple[Attempt, ...], workload: Workload) -> tuple[Step, ...]:
    """The accepted changes from the baseline to the winner, in their order."""
    by_id = {a.id: a for a in attempts}
    path: list[Attempt] = []
    here: Attempt | None = winner
    while here is not None and here.id != run.baseline:
        path.append(here)
        here = by_id.get(here.parent or "")
    steps: list[Step] = []
    before = by_id.get(run.baseline or "")
    for attempt in reversed(path):
        knee = attempt.knee(workload.name)
        was = decide.worth(before, run.request, workload=workload)
        now = decide.worth(attempt, run.request, workload=workload)
        if before is None or knee is None:
            continue
        steps.append(
            Step.model_validate(
                {
                    "attempt": attempt.id,
                    "change": attempt.candidate.changed(before.candidate),
                    "goodput_tok_s": knee.goodput_tok_s,
                    "gain": now / was - 1 if now and was else 0.0,
                    "hypothesis": attempt.hypothesis,
                }
            )
        )
        before = attempt
    return tuple(steps)


def version() -> str:
    """The installed version of day0."""
    from importlib.metadata import version as installed

    return installed("day0")
