"""Fresh ports: none that somebody listens on, and none that this node gave within the last hour.

A reused port can be answered by a leftover server that is healthy and dies after a hundred requests, so a port is
fresh per launch even when the old one looks free.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
import time
import zlib
from collections.abc import Callable
from pathlib import Path

from day0.runs.errors import Infrastructure

FIRST, SPAN = 20000, 12000
"""Below the range from which the kernel takes ports for outgoing connections (32768 up by default)."""
FORGET_S = 3600.0


class PortBook:
    """A file of given ports, locked, so that it also holds between processes."""

    def __init__(
        self,
        path: Path,
        *,
        begin: int | None = None,
        is_free: Callable[[int], bool] | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        """`begin` is the first port of an empty book (default: by path, so that two homes on one machine differ)."""
        self.path, self._is_free, self._now = path, is_free or nobody_listens, now
        self._begin = FIRST + zlib.crc32(str(path).encode()) % SPAN if begin is None else begin

    def take(self) -> int:
        """The next free port. Raises `Infrastructure` when all of the range is taken."""
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            given, last = self._given(fd)
            for step in range(1, SPAN + 1):
                port = FIRST + (last - FIRST + step) % SPAN
                if port not in given and self._is_free(port):
                    text = json.dumps({"given": {**given, port: self._now()}, "last": port}).encode()
                    os.pwrite(fd, text, 0)
                    os.ftruncate(fd, len(text))
                    return port
        finally:
            os.close(fd)
        raise Infrastructure(f"no port between {FIRST} and {FIRST + SPAN} is free")

    def _given(self, fd: int) -> tuple[dict[int, float], int]:
        now = self._now()
        try:
            raw = json.loads(os.pread(fd, 1 << 20, 0))
            given = {int(port): float(at) for port, at in raw["given"].items()}
            last = int(raw["last"])
        except (ValueError, KeyError, TypeError, AttributeError):
            return {}, self._begin - 1
        # a clock set back must not block a port for longer
        return {port: at for port, at in given.items() if 0 <= now - at < FORGET_S}, last


def nobody_listens(port: int) -> bool:
    """Whether nobody listens there, on any address."""
    for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET, ""), (socket.AF_INET6, "::")):
        try:
            with socket.socket(family, socket.SOCK_STREAM) as sock:
                sock.bind((address, port))
        except OSError as error:
            if family == socket.AF_INET6 and error.errno != errno.EADDRINUSE:
                continue  # no IPv6 on this machine
            return False
    return True
