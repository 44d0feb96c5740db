"""Admission: what may climb. Costs nothing and starts nothing; whatever is refused goes back as a fact.

`admit` gives the candidate or the first reason against it, in the order: does it exist, is it allowed, was it tried,
can it fit, can it be paid for.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Protocol

from day0.agent.policy import bans, crafts, fit
from day0.agent.policy.axes import STARTING, Option
from day0.agent.policy.decide import cost
from day0.runs.candidate import Candidate
from day0.runs.engine_facts import EngineFacts, ModelFacts
from day0.runs.errors import Refused
from day0.runs.schema import FINISHED, Attempt
from day0.runs.values import FrozenMap

if TYPE_CHECKING:
    from day0.agent.policy.actions import TryCandidate
    from day0.agent.policy.base import RunView
    from day0.runs.workload import FlagValue


class Check(Protocol):
    """The engine adapter's own judgement of a candidate, with what is known of its model. Raises `Refused`."""

    def __call__(self, candidate: Candidate, facts: EngineFacts, *, model: ModelFacts | None = None) -> None: ...


MAX_CHANGES = 24


def check_flags(candidate: Candidate, facts: EngineFacts, *, model: ModelFacts | None = None) -> None:
    """Flags against the engine's own `--help`. Raises `Refused` naming the flag and the nearest that exists."""
    for name, value in candidate.flags.items():
        spec = facts.flag(name)
        if spec is None:
            names = [n for f in facts.flags for n in (f.name, *f.aliases)]
            near = difflib.get_close_matches(name, names, n=1)
            hint = f"; the nearest is --{near[0]}" if near else ""
            raise Refused(f"--{name} is unknown to {facts.engine} {facts.version}{hint}")
        if spec.takes_value and isinstance(value, bool):
            raise Refused(f"--{name} takes a value ({spec.metavar or 'see --help'})")
        if not spec.takes_value and not isinstance(value, bool):
            raise Refused(f"--{name} is a switch: true or null, not {value!r}")
        if value is False and not spec.negatable:
            raise Refused(f"--{name} has no negative form; null removes it")
        if spec.choices and spec.takes_value and str(value) not in spec.choices:
            raise Refused(f"--{name} {value} is not offered: {', '.join(spec.choices[:12])}")


def admit(action: TryCandidate, view: RunView, *, check: Check = check_flags) -> Candidate | Refused:
    """The candidate that an action asks for, or why it does not climb. `check` is the engine adapter's own."""
    parent = view.attempt(action.parent)
    if parent is None:
        known = ", ".join(a.id for a in view.attempts[-5:]) or "none yet"
        return Refused(f"there is no attempt {action.parent!r} to change; the latest are {known}")
    candidate = built(action, parent, view.engine)
    for test in (_allowed, _own, _new):
        if reason := test(action, candidate, parent, view):
            return Refused(reason)
    base_env = view.request.target.base_env
    own = FrozenMap((k, v) for k, v in candidate.env.items() if base_env.get(k) != v)
    try:
        # what the target itself sets is not the candidate's doing; what another image offers is known once it boots
        facts = view.engine.of(candidate.build) if candidate.build in view.images else view.engine
        check(candidate.model_copy(update={"env": own}), facts, model=view.model)
    except Refused as refused:
        return refused
    if reason := fit.misfit(candidate, view) or _affordable(view):
        return Refused(reason)
    return candidate


def built(action: TryCandidate, parent: Attempt, facts: EngineFacts) -> Candidate:
    """The parent's candidate with the action's changes, aliases resolved to the engine's own names."""
    flags: dict[str, FlagValue | None] = {}
    for name, value in action.flags.items():
        spec = facts.flag(name)
        names = {spec.name, *spec.aliases} if spec else {name}
        # builds differ in which of its names a layout flag prints first; the candidate always has day0's
        flags[next(iter(sorted(names & STARTING)), spec.name if spec else name)] = value
    return Option("", flags, action.env, image=action.image).on(parent.candidate)


def _allowed(action: TryCandidate, candidate: Candidate, parent: Attempt, view: RunView) -> str:
    if action.image and action.image not in {*view.images, view.engine.build}:
        known = ", ".join(sorted(view.images)) or "none beside the run's own"
        return f"no node of this run has the image {action.image[:80]!r}; there are {known}"[:400]
    changed = candidate.changed(parent.candidate)
    if len(changed) > MAX_CHANGES:
        return f"{len(changed)} changes at once say nothing; {MAX_CHANGES} are the limit"
    base_flags, base_env = view.request.target.base_flags, view.request.target.base_env
    for name, value in candidate.flags.items():
        if base_flags.get(name) != value and (reason := bans.flag_ban(name, value)):
            return reason
    for name, text in candidate.env.items():
        if base_env.get(name) != text and (reason := bans.env_ban(name, text, view.engine.capabilities)):
            return reason
    shown = candidate.flags.get("context-length")
    base = base_flags.get("context-length", view.model.context)
    if shown is not None and fit.number(shown, 0) < fit.number(base, view.model.context):
        return "a context shorter than the model's is banned: it serves less than was asked for"
    return ""


def _own(action: TryCandidate, candidate: Candidate, parent: Attempt, view: RunView) -> str:
    target = view.request.target
    for name, value in target.base_flags.items():
        if name not in STARTING and candidate.flags.get(name) != value:
            return f"the target {target.name} needs --{name} {value}"
    return ""


def _new(action: TryCandidate, candidate: Candidate, parent: Attempt, view: RunView) -> str:
    if action.crafted:
        return crafts.against(action, candidate, parent, view)
    if candidate == parent.candidate:
        return f"this changes nothing about {parent.id}"
    earlier = next((a for a in view.attempts if a.candidate == candidate), None)
    if earlier is None:
        return ""
    end = earlier.status.value if earlier.status in FINISHED else f"still {earlier.status.value}"
    return f"the same candidate is {earlier.id}, {end}: {earlier.reason}".rstrip(": ")


def _affordable(view: RunView) -> str:
    if view.attempts_left <= 0:
        return "no attempts are left"
    typical = cost(view.attempts)
    if view.budget_left_s <= 0 or (typical is not None and view.budget_left_s < typical):
        return f"{max(0.0, view.budget_left_s):.0f} node seconds are left; an attempt takes {typical or 0:.0f}"
    return ""
