"""The tools that an LLM is given, where they are not actions themselves: each says which actions it stands for.

All that makes or changes something states a hypothesis and the gain it expects.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from day0.agent.policy.actions import Action, TryCandidate
from day0.runs.errors import Refused
from day0.runs.values import Frozen, Map
from day0.runs.workload import FlagValue
from pydantic import Field

if TYPE_CHECKING:
    from day0.agent.policy.base import RunView

MOST_AT_ONCE = 8
PARENT = "ID of the attempt whose candidate is changed"


class Stated(Frozen):
    """An experiment's claim."""

    hypothesis: str = Field(min_length=1, max_length=600)
    expected_gain: float = Field(ge=-1, le=10, description="0.1 = 10 % more goodput")


class Settings(Stated):
    """One candidate: the parent's with flags and variables changed. A change to null removes the key."""

    parent: str = Field(description=PARENT)
    flags: Map[FlagValue | None] = Field(default_factory=dict, description="without leading dashes")
    env: Map[str | None] = Field(default_factory=dict)
    axis: str = Field(default="", max_length=200, description="which axis of the search space this moves along")

    def action(self, **more: object) -> TryCandidate:
        """As the shared action."""
        return TryCandidate.model_validate({**dict(self), **more})


class TryCandidates(Frozen):
    """Climb the ladder with one or several candidates, most promising first. Several climb where nodes are free."""

    candidates: tuple[Settings, ...] = Field(min_length=1, max_length=MOST_AT_ONCE)

    def actions(self, _: RunView) -> Sequence[Action]:
        """One each."""
        return [one.action() for one in self.candidates]


class WritePatch(Settings):
    """Change engine source by your own unified diff in git's format and climb with it. A person reviews it later."""

    diff: str = Field(min_length=1, max_length=60_000, description="as `git diff` prints it")
    test: str = Field(default="", max_length=20_000, description="a Python program that passes with the diff")

    def actions(self, _: RunView) -> Sequence[Action]:
        """The diff on the parent."""
        return [self.action(diff=self.diff, test=self.test, axis=self.axis or "patch")]


class ApplyCodemod(Settings):
    """Apply repairs of engine source that day0 ships, by name, and climb with them."""

    codemods: tuple[str, ...] = Field(min_length=1, max_length=4)

    def actions(self, _: RunView) -> Sequence[Action]:
        """The repairs on the parent."""
        return [self.action(codemods=self.codemods, axis=self.axis or "repair")]


class BuildImage(Settings):
    """Move the parent's candidate to another engine image of the list, its patches and repairs built into it."""

    image: str = Field(min_length=1, max_length=100, description="digest of an image that the context lists")
    codemods: tuple[str, ...] = Field(default=(), max_length=4)
    diff: str = Field(default="", max_length=60_000)

    def actions(self, _: RunView) -> Sequence[Action]:
        """The image under the parent's settings."""
        return [self.action(image=self.image, codemods=self.codemods, diff=self.diff, axis=self.axis or "image")]


class TuneKernels(Settings):
    """Tune the kernels that the parent's layout runs untuned or on a fallback, and climb with the tuned rows."""

    def actions(self, _: RunView) -> Sequence[Action]:
        """Tuning for the parent's layout."""
        return [self.action(tune=True, axis=self.axis or "tuning")]


class Ablate(Stated):
    """Climb with an attempt's candidate without some of its changes against the defaults."""

    attempt: str = Field(description="ID of the attempt to take changes from")
    without: tuple[str, ...] = Field(min_length=1, max_length=12, description="flags or variables to set back")

    def actions(self, view: RunView) -> Sequence[Action]:
        """The changes set back to what the baseline has. Raises `Refused` for what is no change."""
        found, base = view.attempt(self.attempt), view.attempt(view.baseline or "")
        if found is None or base is None:
            raise Refused(f"there is no attempt {self.attempt[:60]!r} to take something from")
        names = [name.lstrip("-") for name in self.without]
        changed = {key.lstrip("-") for key in found.candidate.changed(base.candidate)}
        if stray := next((name for name in names if name not in changed), ""):
            return_to = ", ".join(sorted(changed)) or "nothing"
            raise Refused(f"{found.id} does not change {stray[:60]!r}; it changes {return_to}"[:400])
        old = base.candidate
        flags = {n: old.flags.get(n) for n in names if n in {*found.candidate.flags, *old.flags}}
        env = {n: old.env.get(n) for n in names if n in {*found.candidate.env, *old.env}}
        if not flags and not env:
            raise Refused("only flags and variables can be set back; patches and tables are ablated after the search")
        return [
            TryCandidate(
                parent=found.id, flags=flags, env=env, axis="ablate",
                hypothesis=self.hypothesis, expected_gain=self.expected_gain,
            )
        ]  # fmt: skip


class SearchKnownIssues(Frozen):
    """Search the known issues that day0 ships, and those that earlier runs learned, by words or a line of a log."""

    text: str = Field(min_length=3, max_length=400)


class ReadHelp(Frozen):
    """Show what the engine's own --help says about flags whose name or text contains a word."""

    word: str = Field(min_length=2, max_length=60)


Making = TryCandidates | WritePatch | ApplyCodemod | BuildImage | TuneKernels | Ablate
AtOnce = ReadHelp | SearchKnownIssues
"""questions that are answered in the same conversation, from what is known already"""
