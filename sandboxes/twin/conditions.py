"""When something of a world holds: a condition over flags, environment, build, source text, tuned rows and load."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from day0.runs.values import Frozen, Map
from day0.runs.workload import FlagValue
from day0.sandboxes.twin import arithmetic, defects
from pydantic import Field


class Check(Frozen):
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


class Case(Frozen):
    """Arguments, and what the function must give for them."""

    args: tuple[FlagValue, ...]
    gives: FlagValue


class Result(Frozen):
    """A function of engine source that must give these values, however it is written."""

    file: str
    function: str
    cases: tuple[Case, ...] = Field(min_length=1)


class When(Frozen):
    """All parts must hold. `flags` are resolved arguments by their dashed names, as the server reports them.

    `header`, `drafts` (`defects.py`) and `result` (`arithmetic.py`) are found by looking at the source; `source` holds
    while a file of the engine's tree contains a text; `rows` while tuned rows for the server's shapes are missing or
    present; `running` from that many requests per replica on (judged by whoever plays the load).
    """

    flags: Map[Check] = Field(default_factory=dict)
    env: Map[Check] = Field(default_factory=dict)
    build: tuple[str, ...] = ()
    source: Map[str] = Field(default_factory=dict, description="file of the tree -> text that it contains")
    header: str | None = Field(default=None, description="file that, preprocessed for ROCm, misses a header")
    drafts: str | None = Field(default=None, description="file whose mapper leaves draft layers unrecognised")
    result: Result | None = Field(default=None, description="holds while the function gives something else")
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
    config: Mapping[str, Any] = field(default_factory=dict)


def holds(when: When, scene: Scene) -> bool:
    """Whether all parts but `running` hold."""
    return (
        all(test.holds(scene.flags.get(name)) for name, test in when.flags.items())
        and all(test.holds(scene.env.get(name)) for name, test in when.env.items())
        and (not when.build or scene.build in when.build)
        and all(text in scene.source.get(path, "") for path, text in when.source.items())
        and (when.rows is None or (when.rows == "present") == scene.tuned)
        and (when.header is None or bool(_missing(when.header, scene)))
        and (when.drafts is None or bool(_unrecognised(when.drafts, scene)))
        and (when.result is None or bool(_differs(when.result, scene)))
    )


def evidence(when: When, scene: Scene) -> str:
    """What was found by looking, for `{evidence}` in a fault's log lines."""
    if when.header is not None:
        return _missing(when.header, scene)
    if when.result is not None:
        return _differs(when.result, scene)
    return ", ".join(_unrecognised(when.drafts, scene)) if when.drafts is not None else ""


def _missing(path: str, scene: Scene) -> str:
    kinds = defects.KERNELS
    return defects.missing_header(path, tuple(sorted((p, scene.source[p]) for p in scene.source if p.endswith(kinds))))


def _unrecognised(path: str, scene: Scene) -> tuple[str, ...]:
    return defects.unrecognised(scene.config, scene.source.get(path, ""))


def _differs(result: Result, scene: Scene) -> str:
    """The first case that comes out otherwise; empty: none."""
    text = scene.source.get(result.file, "")
    for case in result.cases:
        try:
            given = arithmetic.value(text, result.function, case.args)
        except arithmetic.Unclear as error:
            return f"{result.function}: {error}"
        same = given == case.gives and isinstance(given, bool) == isinstance(case.gives, bool)
        if not same:
            said = ", ".join(map(repr, case.args))
            return f"{result.function}({said}) = {str(given)[:40]}, not {case.gives!r}"
    return ""
