"""Runs on the simulated node: a world's environments, its checkpoint and its nodes, in the places of real ones."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from day0.agent import compose
from day0.agent.nodes import LocalPool, NodePool
from day0.agent.overhead import Meter, metered
from day0.agent.parts import Desk, Environments, Parts
from day0.agent.settings import Settings
from day0.runs.schema import Run
from day0.sandboxes.base import Node
from day0.sandboxes.spec import CancelToken
from day0.sandboxes.twin import checkpoint
from day0.sandboxes.twin import node as twin_node
from day0.sandboxes.twin.world import World


def environments(world: World) -> Environments:
    """The first build of the world and the load generator of the twin."""
    digests = twin_node.environments(world)
    engine, harness = world.builds[0].name, twin_node.HARNESS
    return Environments(engine, digests[engine], harness, digests[harness], digest=digests.__getitem__)


def model(settings: Settings, world: World) -> Path:
    """The world's checkpoint, without weights, under day0's home. Raises `OSError`."""
    return checkpoint.write(world, settings.home / "models" / "twin")


def pool(settings: Settings, meter: Meter, *, world: World, count: int = 1) -> LocalPool:
    """Simulated nodes `twin-0` ..., each a folder under day0's home with a clock of its own."""
    names = [f"twin-{n}" for n in range(count)]
    return LocalPool({name: partial(_node, settings, meter, world, name) for name in names}, shared=False)


def _node(settings: Settings, meter: Meter, world: World, name: str, cancel: CancelToken) -> Node:
    return metered(twin_node.TwinNode(name, settings.home / "twin", world, cancel=cancel), meter)


def parts(run: Run, nodes: NodePool, desk: Desk, *, world: World) -> Parts:
    """As `compose.parts`, with the world's environments."""
    return compose.parts(run, nodes, desk, environments(world))
