"""What is known of a configuration's answers: canaries of a boot, comparisons with the fixed reference, one label."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from day0.runs.values import Frozen
from pydantic import Field

CanaryState = Literal["passed", "failed", "not applicable"]
Word = Literal["lossless within margin", "no collapse", "inconclusive", "lossy", "nothing was checked"]
UNVERIFIED = "accuracy unverified"


class Canary(Frozen):
    """One small check of a boot. `why`: what was seen, or why it could not be asked."""

    name: str
    state: CanaryState
    why: str = ""

    def told(self) -> str:
        """In a few words."""
        return f"{self.name} {self.state}" + (f" ({self.why})" if self.why else "")


class CanariesSeen(Frozen):
    """All canaries of a boot."""

    kind: Literal["canaries"] = "canaries"
    boot: int
    found: tuple[Canary, ...]


class Judgement(Frozen):
    """One task, candidate against the fixed reference. Shares in [0, 1]; `difference` is candidate - reference."""

    task: str
    tier: Literal[1, 2] = Field(description="1: every candidate, against a collapse; 2: the winner, within a margin")
    against: str = Field(description="what the reference is, in words")
    verdict: Word
    margin: float = Field(description="the loss that is accepted: 0.01 = one point")
    items: int
    reference: float
    measured: float
    difference: float
    lower: float = Field(description="one-sided 95 % bound of the difference")
    paired: bool = True
    disagreement: float = Field(default=0.0, description="share of questions that one of both got right alone")
    needed: int | None = Field(default=None, description="questions for 80 % power if truly nothing is lost")
    decidable: float | None = Field(
        default=None, description="smallest margin that this many questions can decide; None: this margin is"
    )

    def told(self) -> str:
        """One sentence."""
        points = f"{100 * self.difference:+.1f} points (95 % bound {100 * self.lower:+.1f})"
        pairs = "paired" if self.paired else "from published shares alone"
        text = f"{self.task}: {self.verdict} at a margin of {100 * self.margin:g} points, {points}, "
        text += f"{self.items} questions, {pairs}, against {self.against}"
        if self.decidable is not None:
            more = f"; {self.needed} questions would be needed"
            text += f"{more}, {self.items} can decide a margin of {100 * self.decidable:.1f} points"
        return text


class Judged(Frozen):
    """A comparison with the reference, as it was made on a boot (0: from what earlier boots had answered)."""

    kind: Literal["judged"] = "judged"
    boot: int
    found: Judgement


def label(found: Sequence[Judgement]) -> str:
    """The label of a configuration: the worst of its most thorough tier; `accuracy unverified` where there is none.

    Only tier 2 can say `lossless within margin`: that every candidate survives tier 1 is no proof of it.
    """
    thorough = [j for j in found if j.tier == 2 and j.verdict != "nothing was checked"]
    if thorough:
        order = ("lossy", "inconclusive", "lossless within margin")
        return next(word for word in order if any(j.verdict == word for j in thorough))
    return "no collapse" if any(j.verdict != "nothing was checked" for j in found) else UNVERIFIED
