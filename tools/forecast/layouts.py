"""The layouts of a node: which fit, how fast each is expected to be, and in which order to try them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from day0.runs.geometry import Geometry, Precision
from day0.runs.values import Frozen
from day0.runs.workload import Workload
from day0.tools.forecast.estimate import Forecaster
from day0.tools.forecast.hardware import Hardware
from day0.tools.forecast.knee import ExpectedKnee, knees, point_under
from day0.tools.forecast.point import Point, memory, running_cap
from pydantic import Field

SPECULATION_RISK = 0.1
"""Discount (ln) on speculation when layouts are ranked: its gain hangs on the acceptance of a text not yet seen."""


class Layout(Frozen):
    """One way to put a model on a node. Bytes per accelerator; throughputs of the whole node."""

    name: str
    tp: int
    dp: int
    ep: int
    attention_dp: bool
    precision: Precision
    speculation: bool
    fits: bool
    why: str = Field(default="", description="why it does not fit or can't hold the limits; empty where it does")
    weight_bytes: float
    kv_tokens: float = Field(description="tokens of cache over all replicas and attention groups")
    running_cap: float = 0.0
    capped_by: str = ""
    knee: ExpectedKnee | None = None
    node_output_tok_s: float = 0.0
    low: float = Field(default=0.0, description="80 % interval of node_output_tok_s")
    high: float = 0.0
    usd_per_mtok: float | None = None


def risk(point: Point) -> float:
    """What a layout loses in the ranking for what is not known before it runs."""
    return SPECULATION_RISK if point.speculation else 0.0


def points(
    geometry: Geometry, silicon: Hardware, gpus: int, precisions: Sequence[Precision], *, engine: str = "sglang",
    family: str = "", max_running: int | None = None,
) -> Iterator[Point]:  # fmt: skip
    """Every layout that fills a node of `gpus` accelerators with replicas of one to all of them."""
    for precision in precisions:
        for tp in (n for n in (1, 2, 4, 8, 16) if n <= gpus and gpus % n == 0):
            base = Point(geometry=geometry, hardware=silicon, precision=precision, engine=engine, tp=tp,
                         dp=gpus // tp, family=family, max_running=max_running)  # fmt: skip
            shapes = [base]
            if geometry.experts and tp > 1:
                shapes.append(replace(base, ep=tp))
                if tp == gpus and _latent(geometry):
                    shapes.append(replace(base, ep=tp, dp=tp, attention_dp=True))
            for shape in shapes:
                yield shape
                if geometry.draft_layers:
                    yield replace(shape, speculation=True)


def _latent(geometry: Geometry) -> bool:
    return any(group.absorbed is not None for group in geometry.groups)


def misfit(point: Point, workload: Workload) -> str:
    """Why a layout cannot run, in words; empty when it can."""
    return next(_misfits(point, workload), "")


def _misfits(point: Point, workload: Workload) -> Iterator[str]:
    g, gib = point.geometry, 2**30
    held = memory(point_under(workload, point, 1.0))
    if point.precision == "fp4" and point.hardware.fp4_ops is None:
        yield f"{point.hardware.name} has no FP4 matrix units"
    if g.heads % point.attention_tp:
        yield f"{g.heads} attention heads do not divide by {point.attention_tp}"
    if not _latent(g) and g.kv_heads > point.attention_tp and g.kv_heads % point.attention_tp:
        yield f"{g.kv_heads} KV heads do not divide by {point.attention_tp}"
    if point.ep > 1 and g.experts % point.ep:
        yield f"{g.experts} experts do not divide by {point.ep}"
    if g.experts and point.ep == 1 and g.moe_width % point.tp:
        yield f"expert width {g.moe_width} does not divide by {point.tp}"
    weights = f"weights take {held.weights / gib:.0f} of {held.capacity / gib:.0f} GiB on each accelerator"
    if held.weights > 0.97 * held.capacity:
        yield weights
    longest = workload.input_tokens + workload.output_tokens
    if longest > g.context:
        yield f"a request of {longest} tokens exceeds the context of {g.context}"
    if held.kv_tokens < longest:
        yield f"{weights}, which leaves cache for {max(held.kv_tokens, 0.0):.0f} tokens; a request needs {longest}"


def name_of(point: Point) -> str:
    """`TP4xDP2 EP4 fp4 +MTP`."""
    parts = [f"TP{point.tp}" + (f"xDP{point.dp}" if point.dp > 1 and not point.attention_dp else "")]
    if point.ep > 1:
        parts.append(f"EP{point.ep}")
    if point.attention_dp:
        parts.append(f"attention-DP{point.dp}")
    return " ".join([*parts, point.precision, *(["+MTP"] if point.speculation else [])])


def assess(point: Point, workload: Workload, forecaster: Forecaster, usd_per_hour: float | None = None) -> Layout:
    """One layout: memory first, then its knee under the workload."""
    return ranked([point], workload, forecaster, usd_per_hour)[0]


def ranked(
    candidates: Sequence[Point], workload: Workload, forecaster: Forecaster, usd_per_hour: float | None = None
) -> tuple[Layout, ...]:
    """All layouts, best first by expected output tokens/s of the node; those that do not fit last."""
    whys = [misfit(point, workload) for point in candidates]
    fitting = [point for point, why in zip(candidates, whys, strict=True) if not why]
    found = iter(knees(fitting, workload, forecaster))
    made = []
    for point, why in zip(candidates, whys, strict=True):
        layout = _layout(point, workload, why, None if why else next(found), usd_per_hour)
        worth = math.log(layout.node_output_tok_s) - risk(point) if layout.node_output_tok_s > 0 else -math.inf
        made.append((-worth, layout.name, layout))
    return tuple(layout for _, _, layout in sorted(made, key=lambda item: item[:2]))


def _layout(point: Point, workload: Workload, why: str, found: ExpectedKnee | None, usd: float | None) -> Layout:
    one = point_under(workload, point, 1.0)
    held, (cap, capped_by) = memory(one), running_cap(one)
    tok_s = found.output_tok_s if found else 0.0
    low, high = (found.estimate.low, found.estimate.high) if found else (0.0, 0.0)
    return Layout(
        name=name_of(point), tp=point.tp, dp=point.dp, ep=point.ep, attention_dp=point.attention_dp,
        precision=point.precision, speculation=point.speculation, fits=found is not None,
        why=why or ("" if found else "misses the limits even with one request at a time"),
        weight_bytes=held.weights, kv_tokens=max(held.kv_tokens, 0.0) * point.replicas * point.attention_groups,
        running_cap=cap * point.replicas if found else 0.0, capped_by=capped_by if found else "", knee=found,
        node_output_tok_s=tok_s, low=tok_s * low, high=tok_s * high,
        usd_per_mtok=usd * point.gpus / tok_s / 3600 * 1e6 if usd and tok_s else None,
    )  # fmt: skip
