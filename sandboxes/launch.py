"""From fork to exec: how the warden turns itself into the program of a sandbox.

Standard library only.
"""

# The warden loads this, and pathlib would double its start time.
# ruff: noqa: PTH123

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import resource
import signal
import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1
OOM_SCORE = "500"
"""The kernel takes the program before day0 when memory runs out."""

_libc = ctypes.CDLL(None, use_errno=True)


class Job(NamedTuple):
    """What a warden is asked to run. `stdin` is the whole input; `offline` gives it a network of its own.

    `contained`: nothing else lives in this control group, so its own count of kills for memory tells of the program.
    """

    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: str
    cores: Sequence[int] = ()
    memory_bytes: int | None = None
    offline: bool = False
    stdin: str = ""
    contained: bool = False


def adopt_orphans() -> None:
    """Makes this process the parent of all descendants whose own parents end, so that none gets away."""
    _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def leave_network() -> None:
    """A network namespace with nothing but a loopback. Raises `OSError` where the system grants none."""
    import socket

    uid, gid = os.getuid(), os.getgid()
    if _libc.unshare(CLONE_NEWNET) != 0:
        if _libc.unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        request = struct.pack("16sh14x", b"lo", 0)
        (flags,) = struct.unpack("16xh14x", fcntl.ioctl(sock, SIOCGIFFLAGS, request))
        fcntl.ioctl(sock, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | IFF_UP))


def start(job: Job, output: int) -> int:
    """Forks and runs `job` in a session of its own, both streams into `output`; returns its pid.

    A program that can't be run says why on the output and exits 127 (not there) or 126 (not executable).
    """
    stdin = os.memfd_create("stdin", os.MFD_CLOEXEC)
    with open(stdin, "wb", closefd=False) as file:
        file.write(job.stdin.encode("latin-1"))
    os.lseek(stdin, 0, os.SEEK_SET)
    parent = os.getpid()
    # A SIGTERM between fork and exec would run the warden's handler in the child and be lost: hold signals until the
    # child has none of its handlers left.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    pid = os.fork()
    if pid:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.close(stdin)
        return pid
    try:
        for name in ("SIGPIPE", "SIGXFSZ", "SIGCHLD", "SIGTERM", "SIGINT", "SIGHUP"):
            signal.signal(getattr(signal, name), signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        _become(job, stdin, output, parent)
    except FileNotFoundError as error:
        _say(output, f"day0: {job.argv[0]}: not found ({error.strerror})", 127)
    except OSError as error:
        _say(output, f"day0: {job.argv[0]}: cannot be run: {error.strerror}", 126)
    except BaseException as error:  # nothing may return into the warden's loop from here
        _say(output, f"day0: {job.argv[0]}: cannot be run: {error!r}", 126)
    os._exit(126)


def _become(job: Job, stdin: int, output: int, parent: int) -> None:
    os.setsid()
    # SIGKILL when the warden dies. Usable here and not in day0: it fires when the parent's *thread* ends, and the
    # warden has only one.
    _libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:
        os._exit(126)
    os.dup2(stdin, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write(OOM_SCORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if job.memory_bytes is not None:
        resource.setrlimit(resource.RLIMIT_DATA, (job.memory_bytes, job.memory_bytes))
    if job.cores:
        os.sched_setaffinity(0, job.cores)
    os.chdir(job.cwd)
    if job.offline:
        leave_network()
    os.execvpe(job.argv[0], list(job.argv), dict(job.env))


def _say(output: int, text: str, code: int) -> None:
    with contextlib.suppress(OSError):
        os.write(output, text.encode() + b"\n")
    os._exit(code)
