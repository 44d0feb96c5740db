"""The ports: a node, a sandbox on it, a process in that.

Time. Node time passes only inside `Clock.sleep`, `Process.wait`, `Process.stop`, `Node.open`, `Node.host`,
`Node.sweep`, `Node.images` and requests of `Sandbox.http`: wall time on a real node, virtual time in the twin. All
timeouts are node seconds.

Errors. Every blocking call checks the node's cancel token at least once a second and raises `Cancelled`; it
raises `NodeLost` when the node no longer answers, `DiskFull` when something can't be written. Nothing else
but what a method's docstring lists leaves these ports. A command that fails is a result, not an exception.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

import httpx
from day0.sandboxes.images import Images
from day0.sandboxes.spec import Completed, Exit, SandboxSpec, Sweep, Vitals


class Clock(Protocol):
    """Node time, in seconds."""

    def now(self) -> float: ...
    def sleep(self, seconds: float) -> None: ...


class Process(Protocol):
    """A process and everything it started."""

    def poll(self) -> Exit | None:
        """How the program itself ended, or None; what it started may live on until `stop`."""
        ...

    def wait(self, timeout_s: float) -> Exit:
        """Raises `Timeout`."""
        ...

    def output(self, offset: int, max_bytes: int) -> bytes:
        """Stdout and stderr from a logical offset; grows while the process runs; b"" = nothing more yet.

        Bytes that were not kept (64 MiB are, head and tail) read as one marker line and blanks of the same length.
        """
        ...

    def vitals(self) -> Vitals: ...
    def pin(self, cores: Sequence[int]) -> None:
        """Confines the whole tree, and what it starts later, to these cores. Raises `Infrastructure`."""
        ...

    def stop(self, grace_s: float) -> Exit:
        """SIGTERM, after `grace_s` SIGKILL, the whole tree; returns when all of it is verified gone. Idempotent.

        The cancel token only cuts the grace. Raises `NodeLost` when something does not die.
        """
        ...


class Sandbox(Protocol):
    """A place with its own files, environment and processes; all of it is gone when it closes."""

    root: str
    """The work folder, as programs inside see it; processes start there."""

    def spawn(self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, stdin: bytes = b"") -> Process:
        """argv[0] is looked up in the sandbox' environment first. A program that isn't there exits 127."""
        ...

    def read(self, path: str, max_bytes: int) -> bytes:
        """At most the first `max_bytes`. Relative paths lie in the sandbox' work folder.

        Raises `FileNotFoundError`; `Refused` for a path that leads outside the work folder and the mounts.
        """
        ...

    def write(self, path: str, data: bytes) -> None:
        """All or nothing; folders on the way are made. Raises `Refused` for a path outside the work folder."""
        ...

    def free_port(self) -> int:
        """A port nobody listens on, never given twice by this node within an hour."""
        ...

    def http(self, port: int) -> httpx.Client:
        """The only way to an endpoint. Raises httpx' own errors; base URL and timeouts are set."""
        ...


class Node(Protocol):
    """A machine that runs attempts, one at a time."""

    name: str

    @property
    def clock(self) -> Clock: ...
    @property
    def images(self) -> Images: ...
    def host(self, argv: Sequence[str], *, timeout_s: float) -> Completed:
        """An allow-listed command (`amd-smi`, `df` ...); 127 when it isn't there. Raises `Timeout`, `Refused`."""
        ...

    def open(self, spec: SandboxSpec) -> AbstractContextManager[Sandbox]:
        """For the length of a `with` block. Raises `Infrastructure` when the node can't give what is asked."""
        ...

    def sweep(self) -> Sweep:
        """Stops what earlier, dead owners left on this node: only what carries our label."""
        ...
