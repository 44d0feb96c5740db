"""This machine's Docker daemon: the same scripts as on this machine, in containers of a base image with a Python.

Runs where DAY0_TEST_DOCKER names the socket of a daemon that tests may fill (`scripts/dockerd run COMMAND` starts one
and names it) and is skipped elsewhere: a daemon that holds a person's own images is never used.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from day0.sandboxes import identity
from day0.sandboxes.docker import DockerNode
from day0.sandboxes.docker_engine import DockerEngine
from day0.sandboxes.docker_janitor import ATTEMPT, NODE
from day0.sandboxes.registry import HUB

from tests.contract.node_worlds.real import PROGRAMS

SOCKET = os.environ.get("DAY0_TEST_DOCKER", "")
BASE = "day0-test/base:1"
WHY = "no Docker daemon for tests: DAY0_TEST_DOCKER is not set (scripts/dockerd run COMMAND)"
with_docker = pytest.mark.skipif(not SOCKET, reason=WHY)
ALSO = tuple(dict.fromkeys((sys.prefix, sys.base_prefix)))
LEAVER = """
import os, signal, sys, time
from pathlib import Path
from day0.sandboxes.spec import SandboxSpec
from tests.contract.node_worlds.contained import node_in
node = node_in(Path(sys.argv[1]), lambda: False)
with node.open(SandboxSpec("server", sys.argv[2], "r1.9")) as sandbox:
    process = sandbox.spawn(sys.argv[3:])
    while b"up" not in process.output(0, 99): time.sleep(0.01)
    time.sleep(0.15)
    os.kill(process.pid, signal.SIGKILL); os.kill(os.getpid(), signal.SIGKILL)
"""
STRANGER = """
import socket, sys, time
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("127.0.0.1", int(sys.argv[1]))); s.listen(); open(sys.argv[2], "w"); time.sleep(300)
"""


REGISTRY = """
version: 0.1
storage: {{filesystem: {{rootdirectory: {folder}}}}}
http: {{addr: 127.0.0.1:{port}}}
log: {{level: error}}
"""


@contextlib.contextmanager
def registry(folder: Path) -> Iterator[str]:
    """A registry of images on this machine, empty: HOST:PORT."""
    program = shutil.which("docker-registry")
    if program is None:
        pytest.skip("no docker-registry here: scripts/dockerd installs it")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (folder / "config.yml").write_text(REGISTRY.format(folder=folder / "data", port=port))
    process = subprocess.Popen([program, "serve", str(folder / "config.yml")], stdout=subprocess.DEVNULL)
    try:
        for _ in range(400):
            with contextlib.suppress(httpx.HTTPError):
                httpx.get(f"http://127.0.0.1:{port}/v2/")
                break
            time.sleep(0.05)
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(20)


def engine() -> DockerEngine:
    return DockerEngine(SOCKET)


def node_in(folder: Path, cancel, hub: str = HUB) -> DockerNode:
    """Everything of a test lies in one folder, so that folder is what its sandboxes may be shown."""
    allowed = (folder.parent, *map(Path, ALSO))
    return DockerNode("n1", folder, engine=engine(), base=BASE, allowed=allowed, cancel=cancel, also=ALSO, hub=hub)


class DockerWorld:
    """A `DockerNode` in a folder of its own."""

    def __init__(self, folder: Path, hub: str = HUB) -> None:
        self.folder, self._hub = folder, hub
        self.environment = str(folder / "engine")
        (folder / "engine/bin").mkdir(parents=True)
        for name, source in PROGRAMS.items():
            script = folder / "engine/bin" / name
            script.write_text(f"#!{sys.executable} -IS\n{source}\n")
            script.chmod(0o755)
        self._cancelled = threading.Event()
        self._engine = engine()
        self._nodes: list[DockerNode] = []
        self.node = self.restarted()

    def restarted(self) -> DockerNode:
        self._nodes.append(node_in(self.folder, self._cancelled.is_set, self._hub))
        return self._nodes[-1]

    def cancel_after(self, seconds: float) -> None:
        timer = threading.Timer(seconds, self._cancelled.set)
        timer.daemon = True
        timer.start()

    def leave_behind(self, *argv: str) -> None:
        root = Path(__file__).parents[3]
        done = subprocess.run(
            [sys.executable, "-c", LEAVER, str(self.folder), self.environment, *argv],
            check=False, timeout=40, cwd=root, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == -signal.SIGKILL, done.stderr

    @contextlib.contextmanager
    def stranger_on(self, port: int) -> Iterator[None]:
        """Somebody else's program in the network of the sandbox that is open."""
        (found,) = [c for c in self.containers() if c["Labels"]["io.day0.role"] == "server"]
        ready = next((self.folder / "n1" / "shown").iterdir()) / "stranger"
        self._engine.run_inside(found["Id"], ["python3", "-c", STRANGER, str(port), str(ready)])
        while not ready.exists():
            self.node.clock.sleep(0.01)
        yield

    def containers(self):
        return self._engine.labelled({NODE: str(self.folder / "n1")})

    def living(self) -> int:
        """Processes with our label, wherever they run."""
        mark = str(self.folder)
        return sum(
            1
            for process in identity.table().values()
            if process.state not in "ZX" and identity.environment(process.pid).get(identity.LABEL, "").startswith(mark)
        )

    def close(self) -> None:
        left = [found["Labels"][ATTEMPT] for found in self.containers()]
        for found in self.containers():
            self._engine.remove(found["Id"])
        self._engine.close()
        for node in self._nodes:
            node.close()
        assert left == [], "a test left containers behind"
