"""How day0 holds a warden: a pipe for orders, one for what it tells, and what to do when it is of no use any more."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import IO, Protocol

from day0.runs.errors import NodeLost
from day0.sandboxes import janitor, record

WARDEN = Path(__file__).with_name("warden_main.py")


class Link(Protocol):
    """A running warden. Both pipes are day0's ends of it; `pid` is the warden's in this process' pid namespace."""

    pid: int
    orders: IO[bytes]
    events: IO[bytes]
    """does not block"""

    def reap(self) -> None:
        """Returns when the warden itself is gone, by force if need be."""
        ...

    def kill_tree(self, folder: Path) -> list[int]:
        """Ends the tree of a warden that can't; the pids that would not die."""
        ...


class LocalLink:
    """A warden that is a child of this process."""

    def __init__(self, folder: Path, env: dict[str, str]) -> None:
        """Raises `NodeLost` when this machine can't start a process."""
        try:
            with (folder / "warden.err").open("wb") as errors:
                self._warden = subprocess.Popen(
                    [sys.executable, "-I", "-S", str(WARDEN), str(folder)],
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, bufsize=0,
                    env=env, cwd="/", start_new_session=True,
                )  # fmt: skip
        except OSError as error:
            raise NodeLost(f"this machine can't start a process: {error.strerror}") from error
        assert self._warden.stdin is not None and self._warden.stdout is not None
        self.pid = self._warden.pid
        self.orders: IO[bytes] = self._warden.stdin
        self.events: IO[bytes] = self._warden.stdout
        os.set_blocking(self.events.fileno(), False)

    def reap(self) -> None:
        """See `Link.reap`."""
        try:
            self._warden.wait(2.0)
        except subprocess.TimeoutExpired:
            self._warden.kill()  # our own child, not reaped yet: the pid is still its
            self._warden.wait()

    def kill_tree(self, folder: Path) -> list[int]:
        """By the warden's own record."""
        found = record.load(str(folder))
        return [] if found is None else janitor.kill_tree(found)[1]
