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


class Readings(Frozen):
    """What was read of the accelerators during a long time under load; `None` = unknown. Memory in bytes.

    Memory is that of all accelerators held; growth is from the end of the first quarter, when everything that is made
    lazily was made, to the last reading. Clocks are the slowest accelerator's, power the hungriest one's.
    """

    count: int = Field(description="readings taken")
    memory_bytes: int | None = Field(default=None, description="at the last reading")
    memory_growth_bytes: int | None = None
    clock_mhz_least: float | None = None
    clock_mhz_median: float | None = None
    power_w_most: float | None = None
    power_w_median: float | None = None
    unknown: str = Field(default="", description="what could not be read, and why")


class Held(Frozen):
    """A configuration under load for long: how it went, and what was read meanwhile."""

    kind: Literal["held"] = "held"
    boot: int
    workload: str
    rate_rps: float
    seconds: float
    requests: int
    failed: int
    readings: Readings
