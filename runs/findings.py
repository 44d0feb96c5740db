"""What load points and a long time under load add up to, told in words that can be acted upon."""

from __future__ import annotations

from typing import Literal

from day0.runs.values import Frozen, Map
from day0.runs.workload import FlagValue
from pydantic import Field

Limit = Literal[
    "none",
    "load generator",
    "cliff",
    "admission cap",
    "kv cap",
    "queueing",
    "prefill-bound",
    "decode-bound",
]


class Diagnosis(Frozen):
    """Why a configuration gives no more than it does, what shows it, and the experiment that would lift it."""

    name: Limit
    evidence: str
    experiment: str = Field(default="", description="what to try; empty where nothing is shown")
    flags: Map[FlagValue] = Field(default_factory=dict, description="the experiment as flags, where it is one of flags")


class Explained(Frozen):
    """The knee of a boot explained: the first diagnosis is what holds it back, further ones come after it."""

    kind: Literal["explained"] = "explained"
    boot: int
    workload: str
    found: tuple[Diagnosis, ...] = Field(min_length=1)


class Kernels(Frozen):
    """What the whole log of a boot, from launch to end, tells of slow paths. It stands beside figures, voids none."""

    fallback_lines: int = Field(
        default=0, ge=0, description="lines that say that a kernel ran on a fallback or untuned"
    )
    compile_lines: int = Field(default=0, ge=0, description="lines of a kernel compile or a graph capture")
    tuned: int = Field(default=0, ge=0, description="shapes of fused expert kernels that ran with a tuned row")
    untuned: int = Field(default=0, ge=0, description="such shapes that ran without one")

    @property
    def coverage(self) -> float | None:
        """Share of the shapes seen that had a tuned row; None: the log names none."""
        count = self.tuned + self.untuned
        return self.tuned / count if count else None


class Stability(Frozen):
    """A configuration under load for long, and what was read of its accelerators meanwhile; `None` = unknown.

    Memory, in bytes, is that of all accelerators together; its growth is from the end of the first quarter, when what
    is made lazily was made, to the last reading, and clocks (the slowest busy accelerator's) and power (the hungriest
    one's) are of that time, too.
    """

    rate_rps: float = Field(description="offered, 0.9 x the knee")
    seconds: float
    requests: int
    failed: int
    memory_bytes: int | None = None
    memory_growth_bytes: int | None = None
    clock_mhz_least: float | None = None
    clock_mhz_median: float | None = None
    power_w_most: float | None = None
    power_w_median: float | None = None
    unknown: str = Field(default="", description="what could not be read, and why")


class Held(Frozen):
    """What came of a long time under load on a boot."""

    kind: Literal["held"] = "held"
    boot: int
    workload: str
    readings: int = Field(description="how often the accelerators were read")
    found: Stability


class NoiseFloor(Frozen):
    """The baseline's knee on one workload, boot after boot on one node before the search: what noise can fake."""

    workload: str
    rates_rps: tuple[float, ...] = Field(default=(), description="its knees on the same arrivals, one a boot")
    node: str = ""
    boot_id: str = Field(default="", description="of the node: after a restart it is measured anew")
    run: str = Field(default="", description="that measured it")
    at: str = Field(default="", description="when, RFC 3339 in UTC; set where it is kept for later runs")
    reused: bool = Field(default=False, description="an earlier run's, still fresh")
    why_none: str = Field(default="", description="why nothing was measured: the prior stands")


class Ablated(Frozen):
    """The winner without one of its accepted changes: `gain` is the winner's over that, 0.1 = 10 % more."""

    workload: str
    winner: str
    step: str = Field(description="attempt that brought the change")
    without_rps: float | None = Field(default=None, description="the knee without it, requests/s")
    gain: float | None = None
    lower: float | None = Field(default=None, description="one-sided 95 % bounds by the noise floor")
    upper: float | None = None
    how: str = Field(default="", description="by which boot it is known")
    why_none: str = Field(default="", description="why there is no figure: `not ablated`, or what happens without it")
