"""Whether the files of an environment stayed as they were while something was measured (S37).

A file's size, place on disk and times of change stand for its content: who writes to it can set its time of
modification, but not the time at which the system changed its entry.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

Stamp = tuple[int, int, int, int]
"""size, inode, modified and changed, in nanoseconds"""
COMPILED = "__pycache__/"
MOST_NAMED = 3


def stamps(folder: str) -> Mapping[str, Stamp]:
    """Every file below a folder, by its path in there; nothing where there is no such folder. 30 ms per 10,000 files.

    Links are not followed: their own entry is what counts. Raises `OSError`.
    """
    out: dict[str, Stamp] = {}
    left = [(folder, "")] if os.path.isdir(folder) else []  # noqa: PTH112 (names of a twin are no paths)
    while left:
        place, inside = left.pop()
        with os.scandir(place) as entries:
            for entry in entries:
                name = inside + entry.name
                if entry.is_dir(follow_symlinks=False):
                    left.append((entry.path, f"{name}/"))
                else:
                    found = entry.stat(follow_symlinks=False)
                    out[name] = (found.st_size, found.st_ino, found.st_mtime_ns, found.st_ctime_ns)
    return out


def touched(before: Mapping[str, Stamp], after: Mapping[str, Stamp]) -> tuple[str, ...]:
    """Files that changed, went or came, by name. What Python compiles by itself may come, not change."""
    changed = {name for name, stamp in before.items() if after.get(name) != stamp}
    came = {name for name in after if name not in before and COMPILED not in name}
    return tuple(sorted(changed | came))


def later(now: Mapping[str, Stamp], marker: str) -> tuple[str, ...]:
    """Files that were written after the marker that an installation ends with; none where there is no marker."""
    if marker not in now:
        return ()
    done = now[marker][3]
    return tuple(sorted(name for name, stamp in now.items() if stamp[3] > done and COMPILED not in name))


def words(names: tuple[str, ...]) -> str:
    """A few of them for a message."""
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more
