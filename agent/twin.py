"""Runs on the simulated node: a world's environments, its checkpoint and its nodes, in the places of real ones."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from day0.agent import compose
from day0.agent.nodes import NodePool
from day0.agent.overhead import Meter, metered
from day0.agent.parts import Desk, Environments, Parts
from day0.agent.settings import Settings
from day0.agent.stepped import SteppedPool
from day0.runs.errors import UserError
from day0.runs.schema import Run
from day0.runs.workload import Target
from day0.sandboxes.base import Node
from day0.sandboxes.spec import CancelToken
from day0.sandboxes.twin import checkpoint
from day0.sandboxes.twin import node as twin_node
from day0.sandboxes.twin.world import World
from day0.sandboxes.twin.world import world as read_world


def chosen(target: Target, world: World, name: str) -> Target:
    """The target with its world pinned: by name and by the digest of its content."""
    own = Path(name)
    place = str(own.expanduser().absolute()) if own.suffix in {".yaml", ".yml"} else world.name
    return target.model_copy(update={"world": place, "world_digest": world.digest()})


def world_of(target: Target) -> World:
    """The world that a target was pinned to. Raises `UserError` when it is gone or says something else by now."""
    world = read_world(target.world)
    if target.world_digest and world.digest() != target.world_digest:
        raise UserError(f"the world {target.world} changed since: what was simulated on it is not comparable any more")
    return world


def environments(world: World) -> Environments:
    """The builds of the world, the first one that its registry has in use, and the load generator of the twin."""
    digests = twin_node.environments(world)
    builds = [b.name for b in world.builds if b.name in world.tags] or [world.builds[0].name]
    engine, harness = builds[0], twin_node.HARNESS
    return Environments(
        engine,
        digests[engine],
        harness,
        digests[harness],
        digest=digests.__getitem__,
        images={digests[name]: name for name in builds[1:]},
        patchable=True,
    )


def model(settings: Settings, world: World) -> Path:
    """The world's checkpoint, without weights, under day0's home. Raises `OSError`."""
    return checkpoint.write(world, settings.home / "models" / "twin")


def pool(
    settings: Settings,
    meter: Meter,
    target: Target | None = None,
    owner: str = "",
    *,
    world: World | None = None,
    count: int | None = None,
) -> NodePool:
    """Simulated nodes `twin-0` ..., each a folder under day0's home with a clock of its own. Raises `UserError`.

    They are the owner's alone: a new run begins on new machines, with empty caches, whatever ran before it, so that the
    same seed gives the same result; a resumed one finds its own again.
    """
    if world is None:
        assert target is not None
        world = world_of(target)
    names = [f"twin-{n}" for n in range(count or world.node.count)]
    root = folder(settings, owner)
    return SteppedPool({name: partial(_node, root, meter, world, name) for name in names})


def folder(settings: Settings, owner: str) -> Path:
    """Where the simulated machines of a run lie."""
    return settings.home / "twin" / owner


def _node(root: Path, meter: Meter, world: World, name: str, cancel: CancelToken) -> Node:
    return metered(twin_node.TwinNode(name, root, world, cancel=cancel), meter)


def parts(run: Run, nodes: NodePool, desk: Desk, *, world: World | None = None) -> Parts:
    """As `compose.parts`, with the world's environments and checkpoint."""
    world = world or world_of(run.request.target)
    return compose.parts_at(run, nodes, desk, environments(world), folder=model(desk.settings, world))
