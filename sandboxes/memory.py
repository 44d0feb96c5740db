"""Whether the kernel killed one of our processes for memory.

Standard library only.
"""

# The warden loads this, and pathlib would double its start time.
# ruff: noqa: PTH123

from __future__ import annotations

import os
import re
from collections.abc import Container, Sequence

MACHINE = (("/proc/vmstat", rb"^oom_kill (\d+)$"),)
GROUP = (
    ("/sys/fs/cgroup/memory.events", rb"^oom_kill (\d+)$"),
    ("/sys/fs/cgroup/memory/memory.oom_control", rb"^oom_kill (\d+)$"),
)
"""Version 2 and 1 of control groups, as a container sees its own."""


def _kills(places: Sequence[tuple[str, bytes]] = MACHINE) -> int | None:
    """Kernel kills for memory so far: on this machine since boot, or in this control group."""
    for path, pattern in places:
        try:
            with open(path, "rb") as file:
                found = re.search(pattern, file.read(), re.M)
        except OSError:
            continue
        if found:
            return int(found[1])
    return None


class OomWatch:
    """Compares the machine's count of kills with its start, then asks the kernel log who it was.

    `contained`: asks the control group's own count in place of the log, which a container can't read.
    """

    def __init__(self, contained: bool = False) -> None:
        self._group = _kills(GROUP) if contained else None
        self._before = _kills()
        try:
            self._log: int | None = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.lseek(self._log, 0, os.SEEK_END)
        except OSError:
            self._log = None
        self._victims: set[int] = set()

    def killed(self, pids: Container[int]) -> bool | None:
        """True: one of `pids` was killed for memory; None: something was, and who it was can't be read."""
        if self._group is not None:
            return _kills(GROUP) != self._group
        now = _kills()
        if now is not None and now == self._before:
            return False
        if self._log is None:
            return None
        self._read(self._log)
        return any(pid in pids for pid in self._victims)

    def _read(self, log: int) -> None:
        while True:
            try:
                line = os.read(log, 8192)
            except BrokenPipeError:  # lines were overwritten before we came: go on with the next one
                continue
            except OSError:
                return
            if found := re.search(rb"Killed process (\d+) ", line):
                self._victims.add(int(found[1]))
