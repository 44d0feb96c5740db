"""A run without an engine: the shipped scripted SGLang in virtual time, behind the same ports. For tests and demos."""

from __future__ import annotations

from functools import partial

from day0.agent import compose
from day0.agent.nodes import LocalPool, NodePool
from day0.agent.overhead import Meter, metered
from day0.agent.parts import Desk, Environments, Parts
from day0.agent.settings import Settings
from day0.runs.schema import Run
from day0.runs.values import sha256
from day0.runs.workload import Target
from day0.sandboxes.base import Node
from day0.sandboxes.scripted import ScriptedNode
from day0.sandboxes.simulated.sglang import World
from day0.sandboxes.spec import CancelToken

ENGINE, HARNESS = "scripted-engine", "scripted-harness"


def environments() -> Environments:
    """Names in place of folders; what they hold never changes."""
    return Environments(ENGINE, sha256(ENGINE), HARNESS, sha256(HARNESS), digest=sha256)


def pool(
    settings: Settings,
    meter: Meter,
    _: Target | None = None,
    __: str = "",
    *,
    world: World | None = None,
    count: int = 1,
) -> LocalPool:
    """Simulated nodes, each with its own clock."""
    names = [f"scripted-{n}" for n in range(count)]
    make = partial(_node, settings, meter, world or World())
    return LocalPool({name: partial(make, name) for name in names}, shared=False)


def _node(settings: Settings, meter: Meter, world: World, name: str, cancel: CancelToken) -> Node:
    own = World(world.play, world.boot_s)
    node = ScriptedNode(name, settings.home / "nodes", own.programs(), cancel=cancel, environments=(ENGINE, HARNESS))
    return metered(node, meter)


def parts(run: Run, nodes: NodePool, desk: Desk) -> Parts:
    """As `compose.parts`, with the scripted environments; wall time is no measure here, so it always looks."""
    return compose.parts_at(run, nodes, desk, environments(), heartbeat_s=0.0)
