"""Wardens inside containers, and connections into a container's network, over named pipes and sockets of the host.

Nothing goes through the Docker daemon once a warden runs: its pipes lie in the sandbox' records folder, which the
container is shown. They have the property that everything else rests on: the kernel closes day0's end with day0.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import stat
import time
from collections.abc import Iterable
from pathlib import Path
from typing import IO

import httpcore
from day0.runs.errors import NodeLost
from day0.sandboxes.docker_engine import DockerEngine, NotThere
from day0.sandboxes.endpoint import Check, Stream

START_S = 20.0
"""For a container's first sign of life: a loaded machine starts one in a few seconds."""
GONE_S = 20.0
MAIN = "docker_inside.py"


def pipe(folder: Path, name: str) -> Path:
    """A new named pipe for this user alone."""
    made = folder / name
    os.mkfifo(made, 0o600)
    return made


def hold(folder: Path) -> int:
    """day0's end of the `life` pipe, as a descriptor: as long as it is open, the container lives."""
    return os.open(pipe(folder, "life"), os.O_RDWR | os.O_CLOEXEC)


class DockerLink:
    """A warden that was started in a running container by `docker exec`."""

    def __init__(self, engine: DockerEngine, container: str, folder: Path, program: Path) -> None:
        """Raises `NodeLost` when it does not start."""
        self._engine, self._container = engine, container
        orders, events = pipe(folder, "orders"), pipe(folder, "events")
        (folder / "warden.err").touch(mode=0o600)
        self.events: IO[bytes] = os.fdopen(os.open(events, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb", 0)
        argv = ["python3", "-I", "-S", str(program / MAIN), "warden", str(folder)]
        try:
            self.pid = engine.run_inside(container, argv)
            self.orders: IO[bytes] = os.fdopen(_writer(orders), "wb", 0)
        except BaseException:
            self.events.close()
            raise

    def reap(self) -> None:
        """The warden ends by itself once it told that all is gone, and with its container at the latest."""

    def kill_tree(self, folder: Path) -> list[int]:
        """Kills the container with all that is in it: no process outlives its pid namespace."""
        self._engine.remove(self._container)
        return []


def _writer(orders: Path) -> int:
    """The writing end, as soon as the warden holds the reading one. Raises `NodeLost`."""
    end = time.monotonic() + START_S
    while True:
        try:
            # what runs in the container may have put something else in the pipe's place
            fd = os.open(orders, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            if error.errno != errno.ENXIO or time.monotonic() > end:
                raise NodeLost(
                    f"no program can be started in the container: is there a python3 in its image? ({error.strerror})"
                ) from error
            time.sleep(0.005)
        else:
            if not stat.S_ISFIFO(os.fstat(fd).st_mode):
                os.close(fd)
                raise NodeLost(f"{orders} is no pipe any more: something in the sandbox replaced it")
            os.set_blocking(fd, True)
            return fd


def gone(engine: DockerEngine, containers: Iterable[str]) -> list[str]:
    """Removes containers and waits until none is left; those that would not go."""
    left = list(containers)
    end = time.monotonic() + GONE_S
    while left:
        for container in left:
            engine.remove(container)
        left = [container for container in left if _there(engine, container)]
        if time.monotonic() > end:
            return left
        if left:
            time.sleep(0.1)
    return []


def _there(engine: DockerEngine, container: str) -> bool:
    try:
        engine.inspect(container)
    except NotThere:
        return False
    return True


class RelayBackend(httpcore.NetworkBackend):
    """Opens connections through a relay's socket in `folder`."""

    def __init__(self, folder: Path, check: Check) -> None:
        self._folder, self._check = folder, check

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[object] | None = None,
    ) -> httpcore.NetworkStream:
        """Raises `httpcore.ConnectError`, `ConnectTimeout`, `NodeLost`, `Cancelled`."""
        self._check()
        limit = time.monotonic() + (START_S if timeout is None else timeout)
        stream = Stream(self._dial(limit), self._check)
        try:
            stream.write(b"%d\n" % port, timeout)
            number = self._answer(stream, limit)
        except BaseException:
            stream.close()
            raise
        if number:
            stream.close()
            raise httpcore.ConnectError(f"[{os.strerror(number)}] port {port}")
        return stream

    def _dial(self, limit: float) -> socket.socket:
        folder = os.open(self._folder, os.O_PATH | os.O_CLOEXEC)
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.setblocking(False)
        try:
            while True:
                # by way of the descriptor: a socket's address ends at 107 bytes and a home may be deeper than that
                number = sock.connect_ex(f"/proc/self/fd/{folder}/http")
                if number == 0:
                    return sock
                if number not in {errno.EAGAIN, errno.ENOENT, errno.ECONNREFUSED} or time.monotonic() > limit:
                    raise NodeLost(f"the way into the sandbox' network is gone: {os.strerror(number)}")
                self._check()
                time.sleep(0.01)
        except BaseException:
            sock.close()
            raise
        finally:
            os.close(folder)

    @staticmethod
    def _answer(stream: Stream, limit: float) -> int:
        line = b""
        while not line.endswith(b"\n"):
            if not stream.wait(select.POLLIN, max(0.0, limit - time.monotonic())):
                raise httpcore.ConnectTimeout("no connection within the time given")
            more = stream.read(1, 1.0)
            if not more:
                raise NodeLost("the way into the sandbox' network ended")
            line += more
        return int(line)
