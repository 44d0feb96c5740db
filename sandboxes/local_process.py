"""A process under a warden, seen from day0: the other end of the warden's pipes."""

from __future__ import annotations

import contextlib
import json
import os
import select
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from day0.runs.errors import DiskFull, Infrastructure, NodeLost, Refused, Timeout
from day0.sandboxes import files, identity, record
from day0.sandboxes.clock import CANCELLED_GRACE_S, SLICE_S, WallClock
from day0.sandboxes.spec import Exit, Vitals
from day0.sandboxes.spool import SpoolReader
from day0.sandboxes.warden_link import Link

SETTLE_S = 30.0
"""Beyond the grace: the warden gives up on processes that hang in the kernel after 20 s."""


class LocalProcess:
    """A program under a warden. `folder` holds its record and output and is the caller's to delete."""

    def __init__(
        self,
        folder: Path,
        job: dict[str, Any],
        *,
        attempt: str,
        sandbox: str,
        clock: WallClock,
        link: Link,
    ) -> None:
        """Tells the warden at the other end of `link` what to run."""
        self.folder, self._clock = folder, clock
        self._spool = SpoolReader(str(folder))
        self._exit: Exit | None = None
        self._trouble: Infrastructure | None = None
        """the disk or this machine failed: every call but `stop` raises it from then on"""
        self._undead: list[int] = []
        self._gone = False
        self._rest = b""
        order = {"job": job, "owner": record.own(), "attempt": attempt, "sandbox": sandbox}
        self._link, self._orders, self._events = link, link.orders, link.events
        self._tell(order)

    @property
    def pid(self) -> int:
        """The warden's pid; the program and its tree are below it."""
        return self._link.pid

    def poll(self) -> Exit | None:
        """How the program ended, or None. What it started may live on until `stop`. Raises `DiskFull`, `NodeLost`."""
        self._listen(0.0)
        self._raise()
        return self._exit

    def wait(self, timeout_s: float) -> Exit:
        """Raises `Timeout`, `Cancelled`, `DiskFull`, `NodeLost`."""
        end = time.monotonic() + timeout_s
        while True:
            self._clock.check()
            left = end - time.monotonic()
            self._listen(max(0.0, min(left, SLICE_S)))
            self._raise()
            if self._exit is not None:
                return self._exit
            if left <= 0:
                raise Timeout(f"the program still runs after {timeout_s:g} s")

    def output(self, offset: int, max_bytes: int) -> bytes:
        """Both streams, from a logical offset. Bytes that were not kept read as a marker line and blanks."""
        return self._spool.read(offset, max_bytes)

    def vitals(self) -> Vitals:
        """Signs of life of the tree. Raises `DiskFull`, `NodeLost`."""
        self._listen(0.0)
        self._raise()
        table = identity.table()
        warden = table.get(self._link.pid)
        tree = [p for p in identity.descendants(table, self._link.pid) if p.state not in "ZX"]
        ticks = sum(p.cpu + p.reaped_cpu for p in tree) + (warden.reaped_cpu if warden else 0)
        read = [n for p in tree if (n := identity.io_bytes(p.pid)) is not None]
        return Vitals(
            output_bytes=self._spool.size(),
            cpu_s=ticks / os.sysconf("SC_CLK_TCK"),
            io_bytes=sum(read) if read else None,
            children=len(tree),
            rss_bytes=sum(p.rss for p in tree) * os.sysconf("SC_PAGE_SIZE"),
        )

    def pin(self, cores: Sequence[int]) -> None:
        """Every thread of the tree; again until no thread is new, since each new one inherits from its maker."""
        done: set[int] = set()
        while fresh := self._threads() - done:
            done |= fresh
            for thread in fresh:
                try:
                    os.sched_setaffinity(thread, cores)
                except ProcessLookupError:
                    continue
                except OSError as error:
                    raise Infrastructure(f"this machine gives no cores {sorted(cores)}: {error.strerror}") from error

    def _threads(self) -> set[int]:
        """Thread IDs of the program and all that descends from it."""
        found: set[int] = set()
        for process in identity.descendants(identity.table(), self._link.pid):
            with contextlib.suppress(OSError):
                found |= {int(task.name) for task in Path(f"/proc/{process.pid}/task").iterdir()}
        return found

    def stop(self, grace_s: float) -> Exit:
        """Ends the whole tree and verifies it. Not interrupted by the cancel token, which only cuts the grace.

        Raises `NodeLost` when a process does not die.
        """
        grace = grace_s
        self._tell({"stop": grace_s})
        end = time.monotonic() + grace_s + SETTLE_S
        while not self._gone and time.monotonic() < end:
            if grace > CANCELLED_GRACE_S and self._clock.cancel():
                grace = CANCELLED_GRACE_S
                self._tell({"stop": grace})
            self._listen(SLICE_S)
        if not self._gone:
            self._take_over("did not answer")
        self._link.reap()
        if self._undead:
            raise NodeLost(f"processes {self._undead} do not die: they hang in the kernel")
        return self._exit or Exit(128 + 9)

    def close(self) -> None:
        """Stops at once, if that was not done, and releases the pipes."""
        try:
            self.stop(0.0)
        finally:
            self._orders.close()
            self._events.close()

    def _tell(self, order: dict[str, Any]) -> None:
        data = memoryview(json.dumps(order).encode() + b"\n")
        if self._gone:
            return
        with contextlib.suppress(BrokenPipeError):  # a dead warden shows on the other pipe
            while data:
                data = data[self._orders.write(data) :]

    def _listen(self, timeout_s: float) -> None:
        """Takes in what the warden said, waiting at most `timeout_s` for it."""
        if self._gone:
            return
        poll = select.poll()
        poll.register(self._events, select.POLLIN)
        if not poll.poll(timeout_s * 1000):
            return
        data = self._events.read(65536)
        if data == b"":
            self._take_over("was killed")
            return
        *lines, self._rest = (self._rest + (data or b"")).split(b"\n")
        for line in lines:
            self._heard(json.loads(line))

    def _heard(self, event: dict[str, Any]) -> None:
        if "exit" in event:
            self._exit = Exit(event["exit"], event["oom"])
        if "full" in event:
            self._trouble = DiskFull(f"no room for the output of a process: {event['full']}")
        if "failed" in event:
            self._trouble = NodeLost(f"a process could not be started: {event['failed']}")
        if "undead" in event:
            self._undead = event["undead"]
        if "gone" in event:
            self._gone = True
            self._exit = self._exit or Exit(event["gone"])

    def _raise(self) -> None:
        if self._trouble is not None:
            raise self._trouble

    def _take_over(self, what: str) -> None:
        """The warden is of no use any more: its tree is stopped from here, by its record."""
        self._link.reap()
        self._gone = True
        if (ended := record.read_exit(str(self.folder))) is not None:
            self._exit = Exit(*ended)
        self._undead = self._link.kill_tree(self.folder)
        said = self._last_words()
        text = f"the warden {self._link.pid} of a process {what}{': ' + said if said else ''}; its tree is stopped"
        self._trouble = self._trouble or NodeLost(text)

    def _last_words(self) -> str:
        """The end of what the warden wrote on its error stream; in a container the program can reach that file."""
        try:
            return files.read(self.folder / "warden.err", 1 << 16).decode(errors="replace").strip().rpartition("\n")[2]
        except (OSError, Refused):
            return ""


def whole(process: LocalProcess) -> bytes:
    """All that was kept of a process' output."""
    parts: list[bytes] = []
    size = 0
    while data := process.output(size, 1 << 22):
        parts.append(data)
        size += len(data)
    return b"".join(parts)
