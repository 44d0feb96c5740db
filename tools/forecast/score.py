"""How far the forecast can be trusted: each family left out, anchored layouts, and the layout ranked first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from day0.tools.forecast.coefficients import Coefficients, Prior, Quantiles
from day0.tools.forecast.estimate import Anchor, Forecaster
from day0.tools.forecast.layouts import risk
from day0.tools.forecast.mixed import Table, fit
from day0.tools.forecast.stacks import Measured, layout

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]


@dataclass(frozen=True)
class LeftOut:
    """Errors ln(predicted / measured) of every row, its family unknown to the fit; coefficients by family."""

    errors: Array
    values: Mapping[str, Mapping[str, float]]


def leave_families_out(rows: Sequence[Measured], priors: Mapping[str, Prior], start: Array) -> LeftOut:
    """Fits once per family without its rows."""
    table = Table(rows)
    errors = np.zeros(len(rows))
    values = {}
    for family in sorted(set(table.family.tolist())):
        mine = table.family == family
        kept = [row for row, out in zip(rows, mine, strict=True) if not out]
        values[family], _ = fit(kept, priors, start, (12, 10))
        errors[mine] = table.errors(values[family])[0][mine]
    return LeftOut(errors, values)


def quantiles(rows: Sequence[Measured], errors: Array, without: str | None = None) -> dict[str, Quantiles]:
    """10 % and 90 % of the errors per kind of load, large families counting by the root of their size."""
    family = np.array([m.point.family for m in rows])
    agentic = np.array([m.point.agentic for m in rows])
    out = {}
    for kind, flag in (("closed", False), ("agentic", True)):
        take = (agentic == flag) & (family != without)
        if not take.any():  # no such load among the rows: the other kind is the better guess than none
            take = family != without
        weight = np.array([1.0 / np.sqrt(np.sum(take & (family == f))) for f in family[take]])
        order = np.argsort(errors[take])
        share = np.cumsum(weight[order]) / weight.sum()
        ends = [float(errors[take][order][np.searchsorted(share, q)]) for q in (0.1, 0.9)]
        out[kind] = (ends[0], ends[1])
    return out


def held(rows: Sequence[Measured], errors: Array) -> NDArray[np.bool_]:
    """Whether each row lies in the 80 % interval that the other families' errors give."""
    ends = {f: quantiles(rows, errors, f) for f in sorted({m.point.family for m in rows})}
    inside = []
    for row, error in zip(rows, errors, strict=True):
        low, high = ends[row.point.family]["agentic" if row.point.agentic else "closed"]
        inside.append(low <= error <= high)
    return np.array(inside)


def anchored_errors(
    rows: Sequence[Measured], left: LeftOut, coefficients: Coefficients, choose: str = "spread"
) -> tuple[Array, list[Measured]]:
    """|error| of the rest of each layout (same lengths) after three load points: lowest, middle and highest load.

    `choose` = `first` takes the three lowest loads instead, which leaves the rest to extrapolation.
    """
    groups: dict[tuple[object, ...], list[Measured]] = defaultdict(list)
    for m in rows:
        if not m.point.agentic:
            groups[(*layout(m.point), m.row.get("isl"), m.row.get("osl"), m.kind)].append(m)
    errors: list[float] = []
    rest: list[Measured] = []
    for group in groups.values():
        if len(group) < 4:
            continue
        ordered = sorted(group, key=lambda m: m.point.concurrency or 0.0)
        picks = (0, len(ordered) // 2, len(ordered) - 1) if choose == "spread" else (0, 1, 2)
        blind = coefficients.model_copy(update={"values": left.values[ordered[0].point.family]})
        taught = Forecaster(blind, [_anchor(ordered[i]) for i in picks])
        others = [m for i, m in enumerate(ordered) if i not in picks]
        for m, e in zip(others, taught.predict([m.point for m in others]), strict=True):
            errors.append(abs(_of_kind(m, e.requests_s) / m.per_gpu - 1.0))
            rest.append(m)
    return np.array(errors), rest


def _of_kind(m: Measured, requests: float) -> float:
    return requests * m.tokens / m.gpus


def _anchor(m: Measured) -> Anchor:
    per_gpu = m.per_gpu * m.gpus / m.point.gpus
    return Anchor(point=m.point, tok_s_per_gpu=per_gpu, total=m.kind != "output")


def ranking_losses(rows: Sequence[Measured], errors: Array, *, same_precision: bool) -> list[dict[str, Any]]:
    """For each model, engine, lengths and load: how much the layout ranked first loses against the best measured."""
    groups: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for i, m in enumerate(rows):
        p = m.point
        if not p.agentic:
            key: tuple[object, ...] = (
                p.family,
                p.hardware.name,
                p.engine,
                m.row.get("isl"),
                m.row.get("osl"),
                p.concurrency,
                m.kind,
            )
            groups[(*key, p.precision) if same_precision else key].append(i)
    out = []
    for key, members in groups.items():
        if len({layout(rows[i].point) for i in members}) < 2:
            continue
        expected = [np.log(rows[i].per_gpu) + errors[i] - risk(rows[i].point) for i in members]
        chosen, best = members[int(np.argmax(expected))], max(members, key=lambda i: rows[i].per_gpu)
        out.append({"where": key, "loss": 1.0 - rows[chosen].per_gpu / rows[best].per_gpu,
                    "chosen": layout(rows[chosen].point)[3:9], "best": layout(rows[best].point)[3:9]})  # fmt: skip
    return out
