"""Tier 2 in the closing half: the reference is evaluated once a run, as the control; then whoever is about to win."""

from __future__ import annotations

from functools import partial

from day0.agent import referring, story
from day0.agent.accuracies import judgements
from day0.agent.gathering import climb_inputs
from day0.agent.inputs import ClimbInputs
from day0.agent.insist import Perform, insist
from day0.agent.parts import Parts
from day0.agent.proving import artifact, ask_vendor, prove, room_of
from day0.agent.steps import tell
from day0.runs.candidate import Candidate
from day0.runs.schema import Attempt, Run
from day0.tools.canary import SAME_STACK
from day0.tools.evals import READS, Eval, Scores

OPTION = "evals"


def asked(run: Run) -> tuple[Eval, ...]:
    """The evals that the run was asked with."""
    return tuple(Eval.model_validate(dict(e)) for e in run.request.options.get(OPTION, ()))


def settle(parts: Parts, run: Run, challenger: Attempt, baseline: Attempt) -> str:
    """Evaluates what is not evaluated yet. Why the challenger failed in it; empty: it did not.

    The baseline itself where nothing beat it: against whatever reference is not the baseline itself, else its scores
    alone are kept, and what the model card says of them.
    """
    evals = asked(run)
    if not evals:
        return ""
    judged = {j.task for j in judgements(parts.ledger, challenger.id) if j.tier == 2}
    inputs = climb_inputs(parts, run, challenger)
    words, candidate = reference_of(inputs, baseline)
    itself = challenger.id == baseline.id and candidate == baseline.candidate
    known = {e.name: data for e in evals if (data := _scores(parts, baseline, e, control=True)) is not None}
    left = tuple(
        e
        for e in evals
        if e.name not in judged
        and not (itself and e.name not in known and _scores(parts, challenger, e, control=False) is not None)
    )
    if not left:
        return ""
    missing = tuple(e for e in evals if e.name not in known)
    _control(parts, run, baseline, missing, None if itself else (words, candidate))
    known = {e.name: data for e in evals if (data := _scores(parts, baseline, e, control=True)) is not None}
    tell(parts, run.id, 7, f"full evals of {challenger.id.rpartition('-')[2]}: {', '.join(e.name for e in left)}")
    against = "" if itself else words
    mine = partial(prove, candidate=challenger.candidate, inputs=inputs, evals=left, words=against, known=known)

    def winner(now: Attempt) -> Perform:
        return partial(mine, attempt=now)

    failed = insist(parts, run.id, challenger, winner)
    for task in left:
        if (data := _scores(parts, challenger, task, control=False)) is not None:
            found = Scores.model_validate_json(data)
            tell(parts, run.id, 7, f"{task.name}: {found.share:.1%} of {len(found.rows)} right")
    return "" if failed is None else f"it failed in its full evals: {failed.evidence}"


def _control(
    parts: Parts, run: Run, baseline: Attempt, missing: tuple[Eval, ...], fixed: tuple[str, Candidate] | None
) -> None:
    """The reference's own scores: of the vendor's endpoint where it can be asked, else of a boot of `fixed`.

    A task of lm-eval's own and a command are never put to the outside. A reference that dies in it leaves no scores:
    the judgement says that nothing was checked.
    """
    vendor, asks = parts.vendor, tuple(e for e in missing if e.kind in READS)
    if vendor is not None and asks:
        tell(parts, run.id, 7, f"full evals of {vendor.words}: {', '.join(e.name for e in asks)}")
        room = room_of(climb_inputs(parts, run, baseline), thinks=True)  # more than is needed costs nothing there
        insist(parts, run.id, baseline, lambda now: partial(ask_vendor, vendor=vendor, evals=asks, room=room))
        missing = tuple(e for e in missing if _scores(parts, baseline, e, control=True) is None)
    if fixed is None or not missing:
        return
    tell(parts, run.id, 7, f"full evals of the reference: {', '.join(e.name for e in missing)}")
    inputs = climb_inputs(parts, run, baseline)
    own = partial(prove, candidate=fixed[1], inputs=inputs, evals=missing, words=fixed[0], known=None)
    insist(parts, run.id, baseline, lambda now: partial(own, attempt=now))


def reference_of(inputs: ClimbInputs, baseline: Attempt) -> tuple[str, Candidate]:
    """The configuration that the fixed reference is, and what it is in words."""
    fixed = referring.of(inputs)
    for words, candidate in referring.plainest(inputs, baseline.candidate):
        if fixed is not None and fixed.words.endswith(words):
            return fixed.words, candidate
    return f"{SAME_STACK}: {inputs.target.baseline_label}", baseline.candidate


def _scores(parts: Parts, attempt: Attempt, task: Eval, *, control: bool) -> bytes | None:
    stored = story.artifact(parts.ledger, attempt.id, artifact(task, control=control))
    return None if stored is None else parts.artifacts.get(stored)
