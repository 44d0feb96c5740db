"""The deterministic expert: explores axes, stacks what gains, tries neighbours, mends interactions, prunes at the end.

Every step is one ranking of all that could be tried now by the gain it is expected to bring:

1. first of all, everything that is known to pay on this kind of machine, at once: boots are the price;
2. what already gained on another parent but is missing from the leader, at its measured gain;
3. each untried axis on top of the leader, at its prior, lowered where it helps against something else than what
   limits the leader;
4. several small gains, each within the noise, together: their sum may stand out;
5. neighbours of a numeric value that helped, at a share of what it brought;
6. an axis that lost before something it interacts with changed, once more;
7. what would lift that which holds the leader back, as its own boot showed it;
8. last, the leader without one of its changes: what helped once may hurt by now.

What the guard would refuse is never proposed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING

from day0.agent.policy.actions import Finish, TryCandidate
from day0.agent.policy.axes import Axis, Offer, Option, clash, offers, site_of
from day0.agent.policy.base import Proposal
from day0.agent.policy.crafts import repairs
from day0.agent.policy.decide import PATIENCE, fruitless, threshold
from day0.agent.policy.guard import Check, admit, check_flags
from day0.agent.policy.ideas import Idea, action_of
from day0.agent.policy.lifting import lifts
from day0.agent.policy.trials import Standing, Trial, standing, step
from day0.runs.candidate import Candidate
from day0.runs.errors import Refused
from day0.runs.schema import FINISHED

if TYPE_CHECKING:
    from day0.agent.policy.base import RunView

SECOND = 0.5  # a further option of an axis whose first one did not gain
AGAIN = 0.25  # of its prior: an axis that lost before the leader changed
NEIGHBOUR = 0.25  # of the measured gain: the next value of a number that helped
PRUNE = 0.002  # rarely brings anything, so it comes last
UNHELPFUL = 0.35  # an axis that helps against something else than what limits the leader
LEAST = 0.005  # nothing that promises less is worth a boot


class Playbook:
    """The expert policy. `batch` is how many experiments it proposes at once: the number of free nodes."""

    name = "playbook"

    def __init__(self, *, batch: int = 1, patience: int = PATIENCE, check: Check = check_flags) -> None:
        self.batch, self.patience, self.check = batch, patience, check

    def decide(self, view: RunView) -> Proposal:
        """The best ideas now, or `Finish` when none is left."""
        offered = offers(site_of(view))
        now = standing(view, offered)
        if now is None or now.leader.status not in FINISHED:
            return Proposal(proposer=self.name, actions=(), note="waiting for the baseline")
        if (tries := fruitless(view.attempts)) >= self.patience:
            reason = f"{tries} experiments in a row brought no improvement"
            return Proposal(proposer=self.name, actions=(Finish(reason=reason),))
        actions = self._admitted(now, ranked(view, now, offered))
        if actions:
            return Proposal(proposer=self.name, actions=actions)
        if any(a.status not in FINISHED for a in view.attempts):
            return Proposal(proposer=self.name, actions=(), note="waiting for what is still running")
        return Proposal(proposer=self.name, actions=(Finish(reason="no axis is left that promises a gain"),))

    def _admitted(self, now: Standing, found: list[Idea]) -> tuple[TryCandidate, ...]:
        actions: list[TryCandidate] = []
        seen: set[str] = set()
        for idea in found:
            action = action_of(idea, now.leader.id)
            candidate = admit(action, now.view, check=self.check)
            known = f"{'' if isinstance(candidate, Refused) else candidate.digest()} {action.codemods} {action.tune}"
            if isinstance(candidate, Refused) or known in seen or _turned_down(action, now.view):
                continue
            seen.add(known)
            actions.append(action)
            if len(actions) == self.batch:
                break
        return tuple(actions)


def _turned_down(action: TryCandidate, view: RunView) -> bool:
    """Whether the same change of the same parent was refused before, by whatever stands behind this policy."""
    return any(
        answer.refused
        and isinstance(answer.action, TryCandidate)
        and answer.action.parent == action.parent
        and answer.action.flags == action.flags
        and answer.action.env == action.env
        and answer.action.image == action.image
        and answer.action.codemods == action.codemods
        and answer.action.tune == action.tune
        for answer in view.answers
    )


def ranked(view: RunView, now: Standing, offered: tuple[Offer, ...]) -> list[Idea]:
    """Everything that could be tried now, most promising first: on accelerators by the anchored forecast."""
    if site_of(view).kind == "cpu":
        return [*repairs(view), *ideas(now, offered)]
    from day0.agent.policy.explore import explored, reach_of

    found = [i for i in explored(reach_of(view, now, offered)) if i.promise >= LEAST]
    known = {i.option.label for i in found}
    found += [i for i in lifts(now, offered, ways=False) if i.option.label not in known]
    return [*repairs(view), *sorted(found, key=lambda i: -i.promise)]


def ideas(now: Standing, offered: tuple[Offer, ...]) -> list[Idea]:
    """Everything that could be tried now, most promising first; ties by name, so that the order is one only."""
    least = threshold(now.view.noise)
    usable = tuple(o for o in offered if o.options and not now.banned(o.axis))
    found = list(
        chain(
            _opening(now, usable),
            _missing(now, usable, least),
            _unexplored(now, usable),
            _together(now, usable, least),
            _neighbours(now, usable),
            _interactions(now, usable),
            lifts(now, usable),
        )
    )
    found = [i for i in found if i.promise >= LEAST]
    found.sort(key=lambda i: (-i.promise, i.axis, i.option.label))
    return found + sorted(_prunings(now), key=lambda i: i.option.label)


def _steer(axis: Axis, now: Standing) -> float:
    if not now.limits or not axis.helps:
        return 1.0
    return 1.0 if axis.helps & now.limits else UNHELPFUL


def _prior(axis: Axis, option: Option, rank: int = 0) -> float:
    """What an option is expected to bring; later ones of an axis that gives no figures bring ever less."""
    return option.gain if option.gain is not None else axis.gain * SECOND**rank


def _opening(now: Standing, usable: tuple[Offer, ...]) -> Iterator[Idea]:
    """The trusted axes together, before anything else was tried; if that fails, they follow one by one."""
    if now.trials or now.leader.id != now.view.baseline:
        return
    chosen: list[tuple[Axis, Option]] = []
    for one in usable:
        conflict = any(clash(one.axis, axis) for axis, _ in chosen)
        best = max(one.options, key=lambda o: _prior(one.axis, o))
        if one.axis.trusted and not conflict and _prior(one.axis, best) > LEAST:
            chosen.append((one.axis, best))
    if len(chosen) > 1:
        merged = merge(option for _, option in chosen)
        promise = sum(_prior(axis, option) for axis, option in chosen)
        yield Idea(promise, "+".join(axis.name for axis, _ in chosen), merged, "each is known to pay on such a machine")


def merge(options: Iterable[Option]) -> Option:
    """Several options as one; where they set the same key the later one wins."""
    parts = tuple(options)
    flags = {k: v for option in parts for k, v in option.flags.items()}
    env = {k: v for option in parts for k, v in option.env.items()}
    return Option(" + ".join(option.label for option in parts), flags, env)


def _missing(now: Standing, usable: tuple[Offer, ...], least: float) -> Iterator[Idea]:
    names = {o.axis.name for o in usable}
    for trial in now.trials:
        if trial.gain is None or trial.gain <= least or trial.axis.name not in names:
            continue
        if trial.option.set_in(now.leader.candidate) or _overtaken(trial, now):
            continue
        yield Idea(trial.gain, trial.axis.name, trial.option, f"gained {trial.gain:+.1%} in {trial.attempt.id}")


def _overtaken(trial: Trial, now: Standing) -> bool:
    """Whether the leader has another option of the same axis that brought as much."""
    rivals = [t for t in now.trials if t.axis.name == trial.axis.name and t.option.set_in(now.leader.candidate)]
    return any((t.gain or 0) >= (trial.gain or 0) for t in rivals)


def _unexplored(now: Standing, usable: tuple[Offer, ...]) -> Iterator[Idea]:
    for one in usable:
        axis = one.axis
        held = now.held(axis, one.options)
        for rank, option in enumerate(one.options):
            if option.set_in(now.leader.candidate) or now.tried(axis, option) or (held and axis.ladder):
                continue
            prior = _prior(axis, option, rank)
            if held is not None:
                prior -= held.gain or 0.0  # only what it may bring beyond the setting that stands
                prior *= SECOND if now.tried(axis) else 1.0
            elif now.tried(axis):
                prior *= SECOND
            yield Idea(prior * _steer(axis, now), axis.name, option, axis.why)


def _together(now: Standing, usable: tuple[Offer, ...], least: float) -> Iterator[Idea]:
    """Small gains, each below what counts, added up. One per axis, the better one."""
    names = {o.axis.name: o.axis for o in usable}
    small: dict[str, Trial] = {}
    for trial in now.trials:
        if trial.gain is None or not 0 < trial.gain <= least or trial.axis.name not in names:
            continue
        if trial.option.set_in(now.leader.candidate) or _changed_since(trial, now):
            continue
        known = small.get(trial.axis.name)
        if known is None or trial.gain > (known.gain or 0):
            small[trial.axis.name] = trial
    chosen = sorted(small.values(), key=lambda t: t.axis.name)
    chosen = [t for t in chosen if not any(clash(t.axis, c.axis) for c in chosen)]
    if len(chosen) < 2:
        return
    merged = merge(t.option for t in chosen)
    # half of their sum: some of it is noise
    yield Idea(
        sum(t.gain or 0 for t in chosen) / 2, "+".join(t.axis.name for t in chosen), merged, "small gains add up"
    )


def _changed_since(trial: Trial, now: Standing) -> bool:
    """Whether an axis that interacts with the trial's moved between its parent and the leader."""
    parent = now.view.attempt(trial.attempt.parent or "")
    if parent is None:
        return True
    moved = [t for t in now.trials if t.option.set_in(now.leader.candidate) and not t.option.set_in(parent.candidate)]
    return any(t.axis.name != trial.axis.name and clash(t.axis, trial.axis) for t in moved)


