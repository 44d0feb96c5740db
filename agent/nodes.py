"""Nodes: the port, and the pool of this machine's own nodes.

One thread drives one node; the controller's thread starts work and takes what the node threads tell, and is
the only writer of the ledger. A node is also locked host-wide by `flock`: two processes never share it.
"""

from __future__ import annotations

import fcntl
import os
import queue
import tempfile
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Protocol

from day0.runs.errors import Cancelled, Infrastructure
from day0.runs.facts import Fact
from day0.sandboxes.base import Node
from day0.sandboxes.spec import CancelToken


@dataclass(frozen=True)
class Work:
    """Something to do on a node. `perform` is a module-level function with its frozen arguments bound."""

    key: str
    """attempt ID, or what stands for it"""
    epoch: int
    perform: Callable[[Node], Generator[Fact, None, None]]


@dataclass(frozen=True)
class Told:
    """A fact that a work told while it runs, with the node time at which it did."""

    key: str
    epoch: int
    node: str
    node_s: float
    fact: Fact


@dataclass(frozen=True)
class Ended:
    """A work ended; `error` is what left it (None: it ran to its end), `node_s` how long it held the node."""

    key: str
    epoch: int
    node: str
    node_s: float
    error: BaseException | None = None


class NodePool(Protocol):
    """Nodes that can be given work. Facts of one work arrive in order, those of different works interleave."""

    def free(self) -> tuple[str, ...]: ...
    def count(self) -> int: ...
    def busy(self) -> bool: ...
    def start(self, work: Work) -> str:
        """Starts on the first free node and names it. Raises `Infrastructure` when none is free."""
        ...

    def next(self, timeout_s: float) -> Told | Ended | None:
        """The next thing that any work told; None when nothing came in `timeout_s` wall seconds."""
        ...

    def cancel(self, key: str) -> None:
        """The work of that key stops within seconds and ends with `Cancelled`. Idempotent."""
        ...

    def close(self) -> None:
        """Cancels everything, waits until it has ended, gives the nodes back."""
        ...


@dataclass
class _Slot:
    node: Node
    stop: threading.Event
    lock: IO[str] | None
    work: Work | None = None
    thread: threading.Thread | None = None


MakeNode = Callable[[CancelToken], Node]


@dataclass
class LocalPool:
    """Nodes driven from this process, one thread each, alive while they have work."""

    make: Mapping[str, MakeNode]
    shared: bool = field(default=True)
    """the nodes are this machine itself: take the host-wide lock"""
    machine: str = ""
    """whose lock that is, where the node is another view of a machine; empty: the node's own"""
    _slots: dict[str, _Slot] = field(default_factory=dict, init=False)
    _told: queue.Queue[Told | Ended] = field(default_factory=queue.Queue, init=False)

    def __post_init__(self) -> None:
        for name, make in self.make.items():
            lock = hold(self.machine or name) if self.shared else None
            stop = threading.Event()
            self._slots[name] = _Slot(make(stop.is_set), stop, lock)

    def free(self) -> tuple[str, ...]:
        return tuple(name for name, slot in self._slots.items() if slot.work is None)

    def count(self) -> int:
        return len(self._slots)

    def busy(self) -> bool:
        return any(slot.work is not None for slot in self._slots.values())

    def start(self, work: Work) -> str:
        free = self.free()
        if not free:
            raise Infrastructure("no node is free")
        slot = self._slots[free[0]]
        slot.stop.clear()
        slot.work = work
        slot.thread = threading.Thread(target=self._drive, args=(free[0], slot.node, work), name=f"node-{free[0]}")
        slot.thread.start()
        return free[0]

    def next(self, timeout_s: float) -> Told | Ended | None:
        try:
            told = self._told.get(timeout=timeout_s)
        except queue.Empty:
            return None
        if isinstance(told, Ended):
            slot = self._slots[told.node]
            if slot.thread is not None:
                slot.thread.join()
            slot.work = slot.thread = None
        return told

    def cancel(self, key: str) -> None:
        for slot in self._slots.values():
            if slot.work is not None and slot.work.key == key:
                slot.stop.set()

    def close(self) -> None:
        for slot in self._slots.values():
            slot.stop.set()
        for slot in self._slots.values():
            if slot.thread is not None:
                slot.thread.join()
            slot.work = slot.thread = None
            if slot.lock is not None:
                slot.lock.close()
                slot.lock = None

    def _drive(self, name: str, node: Node, work: Work) -> None:
        """The body of a node's thread: everything ends as an `Ended`, also what nobody foresaw."""
        start, error = node.clock.now(), None
        try:
            with closing(work.perform(node)) as facts:  # closing it stops its servers, whatever ended the loop
                for fact in facts:
                    self._told.put(Told(work.key, work.epoch, name, node.clock.now(), fact))
                    if self._slots[name].stop.is_set():
                        raise Cancelled("stopped between two facts")
        except BaseException as caught:  # a thread has no caller: the controller's thread raises it
            error = caught
        self._told.put(Ended(work.key, work.epoch, name, node.clock.now() - start, error))


def hold(name: str, folder: Path | None = None) -> IO[str]:
    """Takes the host-wide lock of a node; it is given back when the returned file closes or this process ends.

    Raises `Infrastructure` naming the holder. The lock lies in the machine's temporary folder, not in
    `$DAY0_HOME`: two homes on one machine still share its cores.
    """
    path = (folder or Path(tempfile.gettempdir())) / f"day0-node-{name}.lock"
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
    try:
        file = os.fdopen(os.open(path, flags, 0o666), "r+")
    except OSError as error:
        raise Infrastructure(f"the lock of node {name} can't be opened: {error}") from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        holder = file.read(64).strip() or "unknown"
        file.close()
        raise Infrastructure(f"node {name} is in use by process {holder}; two processes never share a node") from None
    file.seek(0)
    file.truncate()
    file.write(f"{os.getpid()}\n")
    file.flush()
    return file
