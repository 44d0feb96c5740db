"""Runs on the simulated node: a world's environments, its checkpoint and its nodes, in the places of real ones."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from day0.agent import compose
from day0.agent.nodes import NodePool
from day0.agent.overhead import Meter, metered
from day0.agent.parts import Desk, Environments, Parts
from day0.agent.settings import Settings, home_folder
from day0.agent.stepped import SteppedPool
from day0.runs.errors import UserError
from day0.runs.schema import Run
from day0.runs.values import FrozenMap
from day0.runs.workload import Target
from day0.sandboxes.base import Node
from day0.sandboxes.spec import CancelToken
from day0.sandboxes.twin import checkpoint
from day0.sandboxes.twin import node as twin_node
from day0.sandboxes.twin.world import World
from day0.sandboxes.twin.world import world as read_world
from day0.tools.engine_source import FOLDER

ON = " on "
"""between a world and the engine source that its first image is made of, in a target's `world`"""


def fetch_source(settings: Settings, spec: str) -> None:
    """Has a released engine's source in day0's home. Raises `UserError`, `Infrastructure`."""
    from day0.tools import engine_source

    if engine_source.held(settings.home, spec) is None:
        engine_source.fetch(compose.local_node(settings, lambda: False), settings.home, spec)


def outlook(world: World, spec: str) -> tuple[str, ...]:
    """What the shipped repairs find in a fetched source for the world's checkpoint."""
    from day0.sandboxes.twin.realsource import real_source
    from day0.tools import codemods, engine_source

    source = real_source(engine_source.folder_of(home_folder(), spec))
    return tuple(codemods.outlook(source, dict(world.model.config)))


def on_source(world: World, spec: str) -> World:
    """The world on a released engine's source. Raises `UserError` where that was not fetched yet."""
    from day0.sandboxes.twin.realsource import real_source
    from day0.sandboxes.twin.sourced import sourced
    from day0.tools import engine_source

    held = engine_source.held(home_folder(), spec)
    if held is None:
        raise UserError(f"the source of {spec} is not in day0's home: `day0 run … --engine-source {spec}` fetches it")
    source = real_source(engine_source.folder_of(home_folder(), spec))
    return sourced(world, source, spec=held.spec, version=held.version, digest=held.archive)


def chosen(target: Target, world: World, name: str, engine_source: str = "") -> Target:
    """The target with its world pinned: by name, engine source and the digest of its content; on all of its node."""
    own = Path(name)
    place = str(own.expanduser().absolute()) if own.suffix in {".yaml", ".yml"} else world.name
    place += f"{ON}{engine_source}" if engine_source else ""
    return on_all(target, world).model_copy(update={"world": place, "world_digest": world.digest()})


def on_all(target: Target, world: World) -> Target:
    """The target on a node of the world's size: its starting layout takes all accelerators that are there."""
    flags = dict(target.base_flags)
    if target.gpus != world.node.gpus and flags.get("tp-size") == target.gpus:
        flags["tp-size"] = world.node.gpus
    return target.model_copy(update={"gpus": world.node.gpus, "base_flags": FrozenMap(flags)})


def world_of(target: Target) -> World:
    """The world that a target was pinned to. Raises `UserError` when it is gone or says something else by now."""
    name, _, spec = target.world.partition(ON)
    world = on_source(read_world(name), spec) if spec else read_world(name)
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
        evals=harness,
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

    def make(cancel: CancelToken, *, name: str) -> Node:
        node = twin_node.TwinNode(name, root, world, cancel=cancel, sources=settings.home / FOLDER)
        return metered(node, meter)

    return SteppedPool({name: partial(make, name=name) for name in names})


def folder(settings: Settings, owner: str) -> Path:
    """Where the simulated machines of a run lie."""
    return settings.home / "twin" / owner


def parts(run: Run, nodes: NodePool, desk: Desk, *, world: World | None = None) -> Parts:
    """As `compose.parts`, with the world's environments and checkpoint."""
    world = world or world_of(run.request.target)
    return compose.parts_at(run, nodes, desk, environments(world), folder=model(desk.settings, world))
