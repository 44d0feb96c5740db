"""Diffs that a person brought to a run: tried before anything that a policy thinks of, on the baseline's settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from day0.agent.policy.actions import TryCandidate
from day0.agent.policy.base import Policy, Proposal
from day0.runs.schema import FINISHED
from day0.runs.values import Frozen

if TYPE_CHECKING:
    from day0.agent.policy.base import RunView
    from day0.runs.schema import RunRequest

OPTION = "patches"
"""of a request: `{"name", "diff", "test"}` of each"""
PERSON = "person"
"""author of a patch, and proposer of an attempt, that somebody brought"""
UNKNOWN_GAIN = 0.05
"""what is expected of a change about which nothing is known but that somebody thought it worth a run"""


class Diff(Frozen):
    """A unified diff in git's format, its name and its own test (a Python program; empty: it has none)."""

    name: str
    diff: str
    test: str = ""


def diffs(request: RunRequest) -> tuple[Diff, ...]:
    """What was brought to a run, in order."""
    return tuple(Diff.model_validate(each) for each in request.options.get(OPTION, ()))


def name_of(diff: str, request: RunRequest) -> str:
    """The name under which a diff was brought; empty: it was not."""
    return next((each.name for each in diffs(request) if each.diff == diff), "")


class Brought:
    """A policy that begins with the diffs, one attempt each, and then is `inner`."""

    def __init__(self, inner: Policy) -> None:
        self.inner, self.name = inner, inner.name

    def decide(self, view: RunView) -> Proposal:
        """The next diff that was neither made nor refused; then what the inner policy proposes."""
        baseline = view.attempt(view.baseline or "")
        left = [each for each in diffs(view.request) if not _tried(each, view)]
        if not left or baseline is None or baseline.status not in FINISHED:
            return self.inner.decide(view)
        action = TryCandidate(
            parent=view.leader or baseline.id,
            diff=left[0].diff,
            test=left[0].test,
            axis="patch",
            hypothesis=f"{left[0].name}: a change of engine source that was brought to this run",
            expected_gain=UNKNOWN_GAIN,
        )
        return Proposal(proposer=PERSON, actions=(action,))


def _tried(one: Diff, view: RunView) -> bool:
    made = any(patch.author == PERSON and patch.name == one.name for patch in view.patches.values())
    return made or any(
        a.refused and isinstance(a.action, TryCandidate) and a.action.diff == one.diff for a in view.answers
    )


__all__ = ["OPTION", "PERSON", "Brought", "Diff", "diffs", "name_of"]
