"""A sandbox' temporary folder: in its work folder, or, where that path is too long for sockets, in a short private one.

The address of a unix socket ends at 107 bytes (sockaddr_un), and an engine binds several below TMPDIR, by the literal
path: no link makes it shorter. The short folder is named after the sandbox' records, which say so before it is made:
a sweep finds it there.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Sequence
from pathlib import Path

from day0.runs.errors import Infrastructure
from day0.sandboxes import files

ADDRESS_BYTES = 107
NAME_BYTES = 40
"""What is added below TMPDIR at most: /tmp + 8 characters (SGLang), a UUID, pymp-XXXXXXXX/listener-XXXXXXXX."""
BASES = ("/tmp", "/var/tmp")
TRIES = 5


def of(work: Path, records: Path, bases: Sequence[str] = BASES) -> Path:
    """Where the temporary folder of the sandbox belongs; nothing is made but the private parent of a short one.

    Raises `Infrastructure` where the path is too long and no private folder can be had.
    """
    inside = work / "tmp"
    if len(os.fsencode(inside)) + 1 + NAME_BYTES <= ADDRESS_BYTES:
        return inside
    name = hashlib.sha256(os.fsencode(records)).hexdigest()[:12]
    for base in bases:
        parent = _parent(base)
        if _private(parent):
            return parent / name
    raise Infrastructure(
        f"sockets below {work} would have addresses beyond {ADDRESS_BYTES} bytes, and "
        f"{' and '.join(str(_parent(base)) for base in bases)} can't be made or are not yours alone: "
        "set DAY0_HOME to a shorter path"
    )


def make(scratch: Path) -> None:
    """Makes the folder `of` named. Raises `OSError`."""
    if _short(scratch):
        files.remove(scratch)  # of an earlier sandbox of that name, whose end was cut short
    for _ in range(TRIES):
        with contextlib.suppress(FileNotFoundError):  # another sandbox just removed the parent, which was empty
            scratch.mkdir(mode=0o700)
            return
        _private(scratch.parent)
    scratch.mkdir(mode=0o700)


def remove(scratch: Path) -> None:
    """Removes a short folder, and its parent once nothing else is in it. Never touches any other path."""
    if _short(scratch) and _private(scratch.parent, make=False):
        files.remove(scratch)
        with contextlib.suppress(OSError):
            scratch.parent.rmdir()


def _parent(base: str) -> Path:
    return Path(base, f"day0-{os.geteuid()}")


def _short(scratch: Path) -> bool:
    return scratch.parent.name == f"day0-{os.geteuid()}" and len(scratch.name) == 12


def _private(folder: Path, *, make: bool = True) -> bool:
    """Whether it is a real folder of this user that nobody else can look into or write to."""
    with contextlib.suppress(OSError):
        if make:
            with contextlib.suppress(FileExistsError):
                folder.mkdir(mode=0o700)
        found = folder.lstat()
        return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077
    return False
