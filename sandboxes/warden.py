"""The warden: the parent of one program in a sandbox, so that nothing of it outlives its owner.

A small process in its own session, child-subreaper, one thread. Standard input is a pipe from day0: a job as the
first line, later `{"stop": grace}`; end of file means that day0 is gone, and then the tree is stopped the same
way. Standard output tells day0 what happened, one JSON object a line: `exit`, `full` (disk), `undead`, `gone`.
The program's output goes into the spool.

The program stays a zombie until the end, so its pid, group and session can't be given to anyone else.

Standard library only: it runs as `python -I -S warden_main.py FOLDER` and starts in about 25 ms.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import select
import signal
import time
from typing import Any

from day0.sandboxes import identity, launch
from day0.sandboxes.identity import Known, Stat
from day0.sandboxes.memory import OomWatch
from day0.sandboxes.record import Header, Journal, write_exit
from day0.sandboxes.spool import SpoolWriter

ORPHAN_GRACE_S = 5.0
"""SIGTERM to SIGKILL when day0 is gone without a word."""
SCAN_S = 1.0
FIRST_SCANS_S = 0.1
"""Look often in the first two seconds: that is when launchers fork."""
STOP_SCAN_S = 0.02
KILL_SCAN_S = 0.005
UNDEAD_S = 20.0
"""A process that outlives SIGKILL this long hangs in the kernel; say so and give up."""
PIPE = 1 << 20
CONTROL, STATUS = 0, 1


class Warden:
    """One program and its tree, from start to verified end."""

    def __init__(self, folder: str, job: dict[str, Any], early: bytes = b"") -> None:
        self.early = early
        self.folder, self.job = folder, launch.Job(**job.pop("job"))
        self.me = os.getpid()
        own = identity.stat(self.me)
        assert own is not None
        self.output, self.program_end = os.pipe2(os.O_CLOEXEC)
        pipe = os.readlink(f"/proc/self/fd/{self.program_end}")  # noqa: PTH115 - pathlib would double the start time
        owner, me = Known(*job["owner"]), Known(self.me, own.start)
        header = Header(identity.world(), owner, me, job["attempt"], job["sandbox"], pipe)
        self.journal, self.spool = Journal(folder, header), SpoolWriter(folder)
        self.oom = OomWatch(self.job.contained)
        self.ended: int | None = None
        self.over_memory = self.full_told = False
        self.kill_at: float | None = None
        self.pids: set[int] = set()
        self.began = time.monotonic()
        self.next_scan = 0.0

    def run(self) -> None:
        """Starts the program and stays until its tree is gone."""
        wake_read, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        self.wake = wake_read
        for name in ("SIGINT", "SIGHUP", "SIGPIPE", "SIGXFSZ"):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, self.on_term)
        launch.adopt_orphans()
        with contextlib.suppress(OSError):
            fcntl.fcntl(self.output, fcntl.F_SETPIPE_SZ, PIPE)
        os.set_blocking(self.output, False)
        self.child = launch.start(self.job, self.program_end)
        os.close(self.program_end)
        self.poll = select.poll()
        for fd in (CONTROL, self.output, self.wake):
            self.poll.register(fd, select.POLLIN)
        self.obey(self.early)
        while not self.turn():
            pass
        self.drain()
        self.tell(gone=self.ended)

    def on_term(self, *_: object) -> None:
        """Somebody asks the warden itself to go: it goes, and takes its tree along."""
        self.early = b'{"stop": %d}\n' % ORPHAN_GRACE_S

    def turn(self) -> bool:
        """Waits for the next thing and handles it; True when nothing of the tree is left after a stop."""
        pause = max(0.0, self.next_scan - time.monotonic())
        for fd, _ in self.poll.poll(pause * 1000 + 1):
            if fd == self.output:
                self.pump()
            elif fd == CONTROL:
                self.listen()
            else:
                with contextlib.suppress(BlockingIOError):
                    os.read(self.wake, 4096)
                self.see_exit()
                self.obey(self.early)
                self.next_scan = min(self.next_scan, time.monotonic() + STOP_SCAN_S)
        if time.monotonic() < self.next_scan:
            return False
        return self.scan()

    def listen(self) -> None:
        """An order from day0, or its end."""
        data = os.read(CONTROL, 65536)
        if not data:
            self.poll.unregister(CONTROL)
            self.stop(ORPHAN_GRACE_S)
            return
        self.obey(data)

    def obey(self, orders: bytes) -> None:
        """One order a line."""
        self.early = b""
        for line in orders.splitlines():
            self.stop(float(json.loads(line)["stop"]))

    def pump(self) -> bool:
        """Moves output into the spool; False when there is none now."""
        try:
            data = os.read(self.output, PIPE)
        except BlockingIOError:
            return False
        if not data:
            with contextlib.suppress(KeyError):
                self.poll.unregister(self.output)
            return False
        self.spool.append(data)
        if self.spool.full and not self.full_told:
            self.full_told = True
            self.tell(full=self.spool.full)
        return True

    def drain(self) -> None:
        """All that is in the pipe now; bounded, since a flooding descendant may still write."""
        for _ in range(8):
            if not self.pump():
                return

    def see_exit(self) -> None:
        """Notes the end of the program itself; it stays a zombie so that its number stays taken."""
        if self.ended is not None:
            return
        info = os.waitid(os.P_PID, self.child, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if info is None:
            return
        self.ended = info.si_status if info.si_code == os.CLD_EXITED else 128 + info.si_status
        self.drain()
        oom = self.killed_for_memory()
        write_exit(self.folder, self.ended, oom)
        self.tell(exit=self.ended, oom=oom)

    def killed_for_memory(self) -> bool | None:
        """Our own limit, or the kernel's."""
        return True if self.over_memory else self.oom.killed(self.pids)

    def stop(self, grace_s: float) -> None:
        """SIGTERM to all, and SIGKILL from `grace_s` on; a second call can only shorten the grace."""
        now = time.monotonic()
        first = self.kill_at is None
        self.kill_at = now + grace_s if self.kill_at is None else min(self.kill_at, now + grace_s)
        self.next_scan = 0.0
        if first and grace_s > 0:
            for process in self.living():
                self.signal(process, signal.SIGTERM)
                self.signal(process, signal.SIGCONT)  # one that is stopped could not obey

    def signal(self, process: Stat, number: int) -> None:
        """Signals exactly this process, if it is there and lets us."""
        with contextlib.suppress(PermissionError):
            identity.send(Known(process.pid, process.start), number)

    def living(self) -> list[Stat]:
        """The tree without zombies; reaps adopted ones."""
        found = identity.descendants(identity.table(), self.me)
        for process in found:
            if process.state in "ZX" and process.ppid == self.me and process.pid != self.child:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(process.pid, os.WNOHANG)
        return [process for process in found if process.state not in "ZX"]

    def scan(self) -> bool:
        """Looks at the tree, records it, and kills once the grace is over. True: stopped and nothing is left."""
        living = self.living()
        self.journal.add(Known(process.pid, process.start) for process in living)
        self.pids.update(process.pid for process in living)
        now = time.monotonic()
        limit = self.job.memory_bytes
        if (
            limit is not None
            and not self.over_memory
            and sum(p.rss for p in living) * os.sysconf("SC_PAGE_SIZE") > limit
        ):
            self.over_memory = True
            self.stop(0.0)
        if self.kill_at is None:
            self.next_scan = now + (FIRST_SCANS_S if now < self.began + 2 else SCAN_S)
            return False
        self.next_scan = now + STOP_SCAN_S
        if not living:
            self.see_exit()
            living = self.strays()
        if now >= self.kill_at:
            self.kill(living)
        if now > self.kill_at + UNDEAD_S:
            self.tell(undead=[process.pid for process in living])
            self.ended = 128 + signal.SIGKILL if self.ended is None else self.ended
            return True
        # a program whose first thread ended before the others looks dead and can't be waited for yet
        return not living and self.ended is not None

    def kill(self, living: list[Stat]) -> None:
        """SIGKILL to all. First the program's group at once, which no fork escapes: its number is still ours."""
        with contextlib.suppress(OSError):
            os.killpg(self.child, signal.SIGKILL)
        if len(living) > 1:
            for process in living:
                self.signal(process, signal.SIGSTOP)  # a tree that forks faster than it is read is frozen first
            living = self.living()
        for process in living:
            self.signal(process, signal.SIGKILL)
        self.next_scan = time.monotonic() + KILL_SCAN_S

    def strays(self) -> list[Stat]:
        """Processes that carry our label though they are no descendants (a foreign subreaper took them)."""
        proof = identity.Proof(frozenset(), self.folder)
        return [s for s in identity.ours(identity.table(), proof) if s.pid != self.me]

    def tell(self, **event: object) -> None:
        """A line to day0; it may be gone."""
        with contextlib.suppress(OSError):
            os.write(STATUS, json.dumps(event).encode() + b"\n")


def main(folder: str) -> int:
    """Reads the job from standard input and keeps it until its end."""
    line = b""
    while b"\n" not in line:
        more = os.read(CONTROL, 1 << 20)
        if not more:
            return 0
        line += more
    first, _, early = line.partition(b"\n")
    try:
        warden = Warden(folder, json.loads(first), early)
    except OSError as error:
        kind = "full" if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) else "failed"
        os.write(STATUS, json.dumps({kind: f"{folder}: {error.strerror}"}).encode() + b"\n")
        return 1
    warden.run()
    return 0
