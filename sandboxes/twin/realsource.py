"""Engine source that lies unpacked in a folder: every simulated image made of it has these very files.

The folder is read, never written: a patched file lies in its sandbox and stands in front of the one here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatch
from functools import lru_cache
from pathlib import Path

ENGINE = "sglang/"


class RealSource(Mapping[str, str]):
    """Path in an image's workspace -> text; each file is read once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._names = {
            file.relative_to(folder).as_posix(): None for file in sorted((folder / ENGINE).rglob("*")) if file.is_file()
        }
        self._texts: dict[str, str] = {}

    def __getitem__(self, path: str) -> str:
        if path not in self._names:
            raise KeyError(path)
        if path not in self._texts:
            self._texts[path] = Path(self._folder, path).read_bytes().decode()
        return self._texts[path]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __call__(self, path: str, /) -> str | None:
        """The text of a file; None: there is none."""
        return self.get(path)

    def holding(self, text: str, names: str, below: str = "") -> tuple[str, ...]:
        """Paths below a folder whose file name matches the glob and that contain the text, sorted."""
        return tuple(
            path
            for path in self._names
            if path.startswith(below) and fnmatch(path.rpartition("/")[2], names) and text in self[path]
        )


class Overlay(Mapping[str, str]):
    """A source with files of its own in front of it."""

    def __init__(self, front: Mapping[str, str], behind: Mapping[str, str]) -> None:
        self._front, self._behind = front, behind

    def __getitem__(self, path: str) -> str:
        return self._front[path] if path in self._front else self._behind[path]

    def __iter__(self) -> Iterator[str]:
        yield from self._front
        yield from (path for path in self._behind if path not in self._front)

    def __len__(self) -> int:
        return sum(1 for _ in self)


@lru_cache(maxsize=4)
def real_source(folder: Path) -> RealSource:
    """The source in a folder."""
    return RealSource(folder)


__all__ = ["ENGINE", "Overlay", "RealSource", "real_source"]
