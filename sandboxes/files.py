"""A sandbox' work folder: making it, and reading and writing inside it and nowhere else."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path

from day0.runs.errors import DiskFull, Infrastructure, Refused
from day0.sandboxes.spool import FULL


def inside(work: Path, path: str, also: Iterable[Path] = ()) -> Path:
    """The real file of `path`, taken from the work folder. Raises `Refused` when it lies elsewhere.

    Links are followed before judging: a program in the sandbox may have planted one.
    """
    if "\0" in path:
        raise Refused("a path holds a zero byte")
    if "/" not in path and path not in ("", ".", "..") and not os.path.islink(f"{work}/{path}"):  # noqa: PTH114
        return work / path  # asked several times a second while a server is watched; `read`, `write` follow no link
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


def _safe(name: str) -> str:
    """A file name without folders and without a dot in front."""
    return re.sub(r"^\.|[^A-Za-z0-9._-]", "_", name)


def fresh(parents: Sequence[Path], stem: str) -> list[Path]:
    """A new folder STEM-N in each of `parents`, with the first number that is new in all. Raises `OSError`."""
    number = 0
    while True:
        made: list[Path] = []
        try:
            for parent in parents:
                folder = parent / f"{_safe(stem)}-{number}"
                folder.mkdir(mode=0o700)
                made.append(folder)
        except OSError as error:
            for folder in made:
                folder.rmdir()
            if not isinstance(error, FileExistsError):
                raise
            number += 1
        else:
            return made


def mount(work: Path, host: Path, inside: str) -> None:
    """Shows `host` at `inside`: its own path, or a relative one. Raises `Infrastructure`, `OSError`."""
    if not host.exists():
        raise Infrastructure(f"{host} is not on this node")
    if inside == str(host):
        return
    if Path(inside).is_absolute() or ".." in Path(inside).parts:
        raise Infrastructure(f"a sandbox here can't show {host} at {inside}: use its own path or a relative one")
    target = work / inside
    target.parent.mkdir(parents=True, exist_ok=True)
    target.symlink_to(host)


def cache(parent: Path, name: str) -> Path:
    """The folder of a cache that outlives sandboxes. Raises `OSError`."""
    path = parent / _safe(name)
    path.mkdir(parents=True, exist_ok=True)
    return path


def remove(work: Path) -> None:
    """A folder and all in it, also what a program made unreadable. What can't be removed stays, without an error."""
    shutil.rmtree(work, ignore_errors=True)
    if work.exists():
        for folder in [work, *(p for p in work.rglob("*") if p.is_dir() and not p.is_symlink())]:
            with contextlib.suppress(OSError):
                folder.chmod(0o700)
        shutil.rmtree(work, ignore_errors=True)
