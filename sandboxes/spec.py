"""Values at the joints of a node: what a sandbox may do, and how commands and processes end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

Role = Literal["server", "harness", "job"]
CancelToken = Callable[[], bool]
"""Called at least once a second by whatever blocks; True means: stop now."""


@dataclass(frozen=True)
class SandboxSpec:
    """What a sandbox may do. Nothing outside this is expressible.

    `environment` names the engine or harness environment by its folder (local) or image digest (docker);
    `attempt` and `epoch` label every process and file; `cores` pins it; `mounts` are (host path, path inside)
    and read-only; `caches` are names of writable cache volumes that outlive the sandbox.
    """

    role: Role
    environment: str
    attempt: str
    epoch: int = 0
    cores: tuple[int, ...] = ()
    mounts: tuple[tuple[str, str], ...] = ()
    caches: tuple[str, ...] = ()
    memory_bytes: int | None = None
    network: Literal["none", "loopback", "registry"] = "loopback"
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Completed:
    """A host command that ended. Output is cut at 1 MiB."""

    exit_code: int
    output: bytes


@dataclass(frozen=True)
class Exit:
    """How a process ended: exit code, or 128 + signal; `oom` when the kernel killed it for memory (None: unknown)."""

    code: int
    oom: bool | None = None


@dataclass(frozen=True)
class Vitals:
    """Signs of life of a whole process tree; None = unknown."""

    output_bytes: int
    cpu_s: float | None = None
    io_bytes: int | None = None
    children: int | None = None
    vram_bytes: int | None = None
    rss_bytes: int | None = None


@dataclass(frozen=True)
class Sweep:
    """What `Node.sweep` stopped (pids or container IDs with their attempt) and what it could not."""

    stopped: tuple[tuple[str, str], ...] = ()
    failed: tuple[tuple[str, str], ...] = ()
