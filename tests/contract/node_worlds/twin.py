"""The twin: the scripted programs on a machine that lies in a folder; every node object begins from that folder."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterator
from pathlib import Path

from day0.sandboxes.simulated.machine import Tree
from day0.sandboxes.simulated.steps import Body, Listen
from day0.sandboxes.spec import SandboxSpec
from day0.sandboxes.spool import SpoolWriter
from day0.sandboxes.twin.node import TwinNode
from day0.sandboxes.twin.world import World, world

from tests.contract.node_worlds.played import FOREVER, PROGRAMS


def without_amd_smi() -> World:
    found = world("glm-5.2")
    return found.model_copy(update={"node": found.node.model_copy(update={"amd_smi": "missing"})})


class TwinWorld:
    """Nothing is shared between node objects but the folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.environment = folder, "/opt/engine"
        self._cancel_at = math.inf
        self.node = self.restarted()

    def restarted(self) -> TwinNode:
        made: list[TwinNode] = []

        def cancel() -> bool:
            return bool(made) and made[0].clock.now() >= self._cancel_at

        made.append(
            TwinNode("n1", self.folder, without_amd_smi(), cancel=cancel, extra=PROGRAMS, installed=(self.environment,))
        )
        return made[0]

    def cancel_after(self, seconds: float) -> None:
        self._cancel_at = self.node.clock.now() + seconds

    def leave_behind(self, *argv: str) -> None:
        other = self.restarted()
        with other.open(SandboxSpec("server", self.environment, "r1.9")) as sandbox:
            sandbox.spawn(argv)
            other.clock.sleep(0.1)
            other.vanish()

    @contextlib.contextmanager
    def stranger_on(self, port: int) -> Iterator[None]:
        machine = self.node.machine
        tree = Tree("", None, SpoolWriter(str(self.folder)))

        def listener(ctx):
            yield Listen(port, lambda request: iter([Body(b"I am someone else")]))
            yield FOREVER

        process = machine.start(listener, ["stranger"], tree, env={}, folder=self.folder)
        self.node.clock.sleep(0.0)
        yield
        assert process.code is None
        process.end(0)

    def living(self) -> int:
        """As the folder says: what a day0 that starts now would find."""
        state = self.folder / "n1" / "state.json"
        if not state.exists():
            return 0
        return sum(len(tree["processes"]) for tree in json.loads(state.read_text())["trees"])

    def close(self) -> None:
        pass
