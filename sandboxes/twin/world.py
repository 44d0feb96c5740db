"""A world: everything that a simulated node is made of, as one document (`day0/world/v1`, see docs/worlds.md)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import prod
from pathlib import Path
from typing import Any, Literal

from day0.runs.documents import load, names, shipped
from day0.runs.errors import UserError
from day0.runs.values import Frozen, Map
from day0.runs.workload import FlagValue
from day0.sandboxes.twin.conditions import When
from day0.sandboxes.twin.layout import Physics
from day0.sandboxes.twin.parts import Build, Checkpoint, Defaults, ModelSpec, NodeSpec, Tuned
from day0.sandboxes.twin.truth import Noise, Truth
from pydantic import Field, field_validator
from pydantic_core import PydanticCustomError

MAX_SPACE = 200
FaultKind = Literal["crash", "hang", "wrong_output", "oom", "slow_start", "slow", "leak"]
SolvedBy = Literal["flags", "tuning", "image", "codemod", "patch"]


class Fault(Frozen):
    """Something that goes wrong while its condition holds.

    `crash`: at boot, at `stage`, with these log lines and exit code. `hang`: with `when.running` under load, else at
    boot. `wrong_output`: answers are wrong at this share (see docs/worlds.md), and time changes by `time`. `oom`:
    at boot, or with `when.running` under load. `slow_start`: silent but busy for `seconds` more at boot. `slow`: the
    log lines at `stage` and nothing else tell that all takes `time` as long. `leak`: memory grows while
    requests run. `{evidence}` in a line is what was found.
    """

    name: str = Field(min_length=1)
    kind: FaultKind
    when: When = When()
    stage: Literal["import", "load", "pool", "graph", "warmup"] = "load"
    log: tuple[str, ...] = ()
    exit_code: int = 1
    wrong_share: float = Field(default=0.6, ge=0, le=1)
    only_at_load: bool = Field(default=False, description="wrong_output: answers are right while one request runs")
    time: float = Field(default=1.0, gt=0, description="wrong_output, slow: factor on all time; below 1 is faster")
    seconds: float = Field(default=0.0, ge=0)
    gib_per_hour: float = Field(default=0.0, ge=0, description="leak: of each accelerator, while requests run")


class Choice(Frozen):
    """One point of an axis of the declared space."""

    flags: Map[FlagValue | None] = Field(default_factory=dict)
    env: Map[str | None] = Field(default_factory=dict)
    tuned: bool | None = None
    repaired: bool | None = Field(default=None, description="with the builds' `repaired` files in their trees")
    build: str | None = Field(default=None, description="on this build; without one, on the first")


class Story(Frozen):
    """A configuration whose figure is published or wanted; tests hold the world to it."""

    name: str
    flags: Map[FlagValue]
    env: Map[str] = Field(default_factory=dict)
    tuned: bool = False
    repaired: bool = False
    workload: str
    figure: Literal["output_tok_s", "stream_tok_s"]
    value: float = Field(gt=0)
    tolerance: float = Field(default=0.05, gt=0, lt=1)
    source: str


class World(Frozen):
    """The document."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9.-]{0,63}$")
    summary: str
    solved_by: SolvedBy = Field(default="flags", description="the strongest means that its best candidate needs")
    node: NodeSpec = NodeSpec()
    model: ModelSpec
    checkpoints: tuple[Checkpoint, ...] = ()
    builds: tuple[Build, ...]
    registry: tuple[str, ...] | None = Field(default=None, description="tags that exist; absent: every build's name")
    flaky_downloads: int = Field(default=0, ge=0, description="pulls that break before one succeeds")
    defaults: Defaults = Defaults()
    truth: Truth = Truth()
    tuned: Tuned | None = None
    noise: Noise = Noise()
    faults: tuple[Fault, ...] = ()
    space: tuple[tuple[Choice, ...], ...] = Field(default=(), description="axes of the oracle's space")
    story: tuple[Story, ...] = ()

    @field_validator("builds", "faults")
    @classmethod
    def _named_once(cls, value: tuple[Any, ...]) -> tuple[Any, ...]:
        seen: set[str] = set()
        for item in value:
            if item.name in seen:
                raise PydanticCustomError("twice", "two have the same name, {name}", {"name": item.name})
            seen.add(item.name)
        return value

    @field_validator("builds")
    @classmethod
    def _some(cls, value: tuple[Build, ...]) -> tuple[Build, ...]:
        if not value:
            raise PydanticCustomError("none", "there has to be one at least")
        return value

    @field_validator("space")
    @classmethod
    def _not_too_large(cls, value: tuple[tuple[Choice, ...], ...]) -> tuple[tuple[Choice, ...], ...]:
        count = prod(max(1, len(axis)) for axis in value)
        if count > MAX_SPACE:
            told = "the declared space holds {count} candidates, at most {most} are allowed"
            raise PydanticCustomError("too_many", told, {"count": count, "most": MAX_SPACE})
        return value

    def physics(self) -> Physics:
        """Model, accelerator and truth."""
        return Physics(self.model.geometry, self.model.precision, self.node.chip(), self.truth)

    def build(self, name: str = "") -> Build:
        """The build of that name, the first without one. Raises `UserError`."""
        found = next((b for b in self.builds if name in ("", b.name)), None)
        if found is None:
            raise UserError(f"world {self.name} has no build {name!r}; it has {', '.join(b.name for b in self.builds)}")
        return found

    @property
    def tags(self) -> tuple[str, ...]:
        """Tags that the registry holds."""
        return tuple(b.name for b in self.builds) if self.registry is None else self.registry

    def mended(self) -> World:
        """As if every build's `repaired` files had always been its source."""
        builds = tuple(b.model_copy(update={"tree": b.source(repaired=True)}) for b in self.builds)
        return self.model_copy(update={"builds": builds})

    def config_of(self, checkpoint: Checkpoint) -> dict[str, Any]:
        """The whole `config.json` of another checkpoint of this origin."""
        merged = {**self.model.config, **checkpoint.config}
        return {key: value for key, value in merged.items() if value is not None}

    def ids(self) -> tuple[str, ...]:
        """Every name by which a person may ask for this model."""
        origin = (self.model.origin,) if self.model.origin else ()
        return (self.model.id, *origin, *(c.id for c in self.checkpoints))


