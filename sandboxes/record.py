"""What a warden leaves on disk beside a sandbox, so that anyone can judge its tree after its owner died.

`tree` is a journal: a JSON header (owner, warden, attempt, world), then one line `pid start` per process that the
warden saw under itself. Its room is allocated ahead, so that a full disk can't stop the recording. `exit.json`
holds how the program ended.

Standard library only.
"""

# The warden loads this, and pathlib would double its start time.
# ruff: noqa: PTH104, PTH123

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable
from typing import Any, NamedTuple

from day0.sandboxes import identity
from day0.sandboxes.identity import Known, Proof

ROOM = 64 << 10


class Header(NamedTuple):
    """Who owns a tree.

    Elsewhere than in `world` (boot ID and pid namespace) its pids mean nothing. `pipe` names its output pipe.
    """

    world: str
    owner: Known
    warden: Known
    attempt: str
    sandbox: str
    pipe: str = ""


class Record(NamedTuple):
    """A tree as recorded: the header and every process seen, the program itself first."""

    folder: str
    header: Header
    seen: tuple[Known, ...]

    def proof(self) -> Proof:
        """By what processes of this tree are known."""
        return Proof(frozenset(self.seen), self.folder, self.header.pipe)


class Journal:
    """The warden's side: appends to `tree`; a full disk is survived, the earlier lines stay."""

    def __init__(self, folder: str, header: Header) -> None:
        self._path, self._header = f"{folder}/tree", json.dumps(header._asdict()).encode() + b"\n"
        self._seen: set[Known] = set()
        self._fd = self._start(())

    def _start(self, living: Iterable[Known]) -> int:
        """A new journal, moved into place when it is whole. Raises `OSError`."""
        new = self._path + ".new"
        fd = os.open(new, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(fd, 0, ROOM)
            text = self._header + b"".join(b"%d %d\n" % known for known in living)
            os.pwrite(fd, text, 0)
        except OSError:
            os.close(fd)
            raise
        os.rename(new, self._path)
        self._end = len(text)
        return fd

    def add(self, living: Iterable[Known]) -> None:
        """Records those not yet recorded. When the room is used up, only the living are kept."""
        living = list(living)
        new = [known for known in living if known not in self._seen]
        if not new:
            return
        text = b"".join(b"%d %d\n" % known for known in new)
        self._seen.update(new)
        with contextlib.suppress(OSError):
            if self._end + len(text) > ROOM:
                fd = self._start(living)
                os.close(self._fd)
                self._fd, self._seen = fd, set(living)
                return
            os.pwrite(self._fd, text, self._end)
            self._end += len(text)


def load(folder: str) -> Record | None:
    """The record in a folder; None when there is none or it is not whole enough to prove anything."""
    try:
        with open(f"{folder}/tree", "rb") as file:
            first, _, rest = file.read(8 * ROOM).rstrip(b"\0").partition(b"\n")
        raw = json.loads(first)
        header = Header(
            raw["world"], Known(*raw["owner"]), Known(*raw["warden"]), raw["attempt"], raw["sandbox"], raw["pipe"]
        )
        lines = [line.split() for line in rest.split(b"\n")[:-1]]
        return Record(folder, header, tuple(Known(int(a), int(b)) for a, b in lines))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def own() -> Known:
    """This process."""
    found = identity.stat(os.getpid())
    assert found is not None
    return Known(found.pid, found.start)


def write_owner(folder: str, scratch: str = "") -> None:
    """Says whose sandbox this is, and where its temporary folder will lie. Raises `OSError`."""
    with open(f"{folder}/owner", "w") as file:
        json.dump({"world": identity.world(), "owner": own(), "scratch": scratch}, file)


def scratch_of(folder: str) -> str:
    """The temporary folder of a sandbox as its owner wrote it; "" where it did not."""
    try:
        with open(f"{folder}/owner") as file:
            return str(json.load(file)["scratch"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def owner_lives(folder: str) -> bool | None:
    """Whether the day0 that opened this sandbox still runs; None when the file does not say."""
    try:
        with open(f"{folder}/owner") as file:
            raw = json.load(file)
        return raw["world"] == identity.world() and identity.alive(Known(*raw["owner"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_exit(folder: str, code: int, oom: bool | None) -> None:
    """Keeps how the program ended; a full disk loses the file, not the warden."""
    with contextlib.suppress(OSError):
        with open(f"{folder}/exit.new", "w") as file:
            json.dump({"code": code, "oom": oom}, file)
        os.rename(f"{folder}/exit.new", f"{folder}/exit.json")


def read_exit(folder: str) -> tuple[int, bool | None] | None:
    """(exit code or 128 + signal, killed for memory), also long after the owner died; None = did not end."""
    try:
        with open(f"{folder}/exit.json") as file:
            raw: dict[str, Any] = json.load(file)
        return int(raw["code"]), raw["oom"]
    except (OSError, ValueError, KeyError):
        return None
