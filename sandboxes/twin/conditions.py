"""When something of a world holds: a condition over flags, environment, build, source text, tuned rows and load."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from day0.runs.values import Frozen, Map
from day0.runs.workload import FlagValue
from pydantic import Field


class Test(Frozen):
    """What a value must be; several keys must all hold. An absent value passes only `absent: true` and `not`."""

    equals: FlagValue | None = None
    one_of: tuple[FlagValue, ...] = ()
    at_least: float | None = None
    at_most: float | None = None
    absent: bool | None = None
    differs: FlagValue | None = Field(default=None, description="holds for every other value, also for none")

    def holds(self, value: Any) -> bool:
        """Whether `value` (None: absent) passes."""
        if self.absent is not None and self.absent != (value is None):
            return False
        if self.differs is not None and _same(value, self.differs):
            return False
        if self.equals is not None and not _same(value, self.equals):
            return False
        if self.one_of and not any(_same(value, v) for v in self.one_of):
            return False
        if self.at_least is not None and not (_number(value) is not None and float(value) >= self.at_least):
            return False
        return self.at_most is None or (_number(value) is not None and float(value) <= self.at_most)


def _same(value: Any, wanted: FlagValue) -> bool:
    if isinstance(value, bool) or isinstance(wanted, bool):
        return value is wanted
    a, b = _number(value), _number(wanted)
    return a == b if a is not None and b is not None else value is not None and str(value) == str(wanted)


def _number(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


class When(Frozen):
    """All parts must hold. `flags` are resolved arguments by their dashed names, as the server reports them.

    `source` holds while a file of the engine's tree contains a text; `rows` while a tuned row is missing for the
    shapes that the server asks for (`missing`) or present (`present`); `running` from that many requests per replica
    on. Source, rows and running are looked up by whoever evaluates; see `Scene`.
    """

    flags: Map[Test] = Field(default_factory=dict)
    env: Map[Test] = Field(default_factory=dict)
    build: tuple[str, ...] = ()
    source: Map[str] = Field(default_factory=dict, description="file of the tree -> text that it contains")
    rows: str | None = Field(default=None, pattern="^(missing|present)$")
    running: int | None = Field(default=None, ge=1, description="per replica; only faults under load use it")


@dataclass(frozen=True)
class Scene:
    """What conditions are judged on."""

    flags: Mapping[str, Any]
    env: Mapping[str, str]
    build: str
    tuned: bool = False
    source: Mapping[str, str] = field(default_factory=dict)


def holds(when: When, scene: Scene) -> bool:
    """Whether all parts but `running` hold."""
    return (
        all(test.holds(scene.flags.get(name)) for name, test in when.flags.items())
        and all(test.holds(scene.env.get(name)) for name, test in when.env.items())
        and (not when.build or scene.build in when.build)
        and all(text in scene.source.get(path, "") for path, text in when.source.items())
        and (when.rows is None or (when.rows == "present") == scene.tuned)
    )
