"""The fixed reference of a run: the plainest configuration of the engine on this node, asked before anything else.

Without aiter, speculation and a narrow KV cache where that boots; else with the engine's own kernels; else the
baseline itself. It is marked `same-stack`: what all configurations of this engine get wrong alike is not seen by it.
Made once, on the baseline's climb, and the same for every candidate: never the incumbent.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from pathlib import Path

from day0.agent.inputs import ClimbInputs
from day0.agent.lease import Booted, Lease
from day0.runs.candidate import Candidate
from day0.runs.engine_facts import ModelFacts
from day0.runs.errors import CandidateFailed
from day0.runs.facts import ArtifactKept, Fact, FailureClass, Progress
from day0.runs.schema import Attempt
from day0.runs.values import Frozen, Map
from day0.sandboxes.base import Node
from day0.tools import canary, probes
from day0.tools.canary import Checked, Reference
from day0.tools.vendor import Vendor
from pydantic import Field, TypeAdapter

NAME, LOG = "reference.json", "reference.log"
"""artifacts of the baseline"""
REPEAT = 97
"""keys the contents of what the reference is asked, as a pair's number does"""
PLAIN_KV = "bfloat16"
AITER = "SGLANG_USE_AITER"
MOST_LONG_CHARS, LONG_SHARE = 40_000, 0.5
"""of the long-context question, and how much of the model's context it fills"""
ANSWERS = ("answers-answer.json", "answers-accuracy.json")
"""artifacts of every attempt's own answers"""
REFERENCE: TypeAdapter[Reference] = TypeAdapter(Reference)


class Fixed(Frozen):
    """The reference: what it is in words, and what it answered."""

    words: str
    answers: Reference
    argv: tuple[str, ...] = Field(default=(), description="how it was launched; empty: as the baseline")
    env: Map[str] = Field(default_factory=dict)

    def kept(self) -> ArtifactKept:
        """As the ledger keeps it."""
        return ArtifactKept(name=NAME, data=self.model_dump_json().encode())


def of(inputs: ClimbInputs) -> Fixed | None:
    """The reference of this climb; None while there is none."""
    return Fixed.model_validate_json(inputs.reference) if inputs.reference else None


def kept(read: Callable[[str], bytes | None], baseline: str, *, own: bool) -> bytes:
    """The reference from what the baseline's climb kept, `read` by the artifact's name; empty: there is none.

    `baseline` is what the baseline is in words: its own answers are the reference where nothing plainer gave any, or
    beside what the vendor's endpoint can't tell, and nothing for itself (`own`).
    """
    found = read(NAME)
    made = None if found is None else Fixed.model_validate_json(found)
    if found is not None and (own or (made is not None and made.argv)):
        return found  # a boot of its own told everything
    parts = [] if own else [data for name in ANSWERS if (data := read(name)) is not None]
    answers = tuple(a for data in parts for a in REFERENCE.validate_json(data))
    words = f"{canary.SAME_STACK}: {baseline}"
    if made is not None:
        answers, words = merged(answers, made.answers), f"{made.words}; what it can't tell, {words}"
    return Fixed(words=words, answers=answers).kept().data if answers else b""


def plainest(inputs: ClimbInputs, baseline: Candidate) -> tuple[tuple[str, Candidate], ...]:
    """Plainer configurations than the baseline, plainest first, each with what it is in words; none: it is plain."""
    if inputs.target.accelerator == "cpu":
        return ()
    flags = {k: v for k, v in baseline.flags.items() if not k.startswith("speculative-")}
    known = inputs.engine_facts.flag("kv-cache-dtype")
    if known is not None and PLAIN_KV in known.choices:
        flags["kv-cache-dtype"] = PLAIN_KV
    kernels = baseline.model_copy(update={"flags": flags})
    bare = kernels.model_copy(update={"env": {**baseline.env, AITER: "0"}})
    words = ("without aiter, without speculation, BF16 cache", "without speculation, BF16 cache; it needs aiter")
    made = zip(words, (bare, kernels), strict=True)
    return tuple((text, Candidate.model_validate(c.model_dump())) for text, c in made if c != baseline)


def fixed(
    node: Node, attempt: Attempt, inputs: ClimbInputs, *asks: Callable[[Booted, ClimbInputs], Checked]
) -> Generator[Fact, None, ClimbInputs]:
    """Boots the plainest configuration that works and keeps its answers; the inputs with that reference.

    They come back as they were where nothing plainer than the baseline boots and answers. Such a boot is none of the
    baseline's own: its log and its answers are kept, its time is the run's.
    """
    told: Reference = ()
    if inputs.vendor is not None:
        told = yield from asked_of(inputs.vendor, inputs)
    for words, candidate in plainest(inputs, attempt.candidate):
        yield Progress(text=f"the reference: {words}")
        lease = Lease(node, attempt.id, attempt.epoch, candidate, inputs, attempt.boots + 1, repeat=REPEAT)
        made: Fixed | None = None
        try:
            begun = lease.begin()
            with lease.open() as booted:
                own = tuple(a for ask in asks for a in _sound(ask(booted, inputs)).answers)
                named = f"{canary.SAME_STACK}: {words}"
                if inputs.vendor is not None and told:
                    named = f"{inputs.vendor.words}; what it can't tell, {named}"
                made = Fixed(words=named, answers=merged(own, told), argv=begun.argv, env=begun.env)
        except CandidateFailed as failed:
            yield Progress(text=f"it does not work: {failed.failure}: {failed.evidence[:200]}")
        yield ArtifactKept(name=LOG, data=lease.log)
        if made is not None:
            yield made.kept()
            return replace(inputs, reference=made.kept().data)
    if inputs.vendor is not None and told:
        alone = Fixed(words=inputs.vendor.words, answers=told).kept()
        yield alone
        return replace(inputs, reference=alone.data)
    return inputs


def asked_of(vendor: Vendor, inputs: ClimbInputs) -> Generator[Fact, None, Reference]:
    """What the vendor's endpoint answers; nothing where it fails its own control or can't be reached (S35)."""
    folder = Path(inputs.model_folder)
    task, kit = canary.task_of(folder), probes.Kit(tool_parser="its own", reasoning_parser="its own")
    yield Progress(text=f"the reference: {vendor.words}")
    room = probes.THINK_TOKENS  # one more than is needed costs nothing there
    asked = [*canary.questions(task, kit, long_chars(inputs.model_facts), room), *canary.whole(task, room)]
    answers = vendor.ask(list({q.key: q for q in asked}.values()))
    of_task = [a for a in answers if a.key.startswith("task:" if task else "prose:")]
    control = canary.judge_accuracy(task, of_task, None)
    if not control.passed:
        yield Progress(text=f"it is no reference: {control.evidence[:200]}")
        return ()
    return tuple(a for a in answers if not a.error)


def long_chars(model: ModelFacts) -> int:
    """Characters of the long-context question, the same for the reference and for every candidate.

    A token is 1 for a vocabulary of single characters, else a careful 2.5 of English text.
    """
    each = 1.0 if model.vocab <= 512 else 2.5
    return min(MOST_LONG_CHARS, int(model.context * LONG_SHARE * each))


def merged(own: Reference, told: Reference) -> Reference:
    """The vendor's answer where it gave one, else this node's plainest configuration's."""
    return tuple({**{a.key: a for a in own}, **{a.key: a for a in told}}.values())


def _sound(checked: Checked) -> Checked:
    """A control: one that fails its own task says nothing about candidates (S35). Raises `CandidateFailed`."""
    if not checked.passed:
        raise CandidateFailed(checked.failure or FailureClass.UNKNOWN, checked.evidence)
    return checked
