"""Recipes: everything needed to get a result again, pinned, in one YAML file for people and machines.

The same recipe gives the same bytes. Comments and the order of the sections are for people; `parse` reads the
values alone and refuses what it does not know, with its line.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from day0.runs.accuracy import Canary, Judgement
from day0.runs.candidate import Candidate
from day0.runs.consents import ConsentKind
from day0.runs.documents import load
from day0.runs.engine_facts import NodeFacts
from day0.runs.errors import UserError
from day0.runs.findings import Stability
from day0.runs.patches import Patch, Table
from day0.runs.recipe_notes import headline, notes
from day0.runs.values import Frozen, Map
from day0.runs.workload import FlagValue, Objective, Target, Workload
from day0.runs.yaml_text import write
from pydantic import Field, model_validator

Changed = FlagValue | tuple[str, ...] | None
Label = Literal[
    "", "short", "simulated", "short, simulated", "smoke", "smoke, short", "smoke, simulated", "smoke, short, simulated"
]


class EnginePin(Frozen):
    """The engine: its build is an image digest or the digest of its environment."""

    name: str
    build: str
    version: str
    packages: Map[str] = Field(default_factory=dict)


class ModelPin(Frozen):
    """The checkpoint. `files` are sha256 digests by name."""

    id: str = Field(description="hub ID, or the folder as the user gave it")
    revision: str
    files: Map[str] = Field(default_factory=dict)
    consents: tuple[ConsentKind, ...] = Field(default=(), description="what of it runs code: a replay needs them too")


class Configuration(Frozen):
    """What the server was given beside engine and model; patches and tables by digest."""

    flags: Map[FlagValue] = Field(default_factory=dict)
    env: Map[str] = Field(default_factory=dict)
    patches: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()


class LaunchLine(Frozen):
    """The line as it was run, with `{port}`, `{model}`, `{host}` for what differs from boot to boot."""

    argv: tuple[str, ...]
    env: Map[str] = Field(default_factory=dict)


class Figure(Frozen):
    """One measured figure; a replay must fall between `low` and `high` (None: not checked on that side)."""

    name: str
    unit: str
    value: float
    low: float | None = None
    high: float | None = None
    interval: tuple[float | None, float | None] | None = Field(
        default=None, description="knee only: where it may lie for other arrivals, 90 %, over the boots it stands for"
    )
    label: Label = ""

    def holds(self, measured: float) -> bool:
        """Whether a figure measured again is within the range."""
        return (self.low is None or measured >= self.low) and (self.high is None or measured <= self.high)


class Conditions(Frozen):
    """What stands beside every figure: what was asked for, and how the answers came. `null` = nobody can tell."""

    text: str = Field(description="where the prompts came from")
    temperature: float
    acceptance_length: float | None = Field(default=None, description="tokens a verification step")
    forced_share: float | None = Field(default=None, description="of the output tokens, past the end of a text")
    cached_share: float | None = Field(default=None, description="of the input tokens, found in the prefix cache")


class Gain(Frozen):
    """The confirmed gain over the baseline: 0.1 = 10 % more. `lower` is a one-sided 95 % bound."""

    baseline: str = Field(description="what it is compared with, in words")
    gain: float
    lower: float
    upper: float
    pairs: int
    method: str


class Accuracy(Frozen):
    """What is known of its answers against the fixed reference. Only the label `lossless within margin` says that."""

    label: str = Field(description="lossless within margin, inconclusive, no collapse or accuracy unverified")
    reference: str = Field(description="what it was compared with, in words; empty: with nothing")
    tasks: tuple[Judgement, ...] = ()
    canaries: tuple[Canary, ...] = ()


class Noise(Frozen):
    """The noise floor that gains and ranges stand on: relative s.d. of a knee between boots of one configuration."""

    sd: float
    boots: int = Field(default=0, description="of the baseline on this node, booted again for it; 0: the prior stands")
    spread: float | None = Field(default=None, description="of those boots alone, without the prior")
    why_none: str = Field(default="", description="why none was booted again")


class Step(Frozen):
    """One accepted change on the way from the defaults to this configuration, in order."""

    attempt: str
    change: Map[tuple[Changed, Changed]] = Field(description="key -> (before, after); null: not given")
    goodput_tok_s: float
    gain: float = Field(description="over the step before")
    hypothesis: str = ""


class Provenance(Frozen):
    """Where the recipe comes from."""

    run: str
    attempt: str
    day0: str = Field(description="version of day0 that measured it")
    seed: int = 0
    policy: str = ""
    objective: Objective = Objective.GOODPUT


class Recipe(Frozen):
    """A document `day0/recipe/v1`."""

    replay: str = Field(description="the command that measures it again from this file alone")
    engine: EnginePin
    model: ModelPin
    configuration: Configuration
    patches: tuple[Patch, ...] = Field(default=(), description="whole, in the order they are applied")
    patched: bool = Field(default=False, description="it needs changes to the engine that its image does not have")
    waiver: str = Field(default="", description="what a benchmark asks of a recipe that is patched")
    tables: tuple[Table, ...] = Field(default=(), description="whole: rows of tuned kernels")
    launch: LaunchLine
    figures: tuple[Figure, ...] = Field(min_length=1)
    conditions: Conditions | None = Field(default=None, description="under which the figures stand")
    gain: Gain | None = Field(default=None, description="null: nothing better than the defaults was found")
    accuracy: Accuracy | None = None
    noise: Noise | None = Field(default=None, description="null: written before it was recorded")
    stability: Stability | None = Field(default=None, description="null: it was not held under load for long")
    waterfall: tuple[Step, ...] = ()
    workload: Workload
    target: Target
    node: NodeFacts
    provenance: Provenance

    @model_validator(mode="after")
    def _figures_once(self) -> Recipe:
        names = [figure.name for figure in self.figures]
        if len({*names}) != len(names):
            raise ValueError("two figures have the same name")
        for what, named, held in (
            ("patches", self.configuration.patches, self.patches),
            ("tables", self.configuration.tables, self.tables),
        ):
            if named != tuple(value.digest() for value in held):
                raise ValueError(f"the {what} that stand in this recipe are not those its configuration names")
        return self

    def candidate(self) -> Candidate:
        """The candidate that this recipe pins."""
        return Candidate(
            engine=self.engine.name,
            build=self.engine.build,
            model=self.model.id,
            revision=self.model.revision,
            **dict(self.configuration),
        )

    def figure(self, name: str) -> Figure | None:
        """The figure of that name."""
        return next((figure for figure in self.figures if figure.name == name), None)


def render(recipe: Recipe) -> str:
    """The recipe as YAML with comments. `parse(render(r)) == r`, and equal recipes give equal bytes."""
    data: Mapping[str, Any] = recipe.model_dump(mode="json")
    sections = [headline(recipe), "schema: day0/recipe/v1"]
    for key, value in data.items():
        note = notes(key)
        sections.append((f"\n# {note}\n" if note else "") + write({key: value}).rstrip("\n"))
    text = "\n".join(sections) + "\n"
    if parse(text) != recipe:
        raise UserError("this recipe holds text that YAML can't carry: control characters in a flag or a name")
    return text


def parse(text: str, *, name: str = "recipe") -> Recipe:
    """Reads a recipe of any version so far. Raises `UserError` with the line: unknown keys, wrong types."""
    return load(text, "recipe", Recipe, name=name)
