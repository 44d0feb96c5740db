"""Tier 2: the full evals of one configuration on one boot, and what they show against the fixed reference."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from day0.agent.climb import at_once
from day0.agent.inputs import ClimbInputs
from day0.agent.lease import Facts, Lease
from day0.runs.accuracy import Judged, Judgement
from day0.runs.candidate import Candidate
from day0.runs.errors import CandidateFailed, Infrastructure
from day0.runs.facts import ArtifactKept, Progress
from day0.runs.schema import Attempt
from day0.sandboxes.base import Node
from day0.sandboxes.spec import SandboxSpec
from day0.tools import modelcard, noninferiority
from day0.tools.evals import READABLE, ROOM, THINKING_ROOM, Eval, Scores, broken, questions, scored
from day0.tools.evaluating import evaluate
from day0.tools.vendor import Vendor

REPEAT = 96
CONCURRENCY, MOST_AT_ONCE = 32, 256
"""questions at once: at least so many where no knee has more in flight, and at most"""
CARD = "the model card's score"


def artifact(task: Eval, *, control: bool) -> str:
    """The name under which scores are kept."""
    return f"{'reference-' if control else ''}eval-{task.name}.json"


def prove(
    node: Node,
    *,
    attempt: Attempt,
    candidate: Candidate,
    inputs: ClimbInputs,
    evals: tuple[Eval, ...],
    words: str,
    known: Mapping[str, bytes] | None,
) -> Facts:
    """Each eval on one boot of the candidate; its scores are kept. `known`: the reference's scores by task, `words`
    what it is, empty where it is the candidate itself; None: this is the reference, and nothing is judged. Raises as a
    boot does.
    """
    at = inputs.environments
    environment = at.evals or (at.harness if all(task.kind == "command" for task in evals) else "")
    if not environment:
        raise Infrastructure("lm-eval is not on this node: run `day0 engine install evals`")
    lease = Lease(node, attempt.id, attempt.epoch, candidate, inputs, attempt.boots + 1, repeat=REPEAT)
    cores = inputs.target.harness_cores
    spec = SandboxSpec(role="harness", environment=environment, attempt=attempt.id, epoch=attempt.epoch, cores=cores)
    try:
        if known is not None:
            yield lease.begin()
        else:
            lease.begin()
        with lease.open() as booted:
            resolved, caps = booted.server.facts.resolved, booted.server.facts.max_running_requests
            room = room_of(inputs, thinks=bool(resolved.get("reasoning_parser")))
            for task in evals:
                yield Progress(text=f"{task.name}, {'the reference' if known is None else 'the winner'}")
                most = at_once((k for _, _, k in attempt.knees), CONCURRENCY, caps, MOST_AT_ONCE)
                found = evaluate(node, spec, booted.server, task, concurrency=most, max_tokens=room)
                yield ArtifactKept(name=artifact(task, control=known is None), data=found.model_dump_json().encode())
                for judged in () if known is None else judgements(task, found, known, words, inputs):
                    yield Judged(boot=lease.boot, found=judged)
    except CandidateFailed:
        if known is not None:
            yield from lease.end()
        raise
    if known is not None:
        yield from lease.end()


def judgements(
    task: Eval, found: Scores, known: Mapping[str, bytes], words: str, inputs: ClimbInputs
) -> tuple[Judgement, ...]:
    """Against the model card where it has a score, and paired with the reference where its control holds."""
    out = []
    card = modelcard.of(task.name, modelcard.scores(Path(inputs.model_folder)))
    if card is not None:
        shown = noninferiority.marginals(card, found.share, len(found.rows), margin=task.margin)
        out.append(shown.judgement(f"{task.name}, published", CARD, tier=2))
    data = known.get(task.name)
    if data is None and not words:
        return tuple(out)
    control = None if data is None else Scores.model_validate_json(data)
    why = "it was not evaluated" if control is None else broken(control)
    theirs = {} if control is None or why else control.rights()
    paired = noninferiority.paired(theirs, found.rights(), margin=task.margin, benchmark=len(found.rows))
    named = words if control is None else control.by or words
    out.append(paired.judgement(task.name, f"{named}{f' ({why})' if why else ''}", tier=2))
    return tuple(out)


def ask_vendor(node: Node, *, vendor: Vendor, evals: tuple[Eval, ...], room: int) -> Facts:
    """The vendor's endpoint as the control, kept where its answers can be read. Asked one question after the other."""
    for task in evals:
        yield Progress(text=f"{task.name}, {vendor.words}")
        answers = vendor.ask(questions(task, room))
        found = scored(task, answers, vendor.words)
        failed = [a.error for a in answers if a.error]
        many = len(failed) > (1 - READABLE) * len(answers)
        if why := f"{len(failed)} of {len(answers)} questions failed: {failed[0]}" if many else broken(found):
            yield Progress(step=7, text=f"{vendor.words} is no reference for {task.name}: {why}")
        else:
            yield ArtifactKept(name=artifact(task, control=True), data=found.model_dump_json().encode())


def room_of(inputs: ClimbInputs, *, thinks: bool) -> int:
    """Tokens of an answer to a full eval: what a model that thinks first may take, within half of the context."""
    return min(THINKING_ROOM if thinks else ROOM, inputs.model_facts.context // 2)
