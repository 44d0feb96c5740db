"""Containers that run, and the network namespaces that they share."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from day0.runs.errors import Infrastructure, NodeLost
from day0.sandboxes import files, record
from day0.sandboxes.docker_engine import DockerEngine
from day0.sandboxes.docker_link import START_S, gone, hold
from day0.sandboxes.docker_options import Container, Joined
from day0.sandboxes.spec import SandboxSpec

Network = Literal["none", "bridge"] | Joined
MakeRelay = Callable[[SandboxSpec, Path, Network], Container]


@dataclass(frozen=True)
class Running:
    """A started container, the folder it is shown, and the descriptor that keeps it alive."""

    engine: DockerEngine
    container: str
    folder: Path
    life: int

    @classmethod
    def begin(cls, engine: DockerEngine, wanted: Container, folder: Path) -> Running:
        """Raises `Infrastructure`; nothing is left then."""
        life = hold(folder)
        container = ""
        try:
            container = engine.create(wanted)
            engine.start(container)
        except BaseException:
            if container:
                gone(engine, [container])
            os.close(life)
            raise
        return cls(engine, container, folder, life)

    def end(self) -> None:
        """Removes it with its folder. Raises `NodeLost` where it does not go."""
        left = gone(self.engine, [self.container])
        os.close(self.life)
        if left:
            raise NodeLost(f"the container {self.container[:12]} does not go away")
        files.remove(self.folder)


class Networks:
    """One namespace per attempt for its server and its load generator, held by a relay; jobs have their own.

    `folders` is where relays' folders go, each with a record of its owner, so that a sweep finds them.
    """

    def __init__(self, engine: DockerEngine, folders: Path, make: MakeRelay) -> None:
        self._engine, self._folders, self._make = engine, folders, make
        self._shared: dict[tuple[str, int], tuple[Running, int]] = {}
        """relay and how many sandboxes are in its namespace"""
        self._single: dict[str, Running] = {}
        """job's container -> its relay, once somebody asked for one"""

    def join(self, spec: SandboxSpec) -> Network:
        """What a sandbox' container is given. The first of an attempt makes the namespace."""
        if spec.role == "job":
            return "bridge" if spec.network == "registry" else "none"
        key = spec.attempt, spec.epoch
        relay, users = self._shared.get(key) or (self._relay(spec, "none"), 0)
        self._shared[key] = relay, users + 1
        return Joined(relay.container)

    def leave(self, spec: SandboxSpec, container: str) -> None:
        """The last of an attempt takes the namespace with it. Raises `NodeLost`."""
        if spec.role == "job":
            if container in self._single:
                _close(self._single.pop(container))
            return
        key = spec.attempt, spec.epoch
        relay, users = self._shared.pop(key)
        if users > 1:
            self._shared[key] = relay, users - 1
        else:
            _close(relay)

    def way(self, spec: SandboxSpec, container: str) -> Path:
        """The folder of the relay into a sandbox' network."""
        if spec.role != "job":
            return self._shared[spec.attempt, spec.epoch][0].folder
        if container not in self._single:
            self._single[container] = self._relay(spec, Joined(container))
        return self._single[container].folder

    def _relay(self, spec: SandboxSpec, network: Network) -> Running:
        try:
            (folder,) = files.fresh([self._folders], f"{spec.attempt}-{spec.epoch}-relay")
            record.write_owner(str(folder))
            (folder / "shown").mkdir()
        except OSError as error:
            raise Infrastructure(f"no relay can be made under {self._folders}: {error.strerror}") from error
        running = None
        try:
            running = Running.begin(self._engine, self._make(spec, folder / "shown", network), folder / "shown")
            _listens(folder / "shown")
        except BaseException:
            if running is not None:
                with contextlib.suppress(NodeLost):
                    running.end()
            files.remove(folder)
            raise
        return running


def _close(relay: Running) -> None:
    """Ends a relay and removes the record of its owner. Raises `NodeLost`."""
    relay.end()
    files.remove(relay.folder.parent)


def _listens(folder: Path) -> None:
    """Returns once the relay made its socket. Raises `NodeLost`."""
    end = time.monotonic() + START_S
    while not (folder / "http").exists():
        if time.monotonic() > end:
            raise NodeLost("the way into a sandbox' network does not open: is there a python3 in the base image?")
        time.sleep(0.01)
