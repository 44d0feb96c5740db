"""Peaks, memory, links and prices of accelerators, from the shipped table `hardware.yaml`."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Any, Literal

from day0.runs.errors import UserError
from day0.runs.geometry import Precision
from day0.runs.values import Frozen, Map
from pydantic import Field


class Hardware(Frozen):
    """One accelerator. Peaks are dense; links one way, per accelerator; prices in USD per accelerator-hour."""

    name: str
    vendor: Literal["amd", "nvidia"]
    generation: int = Field(description="1 = CDNA4 and Blackwell, 0 = the one before")
    memory_bytes: float
    memory_bytes_s: float
    fp4_ops: float | None
    fp8_ops: float
    bf16_ops: float
    link_bytes_s: float
    usd_per_hour: Map[float] = Field(default_factory=dict)

    def peak(self, precision: Precision) -> float:
        """Operations per second of matrix units fed in `precision`; INT4 weights are multiplied in BF16."""
        if precision == "fp4":
            return self.fp4_ops or self.fp8_ops
        return self.fp8_ops if precision == "fp8" else self.bf16_ops


@cache
def document(name: str) -> Any:
    """A YAML document shipped in this package."""
    import yaml

    return yaml.safe_load(resources.files(__package__).joinpath(name).read_text(encoding="utf-8"))


@cache
def catalogue() -> dict[str, Hardware]:
    """Every accelerator of the shipped table."""
    return {name: Hardware(name=name, **entry) for name, entry in document("hardware.yaml")["accelerators"].items()}


def hardware(name: str) -> Hardware:
    """One accelerator by name; a trailing `-twin` names the same silicon. Raises UserError when unknown."""
    key = name.lower().removesuffix("-twin")
    if key not in catalogue():
        raise UserError(f"no figures for accelerator {name!r}; known: {', '.join(sorted(catalogue()))}")
    return catalogue()[key]
