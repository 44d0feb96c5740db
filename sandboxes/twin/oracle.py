"""The best that a world's declared space holds: every candidate on the noise-free simulator, remembered in a file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from itertools import product
from pathlib import Path
from typing import Any

from day0.runs.values import Frozen, Map, canonical_json, sha256
from day0.runs.workload import FlagValue, Workload
from day0.sandboxes.twin import layout, rate, resolve
from day0.sandboxes.twin.conditions import Scene, holds
from day0.sandboxes.twin.simulate import Noise
from day0.sandboxes.twin.world import Choice, World
from pydantic import Field

SIMULATOR = (
    "costs",
    "prefixcache",
    "replica",
    "simulate",
    "layout",
    "truth",
    "conditions",
    "figures",
    "rate",
    "resolve",
)
"""Modules whose text decides what a candidate is worth."""


class Rating(Frozen):
    """One candidate of the space. `tok_s` 0 with the reason in `why`: it does not serve, or not rightly."""

    flags: Map[FlagValue]
    env: Map[str] = Field(default_factory=dict)
    tuned: bool = False
    tok_s: float
    rate_rps: float = 0.0
    points: int = 0
    why: str = ""


class Oracle(Frozen):
    """All ratings of a world for one workload, best first."""

    world: str
    workload: str
    key: str
    ratings: tuple[Rating, ...]

    @property
    def best(self) -> Rating:
        """The highest goodput of the space."""
        return self.ratings[0]


def candidates(world: World) -> Iterator[tuple[dict[str, FlagValue], dict[str, str], bool]]:
    """(flags, env, tuned) of every combination of the declared axes; without axes the engine's defaults alone."""
    for combination in product(*world.space):
        flags: dict[str, FlagValue | None] = {}
        env: dict[str, str | None] = {}
        tuned = world.tuned is None or world.tuned.shipped
        for choice in combination:
            flags.update(choice.flags)
            env.update(choice.env)
            tuned = tuned if choice.tuned is None else choice.tuned
        yield _given(flags), _given(env), tuned


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in sorted(values.items()) if value is not None}


def arguments(world: World, flags: Mapping[str, FlagValue], build: str = "") -> dict[str, Any]:
    """Resolved arguments of a candidate. Raises `resolve.Usage`, `resolve.Fatal`."""
    words = ["--model-path", world.model.id]
    for name, value in flags.items():
        words += [f"--{name}" if value else f"--no-{name}"] if isinstance(value, bool) else [f"--{name}", str(value)]
    return resolve.resolve(world, resolve.parse(world.build(build).flags, words))


def scene(args: Mapping[str, Any], env: Mapping[str, str], build: str, *, tuned: bool, **more: Any) -> Scene:
    """What conditions see of a server: its resolved arguments by their dashed names. `more`: source, config."""
    flags = {key.replace("_", "-"): value for key, value in args.items() if value is not None and value is not False}
    return Scene(flags=flags, env=env, build=build, tuned=tuned, **more)


def rated(world: World, workload: Workload, choice: tuple[Mapping[str, FlagValue], Mapping[str, str], bool]) -> Rating:
    """What one candidate is worth without noise."""
    flags, env, tuned = choice
    common: dict[str, Any] = {"flags": flags, "env": env, "tuned": tuned}
    try:
        args = arguments(world, flags)
    except (resolve.Usage, resolve.Fatal) as error:
        return Rating(tok_s=0.0, why=str(error), **common)
    if args["max_total_num_tokens"] < workload.input_tokens + workload.output_tokens:
        return Rating(tok_s=0.0, why="out of memory", **common)
    build, speed = world.builds[0], 1.0
    seen = scene(args, env, build.name, tuned=tuned, source=build.tree, config=world.model.config)
    for fault in world.faults:
        if fault.kind == "slow_start" or not holds(fault.when, seen):
            continue
        if fault.kind != "slow":
            # a fault under load counts from its first request: nobody may serve with it
            return Rating(tok_s=0.0, why=fault.name, **common)
        speed *= fault.time
    found = rate.knee(layout.server(world.physics(), args, seen), workload, noise=Noise(speed))
    return Rating(
        tok_s=found.tok_s,
        rate_rps=found.rate_rps,
        points=found.points,
        why=found.bound_by,
        **common,
    )


@cache
def simulator() -> str:
    """A hash of the text of the simulator's modules."""
    folder = resources.files("day0.sandboxes.twin")
    return sha256("\n".join(folder.joinpath(f"{name}.py").read_text(encoding="utf-8") for name in SIMULATOR))


def key(world: World, workload: Workload) -> str:
    """Changes with the world, the workload and the simulator, and with nothing else."""
    return sha256(canonical_json([world.digest(), workload.digest(), simulator()]))


def oracle(world: World, workload: Workload, *, memory: Path | None = None) -> Oracle:
    """Rates the whole space; with `memory` (a folder) the result is kept there under its key."""
    name = key(world, workload)
    file = memory / f"{world.name}-{workload.name}-{name[7:23]}.json" if memory else None
    if file is not None and file.is_file():
        try:
            kept = Oracle.model_validate_json(file.read_text(encoding="utf-8"))
        except ValueError:
            kept = None
        if kept is not None and kept.key == name:
            return kept
    ratings = sorted((rated(world, workload, c) for c in candidates(world)), key=_order)
    found = Oracle(world=world.name, workload=workload.name, key=name, ratings=tuple(ratings))
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_suffix(".part")
        part.write_text(found.canonical(), encoding="utf-8")
        part.replace(file)
    return found


def _order(rating: Rating) -> tuple[float, str]:
    return -rating.tok_s, json.dumps([dict(rating.flags), dict(rating.env), rating.tuned], sort_keys=True)


__all__ = ["Choice", "Oracle", "Rating", "arguments", "candidates", "key", "oracle", "rated", "scene", "simulator"]
