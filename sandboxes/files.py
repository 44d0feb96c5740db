"""Reading and writing inside a sandbox' work folder, and nowhere else."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path

from day0.runs.errors import DiskFull, Refused
from day0.sandboxes.spool import FULL


def inside(work: Path, path: str, also: Iterable[Path] = ()) -> Path:
    """The real file of `path`, taken from the work folder. Raises `Refused` when it lies elsewhere.

    Links are followed before judging: a program in the sandbox may have planted one.
    """
    if "\0" in path:
        raise Refused("a path holds a zero byte")
    real = Path(os.path.realpath(work / path))
    roots = [Path(os.path.realpath(root)) for root in (work, *also)]
    if not any(real == root or root in real.parents for root in roots):
        raise Refused(f"{path!r} lies outside the sandbox")
    return real


def read(path: Path, max_bytes: int) -> bytes:
    """The first `max_bytes`. Raises `FileNotFoundError`; `Refused` for what is no regular file (a pipe would block)."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except NotADirectoryError as error:
        raise FileNotFoundError(error.errno, error.strerror, str(path)) from error
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise Refused(f"{path.name!r} is no regular file")
        return file.read(max_bytes)


def write(path: Path, data: bytes) -> None:
    """All or nothing: a reader never sees half of it. Raises `DiskFull`; `Refused` where a folder is in the way."""
    new = path.with_name(path.name + ".day0-new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        new.write_bytes(data)
        new.replace(path)
    except OSError as error:
        new.unlink(missing_ok=True)
        if error.errno in FULL:
            raise DiskFull(f"no room for {len(data)} bytes at {path}") from error
        raise Refused(f"{path.name!r} can't be written: {error.strerror}") from error
