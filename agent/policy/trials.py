"""What the attempts so far say about each option: derived from the candidates themselves, so that it doesn't matter
who proposed them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from day0.agent.policy.axes import Axis, Helps, Offer, Option
from day0.agent.policy.decide import gain, leader_of, worth
from day0.runs.facts import FailureClass, Rung
from day0.runs.schema import FINISHED, Attempt, AttemptStatus

if TYPE_CHECKING:
    from day0.agent.policy.base import RunView

# Memory runs out by degrees: a smaller value of the same axis may work, so its kin are not banned with it.
BY_DEGREES = frozenset({FailureClass.OOM, FailureClass.BELOW_SLO, FailureClass.NOT_PROMISING})

AUTHOR = "codemod:"
"""begins the author of a patch that a shipped repair made"""
REPAIR = Axis(
    frozenset({"gpu"}),
    "repair",
    lambda _: (),
    0.05,
    "a failure's cause is mended in the engine's source",
    "known issues",
)
"""patches, where attempts are attributed to axes; repairs are proposed by failures, not by options"""


@dataclass(frozen=True)
class Trial:
    """One option tried alone on a parent. `gain` is over the parent; None = no number that counts."""

    axis: Axis
    option: Option
    attempt: Attempt
    gain: float | None
    failure: FailureClass | None


@dataclass(frozen=True)
class Standing:
    """Where the search stands: whom to build on, what was tried, what limits the leader."""

    view: RunView
    gpus: int
    leader: Attempt
    trials: tuple[Trial, ...]
    limits: frozenset[Helps]

    def tried(self, axis: Axis, option: Option | None = None) -> bool:
        """Whether the axis, or just that option of it, was tried on any parent."""
        return any(t.axis.name == axis.name and (option is None or t.option.label == option.label) for t in self.trials)

    def best(self, axis: Axis) -> float | None:
        """The best gain an option of the axis ever brought over its parent."""
        gains = [t.gain for t in self.trials if t.axis.name == axis.name and t.gain is not None]
        return max(gains) if gains else None

    def believed(self, axis: Axis, options: Sequence[Option]) -> float | None:
        """The best measured gain, or the prior of an axis that the leader got as part of a bundle."""
        known = self.best(axis)
        bundled = known is None and self.leader.id != self.view.baseline and self.held(axis, options) is not None
        return axis.gain if bundled else known

    def banned(self, axis: Axis) -> bool:
        """Whether a kin of the axis failed in a way that would befall this one, too."""
        kin = [t for t in self.trials if t.axis.kin == axis.kin and t.failure is not None]
        return any(t.failure not in BY_DEGREES for t in kin)

    def held(self, axis: Axis, options: Sequence[Option]) -> Option | None:
        """The option of an axis that the leader has set."""
        return next((o for o in options if o.set_in(self.leader.candidate)), None)


def standing(view: RunView, offered: Sequence[Offer]) -> Standing | None:
    """Where the search stands; None before there is any attempt to build on."""
    gpus = view.request.target.gpus or view.node.gpus
    leader = view.attempt(view.leader or "") or leader_of(view.attempts, view.request, gpus)
    leader = leader or view.attempt(view.baseline or "")
    if leader is None:
        return None
    found = [trial for a in view.attempts if a.status in FINISHED and (trial := _trial(a, view, offered, gpus))]
    return Standing(view, gpus, leader, tuple(found), _limits(leader, view))


def _trial(attempt: Attempt, view: RunView, offered: Sequence[Offer], gpus: int) -> Trial | None:
    parent = view.attempt(attempt.parent or "")
    if parent is None or attempt.status in {AttemptStatus.REFUSED, AttemptStatus.CANCELLED}:
        return None
    moved = _moved(attempt, parent, offered) or _made(attempt, parent, view, offered)
    if moved is None:
        return None
    more = gain(attempt, parent, view.request, gpus)
    if more is None and worth(parent, view.request, gpus) is None:
        more = 1.0 if worth(attempt, view.request, gpus) is not None else None  # it made things work
    failed = next((v.failure or FailureClass.UNKNOWN for v in attempt.verdicts if not v.passed), None)
    return Trial(*moved, attempt, more, failed)


def step(flag: str, value: object) -> Option:
    """One value of a numeric axis."""
    return Option(f"{flag} {value}", {flag: value})  # type: ignore[dict-item]


def _moved(attempt: Attempt, parent: Attempt, offered: Sequence[Offer]) -> tuple[Axis, Option] | None:
    """The axis and the option that lead from the parent to the attempt, where it is just one."""
    changed = set(attempt.candidate.changed(parent.candidate))
    for one in offered:
        for option in one.options:
            keys = {*(f"--{name}" for name in option.flags), *option.env}
            if changed and changed <= keys and option.set_in(attempt.candidate):
                return one.axis, option
    for one in offered:
        if one.axis.ladder and changed == {f"--{one.axis.ladder}"}:
            value = attempt.candidate.flags.get(one.axis.ladder)
            if value is not None:
                return one.axis, step(one.axis.ladder, value)
    return None


def _made(attempt: Attempt, parent: Attempt, view: RunView, offered: Sequence[Offer]) -> tuple[Axis, Option] | None:
    """The repair or the tuning that alone leads from the parent to the attempt."""
    changed = set(attempt.candidate.changed(parent.candidate))
    if changed == {"tables"}:
        return next(((o.axis, option) for o in offered for option in o.options if option.tune), None)
    new = [
        view.patches[d] for d in attempt.candidate.patches if d in view.patches and d not in parent.candidate.patches
    ]
    if changed == {"patches"} and new:
        names = tuple(p.author.removeprefix(AUTHOR) for p in new if p.author.startswith(AUTHOR))
        return REPAIR, Option(" + ".join(names) or new[0].name, codemods=names)
    return None


def _limits(attempt: Attempt, view: RunView) -> frozenset[Helps]:
    """What bounds the attempt's knee: the words of its knee and of the misses at its failing points, and its caps."""
    knee = attempt.knee(view.request.workloads[0].name)
    failing = [p for _, rung, p in attempt.points if rung == Rung.MEASURE and not p.meets_slo and not p.void]
    bound = knee.bound_by.lower() if knee else ""
    words = f"{bound} {' '.join(m for p in failing for m in p.misses)}".lower()
    # far beyond the knee everything is missed: what the crossing names comes first
    named = bound if "ttft" in bound or "tpot" in bound else words
    found: set[Helps] = {name for name in ("ttft", "tpot") if name in named}
    boot = view.boots.get(attempt.id)
    cap = boot.max_running_requests if boot else None
    queued = [p for p in failing if (p.queue_max or 0) > 0 and cap and (p.running_max or 0) >= 0.95 * cap]
    if queued:
        found.add("cap")
    if any(word in words for word in ("kv", "retract", "memory")):
        found.add("memory")
    return frozenset(found)
