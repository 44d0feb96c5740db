"""Which processes are ours: the process table, and identities that survive renaming and pid reuse.

A pid alone proves nothing. A process is named by (pid, start time in clock ticks), valid for one boot ID and one
pid namespace. The environment is a further sign but never the only one: `setproctitle`, which SGLang's
schedulers call, overwrites the memory that /proc/PID/environ shows (tried: the whole area reads as zeros), so the
warden also records every descendant it sees, the session that it made and the pipe that the output goes into.

Standard library only: the warden runs this without site-packages.
"""

# The warden loads this, and pathlib would double its start time.
# ruff: noqa: PTH115, PTH123, PTH208

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Mapping
from typing import NamedTuple

LABEL = "DAY0_PROCESS"
"""Environment variable that every process under a warden inherits; its value is the warden's record folder."""


class Stat(NamedTuple):
    """One line of the process table. Times in clock ticks, memory in pages."""

    pid: int
    start: int
    ppid: int
    group: int
    session: int
    state: str
    cpu: int
    reaped_cpu: int
    rss: int


class Known(NamedTuple):
    """The identity of a process within one boot and pid namespace."""

    pid: int
    start: int


def world() -> str:
    """Boot ID and pid namespace: pids and start times compare only within one of these."""
    with open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip() + " " + os.readlink("/proc/self/ns/pid")


def stat(pid: int) -> Stat | None:
    """The process of that pid now; None when there is none."""
    try:
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        line = os.read(fd, 4096)
    except OSError:
        return None
    finally:
        os.close(fd)
    f = line[line.rindex(b")") + 2 :].split()
    cpu, reaped = int(f[11]) + int(f[12]), int(f[13]) + int(f[14])
    return Stat(pid, int(f[19]), int(f[1]), int(f[2]), int(f[3]), f[0].decode(), cpu, reaped, int(f[21]))


def table() -> dict[int, Stat]:
    """Every process that this user can see."""
    found = (stat(int(name)) for name in os.listdir("/proc") if name.isdigit())
    return {s.pid: s for s in found if s is not None}


def descendants(processes: Mapping[int, Stat], root: int) -> list[Stat]:
    """All that descends from `root`, itself not included, parents before children."""
    children: dict[int, list[Stat]] = {}
    for process in processes.values():
        children.setdefault(process.ppid, []).append(process)
    found: list[Stat] = []
    todo = [root]
    while todo:
        level = children.get(todo.pop(), [])
        found += level
        todo += [process.pid for process in level]
    return found


def environment(pid: int) -> dict[str, str]:
    """The start environment of a process, as far as it is readable and was not overwritten."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            raw = file.read()
    except OSError:
        return {}
    pairs = (item.decode(errors="replace").partition("=") for item in raw.split(b"\0") if b"=" in item)
    return {key: value for key, _, value in pairs}


def io_bytes(pid: int) -> int | None:
    """Bytes that a process really read from and wrote to storage; None = not readable.

    Not `rchar`: an idle server's polling of event descriptors counts there and would look like progress.
    """
    try:
        with open(f"/proc/{pid}/io") as file:
            fields = dict(line.split(": ") for line in file.read().splitlines())
        return int(fields["read_bytes"]) + int(fields["write_bytes"])
    except (OSError, KeyError, ValueError):
        return None


def alive(known: Known) -> bool:
    """Whether exactly this process lives; a zombie is dead."""
    now = stat(known.pid)
    return now is not None and now.start == known.start and now.state not in "ZX"


def send(known: Known, number: int) -> bool:
    """Signals exactly this process; False when it is gone.

    The descriptor is taken first and the start time compared after: from then on the kernel holds the identity,
    so a pid that is reused in between gets nothing. Raises `PermissionError`.
    """
    try:
        fd = os.pidfd_open(known.pid)
    except OSError:
        return False
    try:
        now = stat(known.pid)
        if now is None or now.start != known.start or now.state in "ZX":
            return False
        signal.pidfd_send_signal(fd, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(fd)
    return True


def streams(pid: int) -> frozenset[str]:
    """What a process' output and error streams are, e.g. `pipe:[123]`; those that can't be read are left out."""
    found = set()
    for fd in (1, 2):
        with contextlib.suppress(OSError):
            found.add(os.readlink(f"/proc/{pid}/fd/{fd}"))
    return frozenset(found)


class Proof(NamedTuple):
    """What proves that a process belongs to a tree. `pipe` is the name of the output pipe that only it inherits."""

    recorded: frozenset[Known]
    label: str
    pipe: str = ""


def ours(processes: Mapping[int, Stat], proof: Proof) -> list[Stat]:
    """Living processes that are provably of one dead or dying tree.

    Proof is one of: recorded with this start time; a member of a session that was made by a recorded process and
    still has a recorded member (a session passes on by fork alone); the label in its environment; the tree's
    output pipe as its own stream; a descendant of any. A session number without a living recorded member proves
    nothing: it may have been given anew.
    """
    roots = {k.pid for k in proof.recorded if (p := processes.get(k.pid)) is not None and p.start == k.start}
    sessions = {processes[pid].session for pid in roots} & {k.pid for k in proof.recorded}
    for process in processes.values():
        if (
            process.session in sessions
            or environment(process.pid).get(LABEL) == proof.label
            or (proof.pipe and proof.pipe in streams(process.pid))
        ):
            roots.add(process.pid)
    found = {pid: processes[pid] for pid in roots}
    for pid in roots:
        found |= {p.pid: p for p in descendants(processes, pid)}
    return [p for p in found.values() if p.state not in "ZX"]
