"""What the simulated programs of one node share: its world, its machine, who serves, and files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from day0.sandboxes.simulated.machine import Context, SimProcess
from day0.sandboxes.twin.machine import TwinMachine
from day0.sandboxes.twin.serving import LiveServer
from day0.sandboxes.twin.world import Build, World

FILE_BYTES = 16 << 20


@dataclass
class Site:
    """One node's world. `servers` are the ports of servers that finished booting."""

    world: World
    machine: TwinMachine
    servers: dict[int, LiveServer] = field(default_factory=dict)

    def build_of(self, env: Mapping[str, str]) -> Build:
        """The build whose environment comes first in PATH; the world's first where none is named."""
        name = env.get("PATH", "").partition("/bin:")[0]
        return next((b for b in self.world.builds if b.name == name), self.world.builds[0])

    def tree(self, build: Build, env: Mapping[str, str]) -> Mapping[str, str]:
        """The engine's source as this process sees it."""
        return build.tree

    def held_gib(self) -> float:
        """Memory of one accelerator that others hold, GiB: the fullest one's."""
        return self.machine.vram_bytes / 2.0**30 / self.world.node.gpus

    def file(self, path: str) -> str:
        """A text file of the node; empty where there is none."""
        try:
            with Path(path).open("rb") as opened:
                return opened.read(FILE_BYTES).decode(errors="replace")
        except OSError:
            return ""

    def processes(self, pids: Iterable[int]) -> list[SimProcess]:
        """Living processes by pid."""
        wanted = set(pids)
        return [p for tree in self.machine.trees for p in tree.living() if p.pid in wanted]

    def process(self, ctx: Context) -> SimProcess:
        """The process that runs a program."""
        return self.processes([ctx.pid])[0]

    def end(self, pids: Iterable[int], code: int) -> None:
        """Ends processes."""
        for process in self.processes(pids):
            process.end(code)
