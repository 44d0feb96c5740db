"""Facts: what a climb tells the controller, in the order it happened."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from day0.runs.accuracy import CanariesSeen, Judged
from day0.runs.engine_facts import BootFacts, EngineFacts, ModelFacts, NodeFacts
from day0.runs.findings import Explained, Held, Kernels
from day0.runs.patches import Patch, Table, Worn
from day0.runs.points import Knee, LoadPoint, Percentiles
from day0.runs.values import Frozen, Map
from pydantic import Field

__all__ = [
    "ArtifactKept",
    "BootEnded",
    "BootReady",
    "BootStarted",
    "Explained",
    "Fact",
    "FailureClass",
    "FigureChecked",
    "Held",
    "Knee",
    "KneeFound",
    "LoadPoint",
    "NodeChecked",
    "Pair",
    "PairMeasured",
    "PatchMade",
    "Percentiles",
    "PointMeasured",
    "Progress",
    "Rung",
    "RungStarted",
    "Surveyed",
    "TableMade",
    "Verdict",
]


class Rung(StrEnum):
    """The ladder, cheapest failure first."""

    ADMIT = "admit"
    PREPARE = "prepare"
    BOOT = "boot"
    ANSWER = "answer"
    SCREEN = "screen"
    ACCURACY = "accuracy"
    MEASURE = "measure"
    CONFIRM = "confirm"
    REPLAY = "replay"
    REPEAT = "repeat"
    """no rung to pass: boots beside the ladder that measure something known again, whole or without one change"""


class FailureClass(StrEnum):
    """Why something failed: the root cause before the symptom."""

    OOM = "oom"
    PORT_LEFTOVER = "port_leftover"
    MISSING_KERNEL = "missing_kernel"
    UNSUPPORTED_ARCH = "unsupported_arch"
    SHAPE_MISMATCH_QUANT = "shape_mismatch_quant"
    HEADER_COMPILE = "header_compile"
    DEPENDENCY_VERSION = "dependency_version"
    GRAPH_CAPTURE = "graph_capture"
    HANG_DEADLOCK = "hang_deadlock"
    RCCL_COMM = "rccl_comm"
    MEMORY_FAULT = "memory_fault"
    ACCURACY_WRONG_OUTPUT = "accuracy_wrong_output"
    SLOW_FALLBACK = "slow_fallback"
    MISSING_MODEL_SUPPORT = "missing_model_support"
    SPECULATIVE = "speculative"
    TOKENIZER_CHAT_TEMPLATE = "tokenizer_chat_template"
    NETWORK_DOWNLOAD = "network_download"
    PERMISSION_DEVICE = "permission_device"
    BAD_ARGUMENT = "bad_argument"
    """the engine refused its command line"""
    BAD_CHECKPOINT = "bad_checkpoint"
    """a file of the checkpoint is missing, truncated or altered"""
    CRASHED = "crashed"
    """a process of the server died without saying why"""
    DISK_FULL = "disk_full"
    BELOW_SLO = "below_slo"
    NOT_PROMISING = "not_promising"
    NOT_BETTER = "not_better"
    NOT_STABLE = "not_stable"
    NOT_REPRODUCIBLE = "not_reproducible"
    IDENTITY = "identity"
    """the server runs something else than was asked"""
    BAD_PATCH = "bad_patch"
    """a patch that does not apply, or a table that does not hold what it should"""
    UNKNOWN = "unknown"


class RungStarted(Frozen):
    """A rung is being climbed."""

    kind: Literal["rung_started"] = "rung_started"
    rung: Rung


class Verdict(Frozen):
    """A rung's verdict about the candidate; final once written."""

    kind: Literal["verdict"] = "verdict"
    rung: Rung
    passed: bool
    failure: FailureClass | None = None
    evidence: str = ""
    issue: str = ""
    detail: str = ""


class BootStarted(Frozen):
    """A lease on a node: a server was launched."""

    kind: Literal["boot_started"] = "boot_started"
    boot: int
    argv: tuple[str, ...]
    env: Map[str] = Field(default_factory=dict)


class BootReady(Frozen):
    """The server gave a real answer."""

    kind: Literal["boot_ready"] = "boot_ready"
    boot: int
    facts: BootFacts
    worn: Worn | None = Field(default=None, description="what it wears where patches come as an image of their own")


class BootEnded(Frozen):
    """The server is gone, its tree verified dead."""

    kind: Literal["boot_ended"] = "boot_ended"
    boot: int
    reason: Literal["stopped", "crashed", "hung", "lost"]
    exit_code: int | None = None
    node_s: float = Field(description="node seconds the lease lasted")
    kernels: Kernels | None = Field(default=None, description="None: its log is not known")


class PointMeasured(Frozen):
    """A load point of a boot."""

    kind: Literal["point"] = "point"
    boot: int
    rung: Rung
    point: LoadPoint


class KneeFound(Frozen):
    """The bracket of a boot is closed."""

    kind: Literal["knee"] = "knee"
    boot: int
    rung: Rung
    knee: Knee


class ArtifactKept(Frozen):
    """Raw output on its way to the artifact store; `data` is dropped once stored."""

    kind: Literal["artifact"] = "artifact"
    name: str
    data: bytes = Field(exclude=True, repr=False, default=b"")
    stored: str = Field(default="", description="digest in the artifact store")


class NodeChecked(Frozen):
    """Pre-flight of the node this attempt runs on."""

    kind: Literal["node"] = "node"
    node: NodeFacts


class Surveyed(Frozen):
    """What a run starts from: the model's files, the engine build on the node."""

    kind: Literal["surveyed"] = "surveyed"
    model: ModelFacts
    engine: EngineFacts


class Pair(Frozen):
    """One boot of each arm on the same arrival times and lengths."""

    number: int
    first: str = Field(description="which arm booted first: `incumbent` or `challenger`")
    incumbent: Knee
    challenger: Knee
    log_ratio: float = Field(description="ln(challenger knee / incumbent knee); single stream: of the inverse TPOTs")


class PairMeasured(Frozen):
    """Both boots of a pair are done; a pair interrupted half-way is measured again as a whole."""

    kind: Literal["pair"] = "pair"
    pair: Pair


class FigureChecked(Frozen):
    """A figure of a recipe, measured again in a clean sandbox, against its published range."""

    kind: Literal["figure"] = "figure"
    name: str
    unit: str
    low: float | None
    high: float | None
    measured: float
    within: bool


class PatchMade(Frozen):
    """A patch was made and proved to apply; its digest may stand in a candidate from now on."""

    kind: Literal["patch_made"] = "patch_made"
    patch: Patch


class TableMade(Frozen):
    """Kernels were tuned; the table's digest may stand in a candidate from now on."""

    kind: Literal["table_made"] = "table_made"
    table: Table


class Progress(Frozen):
    """A line for people who watch; never a basis of a decision."""

    kind: Literal["progress"] = "progress"
    text: str
    step: int | None = Field(default=None, description="which of a run's nine steps it is about; None: a detail")


Fact = Annotated[
    RungStarted
    | Verdict
    | BootStarted
    | BootReady
    | BootEnded
    | PointMeasured
    | KneeFound
    | Explained
    | PairMeasured
    | Held
    | CanariesSeen
    | Judged
    | FigureChecked
    | ArtifactKept
    | NodeChecked
    | Surveyed
    | PatchMade
    | TableMade
    | Progress,
    Field(discriminator="kind"),
]
