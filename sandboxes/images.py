"""The port for images: what a node can be asked to run, by name and by digest.

Node time passes in `resolve` and `pull`. A download that breaks is nobody's fault and is not tried again here: the
caller waits longer each time and asks again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from difflib import SequenceMatcher
from typing import Protocol

from day0.runs.errors import Refused
from day0.runs.values import sha256

WORKSPACE = "/sgl-workspace"
"""Where an engine image keeps its sources."""


class Images(Protocol):
    """Images of one node. Every method may raise `Cancelled` and `NodeLost`."""

    def resolve(self, name: str) -> str:
        """The digest that a tag, or an environment's name, stands for.

        Raises `Refused` with the nearest names where there is no such tag; `Infrastructure` where nobody answers.
        """
        ...

    def has(self, digest: str) -> bool:
        """Whether the image is on the node, whole."""
        ...

    def pull(self, digest: str) -> None:
        """Brings an image onto the node; one that is there already takes no time.

        Raises `Infrastructure` where the download broke (asking again may help), `DiskFull` naming the size before
        anything is fetched, `Refused` for a digest that nobody resolved.
        """
        ...


class Installed:
    """Images of a node whose environments were made there: nothing is ever fetched.

    `there` says whether a name stands for an environment, `known` which names there are.
    """

    def __init__(
        self, there: Callable[[str], bool], known: Callable[[str], Iterable[str]], digest: Callable[[str], str] = sha256
    ) -> None:
        self._there, self._known, self._digest = there, known, digest
        self._names: dict[str, str] = {}

    def resolve(self, name: str) -> str:
        """Raises `Refused`."""
        if not name or not self._there(name):
            raise missing(name, self._known(name))
        digest = self._digest(name)
        self._names[digest] = name
        return digest

    def has(self, digest: str) -> bool:
        """Whether it was resolved here and is still there."""
        return digest in self._names and self._there(self._names[digest])

    def pull(self, digest: str) -> None:
        """Nothing to do. Raises `Refused`."""
        if not self.has(digest):
            raise Refused(f"no image {digest[:19]} is known here: resolve its name first")


def missing(name: str, known: Iterable[str]) -> Refused:
    """There is no such image; names that are nearest to what was asked."""
    near = nearest(name, tuple(known))
    told = f"; the nearest are {', '.join(near)}" if near else ""
    return Refused(f"there is no image {name[:120]!r}{told}")


def nearest(name: str, known: Sequence[str], count: int = 3) -> list[str]:
    """Names by likeness, most alike first; nothing that has little in common with it."""
    alike = [(SequenceMatcher(None, name, other).ratio(), other) for other in dict.fromkeys(known)]
    return [other for share, other in sorted(alike, key=lambda pair: (-pair[0], pair[1])) if share > 0.5][:count]
