"""A sandbox in a container: the local sandbox' files and wardens, with the container's walls around them."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from pathlib import Path

import httpx
from day0.sandboxes import endpoint, files
from day0.sandboxes.clock import WallClock
from day0.sandboxes.docker_link import DockerLink, RelayBackend
from day0.sandboxes.docker_network import Networks, Running
from day0.sandboxes.images import WORKSPACE
from day0.sandboxes.local_sandbox import LocalSandbox, Place
from day0.sandboxes.portbook import PortBook
from day0.sandboxes.spec import SandboxSpec
from day0.sandboxes.warden_link import Link


class DockerSandbox(LocalSandbox):
    """Made by `DockerNode.open`. Its work folder has the same path inside and outside."""

    def __init__(
        self,
        spec: SandboxSpec,
        place: Place,
        running: Running,
        *,
        env: Mapping[str, str],
        ports: Path,
        clock: WallClock,
        program: Path,
        networks: Networks,
    ) -> None:
        """Wardens keep their records in the folder that `running` is shown; those of the owner are not shown."""
        self._running, self._program, self._networks, self._owner = running, program, networks, place.records
        self._pid = int(running.engine.inspect(running.container)["State"]["Pid"])
        super().__init__(
            spec, place._replace(records=running.folder), env=env, ports=PortBook(ports, is_free=self._nobody_listens),
            clock=clock,
        )  # fmt: skip

    @property
    def container(self) -> str:
        """The container's ID."""
        return self._running.container

    def _limits(self) -> dict[str, object]:
        return {"contained": True}  # the container's own limits hold for all in it together

    def _link(self, folder: Path) -> Link:
        return DockerLink(self._running.engine, self.container, folder, self._program / "sandboxes")

    def read(self, path: str, max_bytes: int) -> bytes:
        """See `LocalSandbox.read`; below `WORKSPACE` the file that the container has, which is its image's."""
        if path.startswith(f"{WORKSPACE}/") and posixpath.normpath(path) == path:
            self._clock.check()
            return self._running.engine.read(self.container, path, max_bytes)
        return super().read(path, max_bytes)

    def http(self, port: int) -> httpx.Client:
        """A client for PORT of the container's loopback, by way of a relay; it closes with the sandbox."""
        backend = RelayBackend(self._networks.way(self.spec, self.container), self._clock.check)
        client = endpoint.client(port, self._clock.check, self._check_node, backend)
        self._clients.append(client)
        return client

    def close(self) -> None:
        """See `LocalSandbox.close`; the owner's record goes last, when nothing is left to sweep."""
        super().close()
        files.remove(self._owner)

    def _end(self) -> None:
        try:
            self._running.end()
        finally:
            self._networks.leave(self.spec, self.container)

    def _nobody_listens(self, port: int) -> bool:
        """As the kernel tells of the container's network namespace (proc(5), /proc/PID/net/tcp)."""
        for table in ("tcp", "tcp6"):
            try:
                lines = Path(f"/proc/{self._pid}/net/{table}").read_text().splitlines()[1:]
            except OSError:
                continue
            for fields in map(str.split, lines):
                if fields[3] == LISTENS and int(fields[1].rpartition(":")[2], 16) == port:
                    return False
        return True


LISTENS = "0A"
"""TCP_LISTEN"""
