"""An earlier run's winner on a newer base: tried first, without the patches that the base or upstream has by now (S76).

Its figures count for its own base alone; what it is worth here is measured as for any candidate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from day0.agent.policy.actions import TryCandidate
from day0.agent.policy.base import Policy, Proposal
from day0.runs.schema import FINISHED
from day0.runs.values import Frozen, Map
from day0.runs.workload import FlagValue
from pydantic import Field

if TYPE_CHECKING:
    from day0.agent.policy.base import RunView

CARRIED = "carried"
"""proposer and axis of what was carried over"""


class Carried(Frozen):
    """What is carried over: a winner's settings against its baseline, its shipped repairs, and what stays behind."""

    attempt: str = Field(description="the earlier run's winner")
    gain: float = Field(description="over its own baseline, there")
    flags: Map[FlagValue | None] = Field(default_factory=dict)
    env: Map[str | None] = Field(default_factory=dict)
    codemods: tuple[str, ...] = ()
    dropped: tuple[str, ...] = Field(default=(), description="patches that stay behind, each with the reason")

    @property
    def empty(self) -> bool:
        """Nothing is left of it but what this base is anyway."""
        return not (self.flags or self.env or self.codemods)


class Carrying:
    """A policy that begins with the earlier winner and then is `inner`."""

    def __init__(self, inner: Policy, carried: Carried) -> None:
        self.inner, self.name, self._carried = inner, inner.name, carried

    def decide(self, view: RunView) -> Proposal:
        """The earlier winner once, when the baseline is done; then what the inner policy proposes."""
        baseline, one = view.attempt(view.baseline or ""), self._carried
        tried = any(a.proposer == CARRIED for a in view.attempts) or any(
            isinstance(a.action, TryCandidate) and a.action.axis == CARRIED for a in view.answers
        )
        if tried or baseline is None or baseline.status not in FINISHED:
            return self.inner.decide(view)
        left = f"; without {'; '.join(one.dropped)}" if one.dropped else ""
        action = TryCandidate(
            parent=baseline.id,
            flags=one.flags,
            env=one.env,
            codemods=one.codemods,
            axis=CARRIED,
            hypothesis=f"the winner {one.attempt} of an earlier base, verified again on this one{left}"[:600],
            expected_gain=one.gain,
        )
        return Proposal(proposer=CARRIED, actions=(action,))


__all__ = ["CARRIED", "Carried", "Carrying"]
