"""What a world is made of: its node, its checkpoint, the engine images, and what the engine resolves by itself."""

from __future__ import annotations

from typing import Any, Literal

from day0.runs.geometry import Geometry, Precision
from day0.runs.values import Frozen, Map
from day0.sandboxes.twin.layout import Chip
from pydantic import Field

HUB_ID = r"^[A-Za-z0-9._-]+/[A-Za-z0-9._-]+$"


class NodeSpec(Frozen):
    """The machine. Bytes, bytes/s and operations/s are of one accelerator; `link` one way to its peers."""

    count: int = Field(default=1, ge=1, le=8, description="nodes like this one that stand ready")
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
    download_gib_s: float = Field(default=0.25, gt=0, description="images from their registry")
    client_time: float = Field(default=1.0, gt=0, description="time that the load generator needs, against a good core")
    governor: str = "performance"
    numa_balancing: bool = False
    kernel: str = "6.8.0-60-generic"
    leaked_gib: float = Field(default=0.0, ge=0, description="per accelerator, held by nobody from the start")
    left_gib: float = Field(default=0.0, ge=0, description="per accelerator, held by a server of a day0 that is gone")
    stranger_gib: float = Field(default=0.0, ge=0, description="per accelerator, held by somebody else's process")
    dies_at_s: float | None = Field(
        default=None, gt=0, description="node time at which it stops answering for good; of several only the first"
    )
    stale_lock: bool = Field(default=False, description="a killed compiler left its lock in the kernel cache")
    amd_smi: Literal["works", "missing", "hangs"] = "works"

    def chip(self) -> Chip:
        """One accelerator as the layout wants it."""
        peaks = {"fp4": self.fp4_ops, "fp8": self.fp8_ops, "bf16": self.bf16_ops}
        return Chip(self.memory_bytes, self.bandwidth, self.link, peaks)


class ModelSpec(Frozen):
    """The checkpoint: its ID, the `config.json` that stands in its folder, and the geometry that is true of it."""

    id: str = Field(pattern=HUB_ID)
    origin: str | None = Field(default=None, pattern=HUB_ID, description="the released model that it was made from")
    precision: Precision = "fp4"
    geometry: Geometry
    config: Map[Any]
    weight_files: int = Field(default=8, ge=1, le=400)
    answer_tokens: int = Field(default=800, ge=1, description="where it would end an answer by itself, in the mean")
    right: float = Field(default=0.97, ge=0, le=1, description="share of the task's sums that it gets right")


class Checkpoint(Frozen):
    """Another checkpoint of the same origin: known, not simulated. `config` is what differs; null removes a key."""

    id: str = Field(pattern=HUB_ID)
    precision: Precision
    config: Map[Any] = Field(default_factory=dict)


class Build(Frozen):
    """An engine image. `flags` names a shipped catalogue; `tree` holds the files of its source that matter here."""

    name: str
    version: str = "0.5.23"
    flags: str = "sglang-0.5.23"
    packages: Map[str] = Field(default_factory=dict)
    tree: Map[str] = Field(default_factory=dict, description="path in the engine's source -> text")
    repaired: Map[str] = Field(default_factory=dict, description="files of the tree with their defect mended")
    import_s: float = Field(default=25.0, ge=0)
    compile_s: float = Field(default=240.0, ge=0, description="kernels compiled at the first boot, cached afterwards")
    image_gib: float = Field(default=24.0, gt=0, description="compressed, as it is pulled")
    present: bool = Field(default=True, description="on the node from the start; else it has to be pulled")

    def source(self, *, repaired: bool) -> dict[str, str]:
        """The tree, or the tree with the mended files in their places."""
        return {**self.tree, **(self.repaired if repaired else {})}


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
