"""What a codemod is: a pure transformation of engine source, and what it reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from typing import Any, Protocol, runtime_checkable


class Source(Protocol):
    """Text files of an engine's workspace; paths are relative to it, with forward slashes."""

    def __call__(self, path: str, /) -> str | None:
        """The text of a file; None: there is none, or it is no text."""
        ...


@runtime_checkable
class Searchable(Protocol):
    """A source that can also be searched."""

    def holding(self, text: str, names: str) -> tuple[str, ...]:
        """Paths of files whose name matches the glob `names` and that contain `text`, sorted; empty: none found."""
        ...


def holding(source: Source, text: str, names: str) -> tuple[str, ...]:
    """As `Searchable.holding`; empty for a source that can't be searched."""
    return source.holding(text, names) if isinstance(source, Searchable) else ()


@dataclass(frozen=True)
class Files:
    """A source that lies in memory."""

    texts: Mapping[str, str]

    def __call__(self, path: str, /) -> str | None:
        return self.texts.get(path)

    def holding(self, text: str, names: str) -> tuple[str, ...]:
        """Paths of files whose name matches the glob and that contain the text, sorted."""
        found = (path for path, held in self.texts.items() if text in held and fnmatch(path.rpartition("/")[2], names))
        return tuple(sorted(found))


@dataclass(frozen=True)
class Over:
    """A source with some of its files replaced, as patches leave it."""

    base: Source
    texts: Mapping[str, str]

    def __call__(self, path: str, /) -> str | None:
        return self.texts[path] if path in self.texts else self.base(path)

    def holding(self, text: str, names: str) -> tuple[str, ...]:
        """Paths of files whose name matches the glob and that contain the text, sorted."""
        below = {path for path in holding(self.base, text, names) if path not in self.texts}
        return tuple(sorted(below | set(Files(self.texts).holding(text, names))))


@dataclass(frozen=True)
class Change:
    """What a codemod found to do: new text by path, and log text that must not appear any more with it."""

    files: Mapping[str, str] = field(default_factory=dict)
    gone: tuple[str, ...] = ()


Transformation = Callable[[Source, Mapping[str, Any], str], Change]
"""(source, the checkpoint's config.json, evidence line) -> change. Raises `Refused`: nothing to change, or can't."""


@dataclass(frozen=True)
class Codemod:
    """One shipped source repair."""

    name: str
    title: str
    upstream: str
    issue: str
    change: Transformation
