"""A person's consent to what runs code of a checkpoint, as a frozen value: one kind, one exact revision."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, get_args

from day0.runs.values import Frozen
from pydantic import Field

ConsentKind = Literal["remote-code", "pickle"]
KINDS: tuple[ConsentKind, ...] = get_args(ConsentKind)


class Consent(Frozen):
    """What somebody allowed, or took back. It counts for this revision and for no other (S60, S61)."""

    kind: ConsentKind = Field(description="`remote-code`: Python files of the repository; `pickle`: pickled weights")
    model: str = Field(description="as it was named; what counts is the revision")
    revision: str = Field(description="hub commit, or content hash of a folder")
    files: tuple[str, ...] = Field(description="the files that it was about")
    given: bool = Field(default=True, description="false: withdrawn")
    who: str = Field(description="user@machine")
    at: datetime
    reason: str = ""


__all__ = ["KINDS", "Consent", "ConsentKind"]
