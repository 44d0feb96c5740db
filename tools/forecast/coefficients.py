"""The shipped coefficients and priors, with where they come from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache

from day0.runs.values import Frozen, Map
from day0.tools.forecast.hardware import document
from pydantic import Field

Quantiles = tuple[float, float]
"""Of ln(predicted / measured): 10 % and 90 %."""


class Provenance(Frozen):
    """Where fitted values come from."""

    source: str = Field(description="public sources of the rows")
    sha256: str = Field(description="of the table that was fitted")
    rows: int = Field(description="rows used: newest stack per configuration, no duplicates")
    families: tuple[str, ...]
    accelerators: tuple[str, ...]
    engines: tuple[str, ...]


class AnchorRules(Frozen):
    """Spread of ln(predicted / measured), as standard deviations, by what two points share."""

    model: float = Field(description="same model on the same accelerator")
    layout: float = Field(description="same layout besides")
    load: float = Field(description="slope per factor of 8 in load")
    wave: float = Field(description="what varies over a factor of e^1.5 in lengths or 8 in load")
    noise: float = Field(description="repeat of one point")


class Coefficients(Frozen):
    """Values by name (natural logarithms, `d_` differences), intervals per kind of load, and provenance."""

    values: Map[float]
    intervals: Map[Quantiles] = Field(description="`closed` and `agentic`: from families left out of the fit")
    level_spread: float = Field(description="standard deviation of a new family's common level")
    anchor: AnchorRules
    zero_shot: Map[float] = Field(description="median and 90th percentile of |error| with the family left out")
    provenance: Provenance


class Prior(Frozen):
    """One assumption: value in its own unit, standard deviation of the logarithm, and why."""

    value: float
    spread: float = Field(gt=0)
    why: str = ""


@cache
def shipped() -> Coefficients:
    """The coefficients in the package."""
    text = {k: v for k, v in document("coefficients.yaml").items() if k != "schema"}
    text["values"] = to_logs(text["values"])
    return Coefficients.model_validate(text)


@cache
def priors() -> Mapping[str, Prior]:
    """Every coefficient's prior."""
    return {name: Prior.model_validate(entry) for name, entry in document("priors.yaml")["priors"].items()}


def to_logs(values: Mapping[str, float]) -> dict[str, float]:
    """Values in their own units as the formulas take them: logarithms, differences as they are."""
    return {k: float(v) if k.startswith("d_") else math.log(v) for k, v in values.items()}


def from_logs(values: Mapping[str, float]) -> dict[str, float]:
    """The inverse of `to_logs`, to four figures."""
    return {k: float(f"{v if k.startswith('d_') else math.exp(v):.4g}") for k, v in values.items()}
