"""The forge port: pull requests, and nothing else of what a forge can do. Branches go over git (`publish_git`).

A forge is the outside world: wall time, one request after the other, and whatever it answers is data.
"""

from __future__ import annotations

from typing import Literal, Protocol

from day0.runs.values import Frozen
from day0.tools.forge.pace import Pace
from pydantic import Field

State = Literal["open", "closed", "merged"]


class Draft(Frozen):
    """A pull request as it should be."""

    title: str = Field(min_length=1, max_length=256)
    body: str
    branch: str = Field(description="the head, without its owner")
    base: str = Field(description="branch of the repository that it asks to change")
    labels: tuple[str, ...] = ()


class Pull(Frozen):
    """A pull request as the forge has it."""

    number: int
    url: str
    title: str
    body: str
    branch: str
    commit: str = Field(description="the head's commit")
    base: str
    state: State
    draft: bool
    labels: tuple[str, ...] = ()


class Forge(Protocol):
    """Pull requests of one repository, from branches of it or of one fork.

    Every method raises `Infrastructure` when the forge can't be reached, refuses the token or asks to wait for longer
    than a person would, and `Cancelled`. A write is never repeated blindly: who is unsure reads first.
    """

    name: str
    """as people call the repository, e.g. `owner/name`"""
    pace: Pace
    """of every write to it, pushes too"""

    def pulls(self, branch: str) -> tuple[Pull, ...]:
        """Every pull request from that branch, open or not, newest first."""
        ...

    def pull(self, number: int) -> Pull:
        """One as it stands now. Raises `Infrastructure` where there is none."""
        ...

    def open(self, asked: Draft) -> Pull:
        """Opens a draft, without labels. Raises `Refused` where the forge says that it can't be."""
        ...

    def rewrite(self, number: int, asked: Draft) -> Pull:
        """Puts title and text of an open one in place of what it has. Raises `Refused`."""
        ...

    def label(self, number: int, labels: tuple[str, ...]) -> tuple[str, ...]:
        """Adds labels; those that it has then. Raises `Refused` where the token may not."""
        ...


__all__ = ["Draft", "Forge", "Pull", "State"]
