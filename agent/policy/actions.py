"""The typed actions that every policy shares; an experiment states a hypothesis and the gain it expects.

Questions cost no experiment: the loop answers them, and the answer stands in the next view.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from day0.runs.values import Frozen, Map
from day0.runs.workload import FlagValue
from pydantic import Field, model_validator


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


class ReadSource(Frozen):
    """Show lines of a file of the engine's source, as it lies in the image of an attempt, its patches applied."""

    kind: Literal["read_source"] = "read_source"
    attempt: str
    path: str = Field(min_length=1, max_length=300, description="relative to the engine's workspace, as in a diff")
    first: int = Field(default=1, ge=1, le=1_000_000, description="first line to show")
    lines: int = Field(default=80, ge=1, le=400)


class GrepSource(Frozen):
    """Find a text in the engine's source, as it lies in the image of an attempt: files, line numbers, lines."""

    kind: Literal["grep_source"] = "grep_source"
    attempt: str
    text: str = Field(min_length=3, max_length=120, description="plain text, no pattern")
    files: str = Field(default="*.py", max_length=60, pattern=r"^[\w*.?-]+$", description="glob over file names")


class SearchUpstream(Frozen):
    """Search issues and pull requests of the engine's repository."""

    kind: Literal["search_upstream"] = "search_upstream"
    words: tuple[str, ...] = Field(min_length=1, max_length=6, description="an architecture's name alone, or words")


class Sweep(Frozen):
    """Hand a numeric subspace to a sampler (Optuna's TPE) that spends up to `trials` experiments on it."""

    kind: Literal["sweep"] = "sweep"
    parent: str = Field(description="ID of the attempt whose candidate is changed")
    space: Map[tuple[float, float]] = Field(description="flag without dashes -> (lowest, highest) value")
    whole: tuple[str, ...] = Field(default=(), description="flags of them that take whole numbers")
    trials: int = Field(default=6, ge=2, le=12)
    hypothesis: str = Field(min_length=1, max_length=600)
    expected_gain: float = Field(ge=-1, le=10, description="0.1 = 10 % more goodput")

    @model_validator(mode="after")
    def _sound(self) -> Self:
        if not 1 <= len(self.space) <= 4:
            raise ValueError("a sweep moves one to four flags")
        if wrong := next((n for n, (low, high) in self.space.items() if not low < high), None):
            raise ValueError(f"{wrong}: the lowest value must be below the highest")
        if stray := set(self.whole) - set(self.space):
            raise ValueError(f"{sorted(stray)[0]} is not in the space")
        return self


class Finish(Frozen):
    """Nothing worth its node time is left; confirm the leader."""

    kind: Literal["finish"] = "finish"
    reason: str = Field(min_length=1, max_length=600)


Question = ReadLog | ReadSource | GrepSource | SearchUpstream
Action = Annotated[
    TryCandidate | Sweep | ReadLog | ReadSource | GrepSource | SearchUpstream | Finish, Field(discriminator="kind")
]
