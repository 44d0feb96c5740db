"""What the loop's bodies read before they act: the policy's view, and what a climb compares with. From the ledger."""

from __future__ import annotations

from day0.agent import referring, story, view
from day0.agent.inputs import ClimbInputs
from day0.agent.learning import family_of
from day0.agent.parts import Parts
from day0.agent.policy import decide
from day0.agent.policy.base import RunView
from day0.runs.gained import taught
from day0.runs.ledger_writer import Writer
from day0.runs.schema import FINISHED, Attempt, AttemptStatus, Run


def current_view(parts: Parts, run: Run) -> RunView:
    """The policy's view of a run, as the ledger has it now."""
    at = parts.environments
    return view.view(
        parts.ledger, run, build=at.engine_build, node=parts.node, images=at.images, nodes=parts.pool.count()
    )


def policys_view(parts: Parts, run: Run) -> RunView:
    """The same with what other runs on this engine build measured."""
    seen = current_view(parts, run)
    known = taught(
        parts.ledger.gained(),
        family=family_of(seen.model),
        accelerator=run.request.target.accelerator,
        build=seen.engine.build,
        run=run.id,
    )
    return seen.model_copy(update={"experience": known})


def climb_inputs(parts: Parts, run: Run, attempt: Attempt | None = None) -> ClimbInputs:
    """What a climb compares with, from the ledger: engine and model facts, the reference, the knees to beat.

    Those are the leaders', who stand for the incumbent until one is confirmed: what does not beat them is discarded
    in the end, so a screen against less would only let it spend a whole ladder first. They are the leaders of the time
    when the attempt was admitted: a neighbour of the same round that ends sooner, or a kill, changes no screen.
    """
    seen = current_view(parts, run)
    own = attempt is not None and attempt.id == run.baseline
    gpus = run.request.target.gpus or seen.node.gpus
    known = None if attempt is None else story.admitted_after(parts.ledger, attempt.id)
    then = [a for a in seen.attempts if known is None or a.id in known]
    best = {w.name: decide.leader_of(then, run.request, gpus, w) for w in run.request.workloads}
    knees = {name: lead.knee(name) for name, lead in best.items() if lead is not None and not own}

    def read(name: str) -> bytes | None:
        stored = story.artifact(parts.ledger, str(run.baseline), name)
        return None if stored is None else parts.artifacts.get(stored)

    return ClimbInputs(
        target=run.request.target,
        workloads=run.request.workloads,
        engine=parts.engine,
        engine_facts=seen.engine,
        model_facts=seen.model,
        model_folder=str(parts.model_folder),
        environments=parts.environments,
        seed=run.request.seed,
        noise=seen.noise,
        reference=referring.kept(read, run.request.target.baseline_label, own=own),
        vendor=parts.vendor,
        incumbent={name: knee for name, knee in knees.items() if knee is not None},
        patches=seen.patches,
        tables=seen.tables,
        learned=seen.learned,
    )


def hangs_on_noise(parts: Parts, run: Run, attempt: Attempt) -> bool:
    """Whether the verdict about a climbed attempt waits for the noise floor (`day0.agent.floor`)."""
    gpus = run.request.target.gpus or current_view(parts, run).node.gpus
    return decide.hangs_on_noise(attempt, parts.ledger.attempts(run.id), run.request, gpus)


def note_admission(writer: Writer, attempt: Attempt, seen: RunView) -> None:
    """Which attempts were decided when this one was admitted."""
    if attempt.status == AttemptStatus.QUEUED and attempt.epoch == 0:
        decided = sorted(a.id for a in seen.attempts if a.status in FINISHED)
        writer.event("admitted_after", {"decided": decided}, attempt=attempt.id, key=f"after:{attempt.id}")
