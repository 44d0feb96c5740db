"""An idea: something to try, with what it promises and why."""

from __future__ import annotations

from dataclasses import dataclass

from day0.agent.policy.actions import TryCandidate
from day0.agent.policy.axes import Option


@dataclass(frozen=True)
class Idea:
    """The option on top of `parent` (default: the leader), what it promises (0.1 = 10 % more goodput) and why."""

    promise: float
    axis: str
    option: Option
    why: str
    parent: str = ""
    codemods: tuple[str, ...] = ()
    tune: bool = False


def action_of(idea: Idea, leader: str) -> TryCandidate:
    """An idea as the typed action that climbs."""
    return TryCandidate(
        parent=idea.parent or leader,
        flags=dict(idea.option.flags),
        env=dict(idea.option.env),
        image=idea.option.image,
        codemods=idea.codemods or idea.option.codemods,
        tune=idea.tune or idea.option.tune,
        axis=idea.axis[:200],
        hypothesis=f"{idea.option.label}: {idea.why}"[:600],
        expected_gain=max(-1.0, min(10.0, round(idea.promise, 4))),
    )
