"""Whose turn it is: the LLM leads while what is left of the budget also pays for all that the playbook may still want.

So a run that an LLM leads ends no worse than the playbook alone, whatever the LLM does: its own ideas are paid from
what the playbook would leave over, they end after as many in a row without a gain as the playbook's own patience has,
and the playbook does what it would have done without them, but for what was kept. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from day0.agent.policy import crafts
from day0.agent.policy.actions import Action, Finish, TryCandidate
from day0.agent.policy.axes import site_of
from day0.agent.policy.decide import PATIENCE, cost, fruitless
from day0.agent.policy.guard import Check, admit, built
from day0.runs.errors import Refused
from day0.runs.schema import FINISHED, AttemptStatus

if TYPE_CHECKING:
    from day0.agent.policy.base import Proposal, RunView
    from day0.runs.schema import Attempt

LLM = "llm"
STAND_IN = "stand-in"
"""Proposer of what the playbook tried in the LLM's place; such attempts never count as "no improvement"."""
PLAYBOOKS = frozenset({"playbook", STAND_IN})
PLAN = {"cpu": 30, "gpu": 10}
"""experiments that the playbook may want beside its patience, by kind of machine: on accelerators what it took at most
in the shipped worlds and the drawn ones, on a processor one for each axis and some of their neighbours"""
DEARER = 1.5
"""an idea of the LLM's may cost so much more than a typical experiment: boots that hang, tuned kernels apart"""
TUNE_S = 3 * 3600.0
"""node seconds that tuning kernels may take (`day0.agent.crafting`)"""
FIRST = 1
"""own ideas that it may try however small the budget is, once the playbook's next step promises little; each that was
kept allows one more"""
LITTLE = 0.03
"""what the playbook's priors promise of settings that rarely pay"""


def needed(view: RunView, patience: int = PATIENCE) -> int:
    """Experiments that the playbook may still want."""
    made = sum(1 for a in view.attempts if a.proposer in PLAYBOOKS)
    return max(0, patience - fruitless(view.attempts)) + max(0, PLAN[site_of(view).kind] - made)


def spare_s(view: RunView, needs: int) -> float:
    """Node seconds of the search that the playbook's `needs` experiments would leave over."""
    return view.budget_left_s - needs * (cost(view.attempts) or 0.0)


def vain(view: RunView) -> int:
    """The LLM's own experiments since the last one, of whomever, that was kept."""
    count = 0
    for attempt in sorted(view.attempts, key=lambda a: a.number):
        if attempt.status == AttemptStatus.KEPT:
            count = 0
        elif attempt.proposer == LLM and attempt.status in {AttemptStatus.DISCARDED, AttemptStatus.FAILED}:
            count += 1
    return count


def room(view: RunView, *, promise: float | None, patience: int = PATIENCE) -> int:
    """How many own ideas the LLM may try now. `promise` is of the playbook's next step; None: it has none left."""
    finished = promise is None
    typical = cost(view.attempts) or 0.0
    needs = 0 if finished else needed(view, patience)
    most = view.attempts_left - needs
    if typical:
        most = min(most, int(max(0.0, spare_s(view, needs)) / (DEARER * typical)))
    if promise is not None and promise <= LITTLE and view.attempts_left > 1 and view.budget_left_s > 2 * typical:
        most = max(most, _credit(view.attempts))
    return max(0, min(most, patience - vain(view)))


def why_none(view: RunView, patience: int = PATIENCE) -> str:
    """Why there is no room, for people."""
    if (tries := vain(view)) >= patience:
        return f"{tries} of the LLM's experiments in a row brought no improvement"
    return f"what is left of the budget pays for the {needed(view, patience)} experiments that the playbook may want"


def _credit(attempts: tuple[Attempt, ...]) -> int:
    own = [a for a in attempts if a.proposer == LLM]
    kept = sum(1 for a in own if a.status == AttemptStatus.KEPT)
    return FIRST + kept - (len(own) - kept)


def advice(view: RunView, decide: Callable[[RunView], Proposal], check: Check) -> Proposal:
    """What the playbook would do had there been no LLM but for what it brought that was kept.

    The LLM's vain experiments are no evidence: else the playbook could be led astray, by a change that was tried on a
    parent that does not work, say. Where the playbook comes to one of them by itself, it knows the result without a
    boot. Later proposals that were tried already are left out.
    """
    hidden = [a for a in view.attempts if a.proposer == LLM and a.status != AttemptStatus.KEPT]
    shown = [a for a in view.attempts if a not in hidden]
    for _ in range(len(hidden) + 1):
        seen = view if not hidden else view.model_copy(update={"attempts": _in_order(shown)})
        proposal = decide(seen)
        met = _met(proposal.actions, hidden, view)
        if met is None:
            break
        shown.append(met)
        hidden = [a for a in hidden if a.id != met.id]
    new = [a for a in proposal.actions if not isinstance(a, TryCandidate) or _may(a, view, check)]
    if proposal.actions and not new:
        new = [Finish(reason="no axis is left that promises a gain")]
    return proposal.model_copy(update={"actions": tuple(new)})


def _met(actions: Sequence[Action], hidden: Sequence[Attempt], view: RunView) -> Attempt | None:
    """The finished attempt of the LLM's that is what the playbook wants next, as if it were the playbook's own."""
    first = actions[0] if actions else None
    parent = view.attempt(first.parent) if isinstance(first, TryCandidate) else None
    if not isinstance(first, TryCandidate) or parent is None:
        return None
    wanted = built(first, parent, view.engine)
    for attempt in hidden:
        same = crafts.is_made(attempt, first, wanted, view) if first.crafted else attempt.candidate == wanted
        if same and attempt.status in FINISHED:
            own = {"parent": parent.id, "action": first.axis, "proposer": "playbook"}
            return attempt.model_copy(update=own)
    return None


def _may(action: TryCandidate, view: RunView, check: Check) -> bool:
    return not isinstance(admit(action, view, check=check), Refused)


def _in_order(attempts: Sequence[Attempt]) -> tuple[Attempt, ...]:
    return tuple(sorted(attempts, key=lambda a: a.number))
