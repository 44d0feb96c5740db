"""The best that a world's declared space holds: every candidate on the noise-free simulator, remembered in a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from day0.runs.values import Frozen, Map, canonical_json, sha256
from day0.runs.workload import FlagValue, Workload
from day0.sandboxes.twin import layout, rate, resolve
from day0.sandboxes.twin.conditions import Scene, holds
from day0.sandboxes.twin.replica import ServerSpec
from day0.sandboxes.twin.simulate import Noise
from day0.sandboxes.twin.world import Choice, World
from pydantic import Field

SIMULATOR = (
    "arithmetic",
    "costs",
    "defects",
    "prefixcache",
    "replica",
    "simulate",
    "layout",
    "truth",
    "conditions",
    "figures",
    "oracle",
    "rate",
    "resolve",
)
"""Modules whose text decides what a candidate is worth."""
QUICK_ERROR = 0.1
_Server = tuple[ServerSpec, float]
"""A server and the factor that faults put on its time."""


class Pick(NamedTuple):
    """A candidate of the space: on the first build unless another is named."""

    flags: Mapping[str, FlagValue]
    env: Mapping[str, str] = {}
    tuned: bool = False
    repaired: bool = False
    build: str = ""


class Rating(Frozen):
    """One candidate of the space. `tok_s` 0 with the reason in `why`: it does not serve, or not rightly."""

    flags: Map[FlagValue]
    env: Map[str] = Field(default_factory=dict)
    tuned: bool = False
    repaired: bool = False
    build: str = ""
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


def candidates(world: World) -> Iterator[Pick]:
    """Every combination of the declared axes; without axes the engine's defaults alone."""
    for combination in product(*(axis or (Choice(),) for axis in world.space)):
        flags: dict[str, FlagValue | None] = {}
        env: dict[str, str | None] = {}
        tuned, repaired, build = world.tuned is None or world.tuned.shipped, False, ""
        for choice in combination:
            flags.update(choice.flags)
            env.update(choice.env)
            tuned = tuned if choice.tuned is None else choice.tuned
            repaired = repaired if choice.repaired is None else choice.repaired
            build = choice.build or build
        yield Pick(_given(flags), _given(env), tuned, repaired, build)


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


def seen_by(world: World, pick: Pick, args: Mapping[str, Any]) -> Scene:
    """The scene of a candidate that nobody booted: its build's source, mended where it is."""
    build = world.build(pick.build)
    source = build.source(repaired=pick.repaired)
    return scene(args, pick.env, build.name, tuned=pick.tuned, source=source, config=world.model.config)


def rated(world: World, workload: Workload, pick: Pick, how: rate.Search = rate.CAREFUL) -> Rating:
    """What one candidate is worth without noise."""
    served = server(world, workload, pick)
    if isinstance(served, str):
        return Rating(tok_s=0.0, why=served, **pick._asdict())
    return _rating(pick, rate.knee(served[0], workload, noise=Noise(served[1]), how=how))


def _rating(pick: Pick, found: rate.Rated) -> Rating:
    return Rating(
        tok_s=found.tok_s, rate_rps=found.rate_rps, points=found.points, why=found.bound_by, **pick._asdict()
    )  # fmt: skip


@dataclass
class _Exhaustive:
    """Rates servers of one space: each quickly first, then the best again with what is left of their points.

    Equal servers are played once, and the error of the fluid estimate is about the same for servers of one shape.
    """

    workload: Workload
    known: dict[_Server, rate.Rated] = field(default_factory=dict)
    off: dict[tuple[int, int, bool], float] = field(default_factory=dict)

    def rate(self, served: _Server) -> None:
        """Quickly."""
        if served in self.known:
            return
        spec, speed = served
        shape = (spec.replicas, spec.costs.verify, spec.cap < 100)
        guess = rate.estimate(spec, self.workload) / speed
        how = rate.Search(guess * self.off.get(shape, 1.0), quick=True)
        found = self.known[served] = rate.knee(spec, self.workload, noise=Noise(speed), how=how)
        if found.rate_rps > 0:
            self.off[shape] = found.rate_rps / guess

    def refine(self) -> None:
        """The best ones again, until none that was rated quickly is better than what was found carefully."""
        careful: dict[_Server, rate.Rated] = {}
        for served, found in sorted(self.known.items(), key=lambda item: -item[1].tok_s):
            best = max((f.tok_s for f in careful.values()), default=0.0)
            left = rate.MAX_POINTS - found.points
            if found.points < 2 or left < 2 or found.tok_s * (1 + QUICK_ERROR) < best:
                continue
            how = rate.Search(found.rate_rps, left)
            again = rate.knee(served[0], self.workload, noise=Noise(served[1]), how=how)
            careful[served] = replace(again, points=found.points + again.points)
        self.known.update(careful)


def server(world: World, workload: Workload, pick: Pick) -> tuple[ServerSpec, float] | str:
    """The server that a candidate makes and the factor on its time; or why it does not serve, or not rightly."""
    build = world.build(pick.build)
    if build.name not in world.tags:
        return f"there is no image {build.name}"
    try:
        args = arguments(world, pick.flags, pick.build)
    except (resolve.Usage, resolve.Fatal) as error:
        return str(error)
    if args["max_total_num_tokens"] < workload.input_tokens + workload.output_tokens:
        return "out of memory"
    seen, speed = seen_by(world, pick, args), 1.0
    for fault in world.faults:
        if fault.kind == "slow_start" or not holds(fault.when, seen):
            continue
        if fault.kind != "slow":
            # a fault under load counts from its first request: nobody may serve with it
            return fault.name
        speed *= fault.time
    return layout.server(world.physics(), args, seen), speed


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
    found = Oracle(world=world.name, workload=workload.name, key=name, ratings=_ratings(world, workload))
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_suffix(".part")
        part.write_text(found.canonical(), encoding="utf-8")
        part.replace(file)
    return found


def _ratings(world: World, workload: Workload) -> tuple[Rating, ...]:
    picks = [(pick, server(world, workload, pick)) for pick in candidates(world)]
    every = _Exhaustive(workload)
    for _, served in picks:
        if not isinstance(served, str):
            every.rate(served)
    every.refine()
    ratings = [
        Rating(tok_s=0.0, why=served, **pick._asdict())
        if isinstance(served, str)
        else _rating(pick, every.known[served])
        for pick, served in picks
    ]
    return tuple(sorted(ratings, key=_order))


def _order(rating: Rating) -> tuple[float, str]:
    return -rating.tok_s, rating.canonical()


__all__ = [
    "Choice",
    "Oracle",
    "Pick",
    "Rating",
    "arguments",
    "candidates",
    "key",
    "oracle",
    "rated",
    "scene",
    "server",
    "simulator",
]
