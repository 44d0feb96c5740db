"""The typed actions that every policy shares; each states a hypothesis and the gain it expects."""

from __future__ import annotations

from typing import Annotated, Literal

from day0.runs.values import Frozen, Map
from day0.runs.workload import FlagValue
from pydantic import Field


class TryCandidate(Frozen):
    """Climb the ladder with `parent`'s candidate, changed. A change to `None` removes the key."""

    kind: Literal["try_candidate"] = "try_candidate"
    parent: str = Field(description="ID of the attempt whose candidate is changed")
    flags: Map[FlagValue | None] = Field(default_factory=dict, description="without leading dashes")
    env: Map[str | None] = Field(default_factory=dict)
    image: str = Field(default="", description="engine image (its digest) in place of the parent's")
    codemods: tuple[str, ...] = Field(default=(), max_length=4, description="shipped source repairs to apply, by name")
    diff: str = Field(default="", max_length=60_000, description="a unified diff to engine source, in git's format")
    test: str = Field(
        default="",
        max_length=20_000,
        description="a Python program that passes with the diff; run before anything boots",
    )
    tune: bool = Field(default=False, description="tune the kernels that this layout runs untuned, first")
    axis: str = Field(default="", description="which axis of the search space this moves along")
    hypothesis: str = Field(min_length=1, max_length=600)
    expected_gain: float = Field(ge=-1, le=10, description="0.1 = 10 % more goodput")

    @property
    def crafted(self) -> bool:
        """Whether something must be made before the candidate exists: a patch, or a table of tuned kernels."""
        return bool(self.codemods or self.diff or self.tune)


class ReadLog(Frozen):
    """Ask for the end of an attempt's server log; the answer stands in the next view."""

    kind: Literal["read_log"] = "read_log"
    attempt: str
    lines: int = Field(default=60, ge=1, le=400)
    grep: str = Field(default="", max_length=120, description="keep only lines that contain this text")


class Finish(Frozen):
    """Nothing worth its node time is left; confirm the leader."""

    kind: Literal["finish"] = "finish"
    reason: str = Field(min_length=1, max_length=600)


Action = Annotated[TryCandidate | ReadLog | Finish, Field(discriminator="kind")]
