"""A sandbox on this machine: a work folder, an environment's programs first in PATH, processes under wardens."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import httpx
from day0.runs.errors import Day0Error, DiskFull, Infrastructure, NodeLost
from day0.sandboxes import endpoint, environment, files, scratch
from day0.sandboxes.clock import WallClock
from day0.sandboxes.identity import LABEL
from day0.sandboxes.local_process import LocalProcess
from day0.sandboxes.portbook import PortBook
from day0.sandboxes.spec import SandboxSpec
from day0.sandboxes.spool import FULL
from day0.sandboxes.warden_link import Link, LocalLink


class Place(NamedTuple):
    """Where a sandbox lies: its work folder, its TMPDIR, its wardens' records."""

    work: Path
    scratch: Path
    records: Path


class LocalSandbox:
    """Made by `LocalNode.open`; `root` is the work folder as programs inside see it."""

    def __init__(
        self, spec: SandboxSpec, place: Place, *, env: Mapping[str, str], ports: PortBook, clock: WallClock
    ) -> None:
        self.spec, self.root = spec, str(place.work)
        self._work, self._scratch, self._records = place
        self._env, self._ports, self._clock = dict(env), ports, clock
        self._processes: list[LocalProcess] = []
        self._clients: list[httpx.Client] = []

    def spawn(self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, stdin: bytes = b"") -> LocalProcess:
        """Runs `argv` in the work folder, in a session of its own. Raises `Cancelled`, `DiskFull`, `NodeLost`."""
        self._clock.check()
        folder = self._records / str(len(self._processes))
        try:
            folder.mkdir()
        except OSError as error:
            raise (DiskFull if error.errno in FULL else Infrastructure)(f"{folder}: {error.strerror}") from error
        job = {
            "argv": list(argv),
            "env": {**self._env, **(env or {}), LABEL: str(folder)},
            "cwd": self.root,
            "cores": list(self.spec.cores),
            "stdin": stdin.decode("latin-1"),
            **self._limits(),
        }
        process = LocalProcess(
            folder, job, attempt=self.spec.attempt, sandbox=self._work.name, clock=self._clock,
            link=self._link(folder),
        )  # fmt: skip
        self._processes.append(process)
        return process

    def _limits(self) -> dict[str, object]:
        """What a process' own warden holds it to."""
        offline = self.spec.role == "job" and self.spec.network == "none"
        return {"memory_bytes": self.spec.memory_bytes, "offline": offline}

    def _link(self, folder: Path) -> Link:
        """Starts a warden. Raises `NodeLost`."""
        return LocalLink(folder, {"PATH": environment.SYSTEM_PATH})

    def _end(self) -> None:
        """What is around the processes goes too. Raises `NodeLost`."""

    def read(self, path: str, max_bytes: int) -> bytes:
        """Raises `FileNotFoundError`, `Refused` for a path outside the work folder and its mounts."""
        mounts = [Path(host) for host, _ in self.spec.mounts]
        return files.read(files.inside(self._work, path, mounts), max_bytes)

    def write(self, path: str, data: bytes) -> None:
        """Raises `DiskFull`, `Refused` for a path outside the work folder."""
        files.write(files.inside(self._work, path), data)

    def free_port(self) -> int:
        """See `PortBook.take`."""
        return self._ports.take()

    def http(self, port: int) -> httpx.Client:
        """A client for 127.0.0.1:PORT; it closes with the sandbox at the latest."""
        client = endpoint.client(port, self._clock.check, self._check_node)
        self._clients.append(client)
        return client

    def _check_node(self) -> None:
        """Raises what really happened, before a transport error is told that was this machine's fault."""
        for process in self._processes:
            process.poll()

    def close(self) -> None:
        """Stops every tree, newest first, and removes the files. Raises the first error after trying all."""
        first: Day0Error | None = None
        for client in self._clients:
            client.close()
        for process in reversed(self._processes):
            try:
                process.close()
            except NodeLost as error:
                first = first or error
        try:
            self._end()
        except NodeLost as error:
            first = first or error
        if first is not None:
            raise first  # the records stay, so that a later sweep can try again
        files.remove(self._work)
        scratch.remove(self._scratch)
        shutil.rmtree(self._records, ignore_errors=True)