def _neighbours(now: Standing, usable: tuple[Offer, ...]) -> Iterator[Idea]:
    """Half and double of a numeric value that helped and that the leader holds."""
    for one in usable:
        flag, best = one.axis.ladder, now.believed(one.axis, one.options)
        held = now.leader.candidate.flags.get(flag) if flag else None
        if best is None or best <= 0 or not isinstance(held, int | float) or isinstance(held, bool):
            continue
        for factor in (2, 0.5):
            value = held * factor
            near: int | float = int(value) if isinstance(held, int) else round(value, 4)
            if not one.axis.bounds[0] <= near <= one.axis.bounds[1] or near == held:
                continue
            option = step(flag, near)
            if now.tried(one.axis, option):
                continue
            why = f"{flag} {held} brought {best:+.1%}; the next value on the same side may bring more"
            yield Idea(best * NEIGHBOUR, one.axis.name, option, why)


def _interactions(now: Standing, usable: tuple[Offer, ...]) -> Iterator[Idea]:
    """What lost or gained too little before an axis it interacts with changed in the leader."""
    names = {o.axis.name for o in usable}
    for trial in now.trials:
        if trial.axis.name not in names or trial.gain is None or trial.option.set_in(now.leader.candidate):
            continue
        if trial.gain < -0.5 or not _changed_since(trial, now):
            continue
        prior = _prior(trial.axis, trial.option)
        why = f"brought {trial.gain:+.1%} before the leader changed; the two interact"
        yield Idea(prior * AGAIN, trial.axis.name, trial.option, why)


def _prunings(now: Standing) -> Iterator[Idea]:
    """The leader without one of its changes against the baseline."""
    baseline = now.view.attempt(now.view.baseline or "")
    if baseline is None or baseline.id == now.leader.id:
        return
    mine: Candidate = now.leader.candidate
    for kind in ("flags", "env"):
        have, base = getattr(mine, kind), getattr(baseline.candidate, kind)
        changed = sorted(k for k in {*have, *base} if have.get(k) != base.get(k))
        for key in changed if len(mine.changed(baseline.candidate)) > 1 else ():
            back = {key: base.get(key)}
            option = Option(f"without {key}", back, {}) if kind == "flags" else Option(f"without {key}", {}, back)
            yield Idea(PRUNE, "prune", option, "what helped once may hurt by now")
