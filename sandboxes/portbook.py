"""Fresh ports: none that somebody listens on, and none that this node gave within the last hour.

A reused port can be answered by a leftover server that is healthy and dies after a hundred requests, so a port is
fresh per launch even when the old one looks free.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
import zlib
from pathlib import Path

from day0.runs.errors import Infrastructure

FIRST, LAST = 20000, 32000
"""Below the range from which the kernel takes ports for outgoing connections (32768 up by default)."""
FORGET_S = 3600.0


class PortBook:
    """A file of given ports, locked, so that it also holds between processes."""

    def __init__(self, path: Path, first: int = FIRST, last: int = LAST) -> None:
        self.path, self.first, self.last = path, first, last

    def take(self) -> int:
        """The next free port. Raises `Infrastructure` when all of the range is taken."""
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            given, last = self._given(fd)
            for step in range(1, self.last - self.first + 1):
                port = self.first + (last - self.first + step) % (self.last - self.first)
                if port not in given and is_free(port):
                    text = json.dumps({"given": {**given, port: time.time()}, "last": port}).encode()
                    os.pwrite(fd, text, 0)
                    os.ftruncate(fd, len(text))
                    return port
        finally:
            os.close(fd)
        raise Infrastructure(f"no port between {self.first} and {self.last} is free")

    def _given(self, fd: int) -> tuple[dict[int, float], int]:
        now = time.time()
        try:
            raw = json.loads(os.pread(fd, 1 << 20, 0))
            given = {int(port): float(at) for port, at in raw["given"].items()}
            last = int(raw["last"])
        except (ValueError, KeyError, TypeError, AttributeError):
            # two homes on one machine begin at different places
            return {}, self.first + zlib.crc32(str(self.path).encode()) % (self.last - self.first)
        # a clock set back must not block a port for longer
        return {port: at for port, at in given.items() if 0 <= now - at < FORGET_S}, last


def is_free(port: int) -> bool:
    """Whether nobody listens there, on any address."""
    for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET, ""), (socket.AF_INET6, "::")):
        try:
            with socket.socket(family, socket.SOCK_STREAM) as sock:
                sock.bind((address, port))
        except OSError as error:
            if family == socket.AF_INET6 and error.errno not in {98, 13}:
                continue  # no IPv6 on this machine
            return False
    return True
