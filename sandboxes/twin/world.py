"""A world: everything that a simulated node is made of, as one document (`day0/world/v1`, see docs/worlds.md)."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, Literal

from day0.runs.documents import load, shipped
from day0.runs.errors import UserError
from day0.runs.geometry import Geometry, Precision
from day0.runs.values import Frozen, Map
from day0.runs.workload import FlagValue
from day0.sandboxes.twin.conditions import When
from day0.sandboxes.twin.layout import Chip, Physics
from day0.sandboxes.twin.truth import Noise, Truth
from pydantic import Field, model_validator

MAX_SPACE = 200
GIB = 2**30


class NodeSpec(Frozen):
    """The machine. Bytes, bytes/s and operations/s are of one accelerator; `link` one way to its peers."""

    gpus: int = Field(default=8, ge=1, le=16)
    accelerator: str = "mi355x"
    arch: str = "gfx950"
    memory_bytes: float = Field(default=309_220_868_096, gt=0)
    bandwidth: float = Field(default=8.0e12, gt=0)
    link: float = Field(default=5.38e11, gt=0)
    fp4_ops: float = Field(default=1.0066e16, gt=0)
    fp8_ops: float = Field(default=5.033e15, gt=0)
    bf16_ops: float = Field(default=2.516e15, gt=0)
    cpu: str = "AMD EPYC 9575F 64-Core Processor"
    cores: int = Field(default=128, ge=1)
    memory_gib: float = Field(default=3023.0, gt=0)
    disk_free_gib: float = Field(default=6000.0, ge=0)
    disk_gib_s: float = Field(default=1.2, gt=0, description="reading weights, over all ranks")
    governor: str = "performance"
    numa_balancing: bool = False
    kernel: str = "6.8.0-60-generic"
    leaked_gib: float = Field(default=0.0, ge=0, description="per accelerator, held by nobody from the start")
    dies_at_s: float | None = Field(default=None, gt=0, description="node time at which it stops answering for good")
    stale_lock: bool = Field(default=False, description="a killed compiler left its lock in the kernel cache")
    amd_smi: Literal["works", "missing", "hangs"] = "works"

    def chip(self) -> Chip:
        """One accelerator as the layout wants it."""
        peaks = {"fp4": self.fp4_ops, "fp8": self.fp8_ops, "bf16": self.bf16_ops}
        return Chip(self.memory_bytes, self.bandwidth, self.link, peaks)


class ModelSpec(Frozen):
    """The checkpoint: its ID, the `config.json` that stands in its folder, and the geometry that is true of it."""

    id: str = Field(pattern=r"^[A-Za-z0-9._-]+/[A-Za-z0-9._-]+$")
    precision: Precision = "fp4"
    geometry: Geometry
    config: Map[Any]
    weight_files: int = Field(default=8, ge=1, le=400)
    right: float = Field(default=0.97, ge=0, le=1, description="share of the task's sums that it gets right")


class Build(Frozen):
    """An engine image. `flags` names a shipped catalogue; `tree` holds the files of its source that matter here."""

    name: str
    version: str = "0.5.23"
    flags: str = "sglang-0.5.23"
    packages: Map[str] = Field(default_factory=dict)
    tree: Map[str] = Field(default_factory=dict, description="path in the engine's source -> text")
    import_s: float = Field(default=25.0, ge=0)
    compile_s: float = Field(default=240.0, ge=0, description="kernels compiled at the first boot, cached afterwards")


class Tuned(Frozen):
    """Rows of tuned kernels: who has them. Absent: this world's kernels need none."""

    shipped: bool = Field(default=False, description="the build brings rows for this model's shapes")
    tune_s: float = Field(default=1500.0, ge=0)


class Defaults(Frozen):
    """What the engine resolves by itself on this node where nothing is asked."""

    memory_share: float = Field(default=0.88, gt=0, le=1)
    chunk: int = Field(default=16384, ge=256)
    running: int = Field(default=2048, ge=1)
    running_speculative: int = Field(
        default=48, ge=1, description="the silent cap, per replica, divided by attention DP"
    )
    attention_backend: str = "aiter"


