"""The simulated node behind the node port: a folder, a world, and programs over the machine that lies there."""

from __future__ import annotations

import shutil
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from day0.runs.errors import Infrastructure, NodeLost
from day0.runs.values import sha256
from day0.sandboxes.scripted import ScriptedNode, ScriptedSandbox
from day0.sandboxes.simulated.machine import KILLED, Tree
from day0.sandboxes.simulated.steps import Program
from day0.sandboxes.spec import CancelToken, SandboxSpec, Sweep
from day0.sandboxes.twin.images import TwinImages
from day0.sandboxes.twin.machine import DEAD, STRANGER, Owner, TwinMachine, gone, lives, new_owner
from day0.sandboxes.twin.programs import evals, host, launch, load, questions, tuner
from day0.sandboxes.twin.site import Site
from day0.sandboxes.twin.workspace import WorkspaceSandbox, grep
from day0.sandboxes.twin.world import World

HARNESS = "twin-harness-0.5.9"


def environments(world: World) -> dict[str, str]:
    """Names of the world's environments, engines first, and their digests."""
    engines = {build.name: build.digest() for build in world.builds}
    return {**engines, HARNESS: sha256(HARNESS)}


def programs(site: Site) -> dict[str, Program]:
    """Everything that can be started on the node."""
    made = {
        "python -m sglang.launch_server": launch.server,
        "python -m sglang_router.launch_server": launch.server,
        "python sglang_facts.py": host.facts,
        "python -u loadgen.py": load.load_generator,
        "python -u ask.py": questions.questions,
        "python -u evaluate.py": evals.evaluate,
        f"python {tuner.SCRIPT}": tuner.tune,
        f"python3 {tuner.SCRIPT}": tuner.tune,
        f"python /sgl-workspace/aiter/{tuner.SCRIPT}": tuner.tune,
        f"python3 /sgl-workspace/aiter/{tuner.SCRIPT}": tuner.tune,
        "grep": grep,
        "python clear_locks.py": tuner.clear_locks,
        **host.HOST,
    }
    smi = site.world.node.amd_smi
    if smi != "missing":
        made["amd-smi"] = host.amd_smi if smi == "works" else host.hangs
    return {words: partial(program, site) for words, program in made.items()}


class TwinNode(ScriptedNode):
    """The folder `root/name` is the machine: whoever opens it finds what runs there.

    `extra` programs are found before the world's own. Raises `OSError` where the folder can't be used.
    """

    sandboxes = WorkspaceSandbox
    images: TwinImages

    def __init__(
        self,
        name: str,
        root: Path,
        world: World,
        *,
        cancel: CancelToken,
        extra: Mapping[str, Program] | None = None,
        installed: tuple[str, ...] = (),
        sources: Path | None = None,
    ) -> None:
        folder = root.absolute() / name
        folder.mkdir(parents=True, exist_ok=True)
        self.token, self._open = new_owner(), 0
        weakref.finalize(self, gone, self.token)
        fresh = not (folder / "clock").exists()
        self.site = Site(world, TwinMachine(folder), sources=sources)
        if fresh:
            self._begin(root.absolute(), world)
        dies = _end(world, name)

        def check() -> bool:
            if dies is not None and self.site.machine.kernel.now >= dies:
                raise NodeLost(f"{name} does not answer any more")
            return cancel()

        super().__init__(
            name,
            root,
            {**programs(self.site), **(extra or {})},
            cancel=check,
            machine=self.site.machine,
            environments=(*environments(world), *installed),
        )

        self.images = TwinImages(world, self.clock, folder / "images.json")

    def _begin(self, root: Path, world: World) -> None:
        """What the world says was there before day0."""
        node, machine = world.node, self.site.machine
        machine.leaked = int(node.leaked_gib * 2**30) * node.gpus
        for owner, attempt, gib in ((DEAD, "r0.1", node.left_gib), (STRANGER, "", node.stranger_gib)):
            if gib:
                machine.leave(owner, attempt, int(gib * 2**30) * node.gpus)
        machine.save()
        if world.node.stale_lock:
            folder = root / "caches" / "jit"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / launch.LOCKS.replace("*", "moe")).touch()

    def sweep(self) -> Sweep:
        """Stops what owners that are gone left on the machine, and removes their folders."""
        stopped = []
        for tree in self.machine.trees:
            if self._orphan(tree):
                for process in tree.living():
                    stopped.append((str(process.pid), tree.attempt))
                    process.end(KILLED)
        if not self._open and not any(tree.living() for tree in self.machine.trees):
            self._tidy()
        self.site.machine.save()
        return Sweep(tuple(stopped))

    def vanish(self) -> None:
        """As if day0 were killed at once."""
        super().vanish()
        gone(self.token)

    @contextmanager
    def _opened(self, spec: SandboxSpec) -> Iterator[ScriptedSandbox]:
        self._open += 1
        try:
            with super()._opened(spec) as sandbox:
                build = next((b for b in self.site.world.builds if b.name == spec.environment), None)
                if build is not None and not self.images.there(build):
                    raise Infrastructure(f"the image {build.name} is not on this node: it has to be pulled first")
                if build is not None:
                    self.site.unpack(build, Path(sandbox.root))
                self.site.machine.save()
                yield sandbox
        finally:
            self._open -= 1
            self.site.machine.save()

    def _orphan(self, tree: Tree) -> bool:
        owner = tree.owner
        if isinstance(owner, Owner):
            return not lives(owner.name)
        return isinstance(owner, TwinNode) and not owner.alive

    def _tidy(self) -> None:
        """Folders of sandboxes whose owner is gone."""
        for name in ("records", "sandboxes", "leftovers"):
            for left in (self.root / name).iterdir():
                shutil.rmtree(left, ignore_errors=True)


def _end(world: World, name: str) -> float | None:
    """When a node dies: of several, only the first does."""
    return world.node.dies_at_s if world.node.count == 1 or name.endswith("-0") else None
