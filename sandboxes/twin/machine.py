"""A simulated machine that outlives the day0 that uses it: its clock and what runs on it lie in the node's folder.

`clock` holds the node's time as eight bytes and is written after every call that lets time pass; `state.json` holds
processes, accelerator memory and ports and is written when these changed. Whoever opens the folder after a kill -9
finds the same processes, still holding what they held, though nobody plays their programs any more.
"""

from __future__ import annotations

import json
import os
import struct
import weakref
from collections.abc import Callable, Generator
from dataclasses import dataclass
from itertools import count
from math import inf
from pathlib import Path
from typing import Any

from day0.sandboxes import identity
from day0.sandboxes.simulated.kernel import Action, Kernel
from day0.sandboxes.simulated.machine import Context, Machine, SimProcess, Tree
from day0.sandboxes.simulated.steps import Answer, Drop, Request, Step, Use, Wait
from day0.sandboxes.spool import SpoolWriter

_NUMBERS = count()
_LIVING: set[str] = set()
"""Owners in this process that are still there."""


DEAD = f"{1 << 23}:0:0"
"""An owner that is gone: no process has that number."""
STRANGER = "stranger"
"""Somebody else: never gone, never ours."""


def new_owner() -> str:
    """A name for a node object: process, its start time, world and a number."""
    own = identity.stat(os.getpid())
    name = f"{os.getpid()}:{own.start if own else 0}:{next(_NUMBERS)}"
    _LIVING.add(name)
    return name


def gone(owner: str) -> None:
    """The owner is no more, as after a kill -9."""
    _LIVING.discard(owner)


def lives(owner: str) -> bool:
    """Whether a recorded owner is still there."""
    if owner == STRANGER:
        return True
    pid, start, _ = (int(part) for part in owner.split(":"))
    if pid == os.getpid():
        return owner in _LIVING
    found = identity.stat(pid)
    return found is not None and found.start == start


@dataclass(frozen=True)
class Owner:
    """Whose processes these are."""

    name: str


class _Kernel(Kernel):
    """Tells `paused` whenever time has passed."""

    def __init__(self, start: float, paused: Action) -> None:
        super().__init__(start)
        self._paused = paused

    def run(self, until: float, done: Callable[[], bool], check: Action) -> bool:
        """As `Kernel.run`."""
        try:
            return super().run(until, done, check)
        finally:
            self._paused()


class TwinMachine(Machine):
    """A `Machine` kept in a folder. Raises `OSError` where the folder can't be used."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self._seen = -1
        self._leftovers = folder / "leftovers"
        self._leftovers.mkdir(parents=True, exist_ok=True)
        self._clock, self._state = (
            os.open(folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600) for name in ("clock", "state.json")
        )
        for opened in (self._clock, self._state):
            weakref.finalize(self, os.close, opened)
        kept = os.pread(self._clock, 8, 0)
        self.kernel = _Kernel(struct.unpack("<d", kept)[0] if len(kept) == 8 else 0.0, self.save)
        self.leaked = 0
        self._restore()

    @property
    def vram_bytes(self) -> int:
        """Accelerator memory in use: by processes, and by nobody."""
        return self.leaked + sum(p.vram_bytes for tree in self.trees for p in tree.living())

    def start(self, *args: Any, **more: Any) -> SimProcess:
        """As `Machine.start`."""
        self.trees[:] = [tree for tree in self.trees if not tree.members or tree.living()]
        return super().start(*args, **more)

    def save(self) -> None:
        """The clock; and the rest, where it is not what was last written.

        One write over the old text, filled up with blanks: whoever reads it after a kill finds one state or the other.
        """
        os.pwrite(self._clock, struct.pack("<d", self.kernel.now), 0)
        if self.changes != self._seen:
            self._seen = self.changes
            text = json.dumps(self._picture()).encode()
            os.pwrite(self._state, text.ljust(os.fstat(self._state).st_size), 0)

    def _picture(self) -> dict[str, Any]:
        ports = {id(process): port for port, (process, _) in self._ports.items()}
        trees = []
        for tree in self.trees:
            living = [
                {"pid": p.pid, "argv": list(p.argv), "vram": p.vram_bytes, "port": ports.get(id(p))}
                for p in tree.living()
            ]
            owner = tree.owner.name if isinstance(tree.owner, Owner) else getattr(tree.owner, "token", "")
            if living and owner:
                trees.append({"attempt": tree.attempt, "owner": owner, "processes": living})
        return {"pid": self._pid, "leaked": self.leaked, "trees": trees}

    def _restore(self) -> None:
        kept = os.pread(self._state, os.fstat(self._state).st_size, 0)
        try:
            picture = json.loads(kept)
        except ValueError:
            return
        self._pid, self.leaked = int(picture["pid"]), int(picture["leaked"])
        for tree in picture["trees"]:
            self._revive_tree(tree)

    def _revive_tree(self, kept: dict[str, Any]) -> None:
        folder = self._leftovers / f"{os.getpid()}-{next(_NUMBERS)}"
        folder.mkdir(parents=True, exist_ok=True)
        tree = Tree(str(kept["attempt"]), Owner(str(kept["owner"])), SpoolWriter(str(folder)))
        self.trees.append(tree)
        for one in kept["processes"]:
            self._revive(tree, one)

    def leave(self, owner: str, attempt: str, vram: int) -> None:
        """A server that was there before: it holds accelerator memory and does nothing."""
        self._pid += 1
        self.changes += 1
        process = {"pid": self._pid, "argv": ["sglang::scheduler_TP0"], "vram": vram, "port": None}
        self._revive_tree({"attempt": attempt, "owner": owner, "processes": [process]})

    def _revive(self, tree: Tree, kept: dict[str, Any]) -> None:
        context = Context(tuple(kept["argv"]), {}, self.folder, self, int(kept["pid"]))
        process = SimProcess(self, _left, context, tree)
        process.vram_bytes = int(kept["vram"])
        if kept["port"] is not None:
            super().listen(int(kept["port"]), process, _hangs_up)


def _left(_: Context) -> Generator[Step, object, None]:
    """A program whose day0 is gone: it holds what it held."""
    yield Use()
    yield Wait(inf)


def _hangs_up(_: Request) -> Generator[Answer, None, None]:
    yield Drop()