FaultKind = Literal["crash", "hang", "wrong_output", "oom", "slow_start", "slow"]


class Fault(Frozen):
    """Something that goes wrong while its condition holds.

    `crash`: at boot, at `stage`, with these log lines and exit code. `hang`: with `when.running` under load, else at
    boot. `wrong_output`: answers are wrong at this share (see docs/worlds.md), and time changes by `time`. `oom`:
    at boot, or with `when.running` under load. `slow_start`: silent but busy for `seconds` more at boot. `slow`: the
    log lines at `stage` and nothing else tell that all takes `time` as long. `{evidence}` in a line is what was found.
    """

    name: str
    kind: FaultKind
    when: When = When()
    stage: Literal["import", "load", "pool", "graph", "warmup"] = "load"
    log: tuple[str, ...] = ()
    exit_code: int = 1
    wrong_share: float = Field(default=0.6, ge=0, le=1)
    only_at_load: bool = Field(default=False, description="wrong_output: answers are right while one request runs")
    time: float = Field(default=1.0, gt=0, description="wrong_output, slow: factor on all time; below 1 is faster")
    seconds: float = Field(default=0.0, ge=0)


class Choice(Frozen):
    """One point of an axis of the declared space."""

    flags: Map[FlagValue | None] = Field(default_factory=dict)
    env: Map[str | None] = Field(default_factory=dict)
    tuned: bool | None = None


class Story(Frozen):
    """A configuration whose figure is published or wanted; tests hold the world to it."""

    name: str
    flags: Map[FlagValue]
    env: Map[str] = Field(default_factory=dict)
    tuned: bool = False
    workload: str
    figure: Literal["output_tok_s", "stream_tok_s"]
    value: float = Field(gt=0)
    tolerance: float = Field(default=0.05, gt=0, lt=1)
    source: str


class World(Frozen):
    """The document."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9.-]{0,63}$")
    summary: str
    node: NodeSpec = NodeSpec()
    model: ModelSpec
    builds: tuple[Build, ...] = Field(min_length=1)
    defaults: Defaults = Defaults()
    truth: Truth = Truth()
    tuned: Tuned | None = None
    noise: Noise = Noise()
    faults: tuple[Fault, ...] = ()
    space: tuple[tuple[Choice, ...], ...] = Field(default=(), description="axes of the oracle's space")
    story: tuple[Story, ...] = ()

    @model_validator(mode="after")
    def _consistent(self) -> World:
        count = 1
        for axis in self.space:
            count *= max(1, len(axis))
        if count > MAX_SPACE:
            raise ValueError(f"the declared space holds {count} candidates, at most {MAX_SPACE} are allowed")
        for what, names in (("build", [b.name for b in self.builds]), ("fault", [f.name for f in self.faults])):
            if len(set(names)) < len(names):
                raise ValueError(f"two {what}s have the same name")
        return self

    def physics(self) -> Physics:
        """Model, accelerator and truth."""
        return Physics(self.model.geometry, self.model.precision, self.node.chip(), self.truth)

    def build(self, name: str = "") -> Build:
        """The build of that name, the first without one. Raises `UserError`."""
        found = next((b for b in self.builds if name in ("", b.name)), None)
        if found is None:
            raise UserError(f"world {self.name} has no build {name!r}; it has {', '.join(b.name for b in self.builds)}")
        return found


@cache
def _load(path: Path, _stamp: tuple[int, int]) -> World:
    return load(path, "world", World)


def world(name_or_file: str) -> World:
    """A shipped world by name, or one's own by the path of its file. Raises `UserError` naming file and line."""
    own = Path(name_or_file)
    looks_like_file = own.suffix in {".yaml", ".yml"} or "/" in name_or_file
    path = own if looks_like_file else shipped("world", name_or_file)
    try:
        stat = path.stat()
    except OSError:
        return load(path, "world", World)
    return _load(path, (stat.st_mtime_ns, stat.st_size))
