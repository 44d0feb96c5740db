"""What the simulated programs of one node share: its world, its machine, who serves, and files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from day0.sandboxes.simulated.machine import Context, SimProcess
from day0.sandboxes.twin.machine import TwinMachine
from day0.sandboxes.twin.realsource import Overlay, RealSource, real_source
from day0.sandboxes.twin.serving import LiveServer
from day0.sandboxes.twin.sourced import PACKAGE
from day0.sandboxes.twin.world import Build, World

FILE_BYTES = 16 << 20
WORKSPACE = "sgl-workspace"


@dataclass
class Site:
    """One node's world. `servers` are the ports of servers that finished booting."""

    world: World
    machine: TwinMachine
    servers: dict[int, LiveServer] = field(default_factory=dict)
    sources: Path | None = None
    """where the sources of released engines lie unpacked, by their names"""

    def real(self, build: Build) -> RealSource | None:
        """The released source that an image is made of; None: it has the world's own small files."""
        spec = build.packages.get(PACKAGE, "").partition(" ")[0]
        return real_source(self.sources / spec.replace("==", "-")) if spec and self.sources else None

    def build_of(self, env: Mapping[str, str]) -> Build:
        """The build whose environment comes first in PATH; the world's first where none is named."""
        name = env.get("PATH", "").partition("/bin:")[0]
        return next((b for b in self.world.builds if b.name == name), self.world.builds[0])

    def tree(self, build: Build, folder: Path) -> Mapping[str, str]:
        """The engine's source as a process in `folder` sees it: what lies there, patched or not."""
        out = {}
        for path, text in build.tree.items():
            file = folder / WORKSPACE / path
            out[path] = self.file(str(file)) if file.is_file() else text
        real, top = self.real(build), folder / WORKSPACE
        if real is None:
            return out
        patched = (file for file in top.rglob("*") if file.is_file() and file.relative_to(top).as_posix() in real)
        out |= {file.relative_to(top).as_posix(): self.file(str(file)) for file in patched}
        return Overlay(out, real)

    def unpack(self, build: Build, folder: Path) -> None:
        """Puts the engine's source where the image has it."""
        for path, text in build.tree.items():
            file = folder / WORKSPACE / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")

    def config(self, model: str) -> Mapping[str, Any]:
        """The checkpoint's `config.json` as it lies in its folder; the world's own where there is none."""
        try:
            found = json.loads(self.file(f"{model}/config.json") or "{}")
        except ValueError:
            found = {}
        return found if isinstance(found, dict) and found else self.world.model.config

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
