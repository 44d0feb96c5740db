"""Tier 2 in the closing half: the reference is evaluated once a run, as the control; then whoever is about to win."""

from __future__ import annotations

from functools import partial

from day0.agent import referring, story
from day0.agent.accuracies import judgements
from day0.agent.gathering import climb_inputs
from day0.agent.inputs import ClimbInputs
from day0.agent.insist import Perform, insist
from day0.agent.parts import Parts
from day0.agent.proving import artifact, prove
from day0.agent.steps import tell
from day0.runs.candidate import Candidate
from day0.runs.schema import Attempt, Run
from day0.tools.canary import SAME_STACK
from day0.tools.evals import Eval

OPTION = "evals"


def asked(run: Run) -> tuple[Eval, ...]:
    """The evals that the run was asked with."""
    return tuple(Eval.model_validate(dict(e)) for e in run.request.options.get(OPTION, ()))


def settle(parts: Parts, run: Run, challenger: Attempt, baseline: Attempt) -> str:
    """Evaluates what is not evaluated yet. Why the challenger failed in it; empty: it did not."""
    evals = asked(run)
    done = {j.task for j in judgements(parts.ledger, challenger.id) if j.tier == 2}
    left = tuple(e for e in evals if e.name not in done)
    if not left:
        return ""
    inputs = climb_inputs(parts, run, challenger)
    words, candidate = reference_of(inputs, baseline)
    if missing := tuple(e for e in evals if _scores(parts, baseline, e) is None):
        tell(parts, run.id, 7, f"full evals of the reference: {', '.join(e.name for e in missing)}")
        own = partial(prove, candidate=candidate, inputs=inputs, evals=missing, words=words, known=None)

        def control(now: Attempt) -> Perform:
            return partial(own, attempt=now)

        # a reference that dies in it leaves no scores: the judgement says that nothing was checked
        insist(parts, run.id, baseline, control)
    known = {e.name: data for e in evals if (data := _scores(parts, baseline, e)) is not None}
    tell(parts, run.id, 7, f"full evals of {challenger.id.rpartition('-')[2]}: {', '.join(e.name for e in left)}")
    mine = partial(prove, candidate=challenger.candidate, inputs=inputs, evals=left, words=words, known=known)

    def winner(now: Attempt) -> Perform:
        return partial(mine, attempt=now)

    failed = insist(parts, run.id, challenger, winner)
    return "" if failed is None else f"it failed in its full evals: {failed.evidence}"


def reference_of(inputs: ClimbInputs, baseline: Attempt) -> tuple[str, Candidate]:
    """The configuration that the fixed reference is, and what it is in words."""
    fixed = referring.of(inputs)
    for words, candidate in referring.plainest(inputs, baseline.candidate):
        if fixed is not None and fixed.words.endswith(words):
            return fixed.words, candidate
    return f"{SAME_STACK}: {inputs.target.baseline_label}", baseline.candidate


def _scores(parts: Parts, baseline: Attempt, task: Eval) -> bytes | None:
    stored = story.artifact(parts.ledger, baseline.id, artifact(task, control=True))
    return None if stored is None else parts.artifacts.get(stored)