@cache
def _load(path: Path, _stamp: tuple[int, int], own: bool) -> World:
    found = load(path, "world", World)
    if own:
        from day0.sandboxes.twin.wellformed import check

        check(found, path)
    return found


def world(name_or_file: str) -> World:
    """A shipped world by name, or one's own by the path of its file. Raises `UserError` naming file and line."""
    own = Path(name_or_file)
    looks_like_file = own.suffix in {".yaml", ".yml"} or "/" in name_or_file
    path = own if looks_like_file else shipped("world", name_or_file)
    try:
        stat = path.stat()
    except OSError:
        return load(path, "world", World)
    return _load(path, (stat.st_mtime_ns, stat.st_size), looks_like_file)


def for_model(model_id: str) -> World:
    """The shipped world of a model: by its checkpoint's ID, its origin's, or another checkpoint's of that origin.

    Where several worlds have the model, the first by that order and then by name. Raises `UserError`.
    """
    held = [world(name) for name in names("world") if model_id in shipped("world", name).read_text(encoding="utf-8")]
    for named in (_id, _origin, _others):
        for found in held:
            if model_id in named(found):
                return found
    known = sorted({world(name).model.origin or world(name).model.id for name in names("world")})
    raise UserError(f"no world is shipped for {model_id!r}: there are worlds of {', '.join(known)}")


def _id(found: World) -> Sequence[str]:
    return (found.model.id,)


def _origin(found: World) -> Sequence[str]:
    return (found.model.origin or "",)


def _others(found: World) -> Sequence[str]:
    return found.ids()


__all__ = [
    "Build",
    "Checkpoint",
    "Choice",
    "Defaults",
    "Fault",
    "ModelSpec",
    "NodeSpec",
    "Story",
    "Tuned",
    "World",
    "for_model",
    "world",
]
