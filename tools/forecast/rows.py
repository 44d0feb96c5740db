"""Rows of a table of measured points as points, and their measured figures."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import date
from typing import Any

from day0.runs.errors import UserError
from day0.runs.geometry import Precision
from day0.tools.forecast.hardware import hardware
from day0.tools.forecast.names import Names
from day0.tools.forecast.point import Load, Point

PRECISIONS: dict[str, Precision] = {
    "bf16": "bf16", "fp16": "bf16", "fp8": "fp8", "fp4": "fp4", "mxfp4": "fp4", "nvfp4": "fp4", "int4": "int4",
}  # fmt: skip

KINDS = ("total_in+out", "output", "total_in+out incl. cached", "prefill_input")

EXACT_LENGTHS = ("sglang_cookbook", "llmd_pr", "sglang_static_batch", "aiter_tuning_pr", "hand")
"""Row sets whose lengths are as written; all others draw uniformly from [0.8 L, L]."""

NEWEST = 505.0
"""Days from 2025-01-01 to 2026-05-21, when most of the newest dated stacks ran."""

Row = Mapping[str, Any]


class Skip(Exception):
    """A row that cannot be predicted; the message says why."""


def number(row: Row, key: str, default: float | None = None) -> float:
    """A finite, non-negative number of a row. Skip when it is absent without a default, or no such number."""
    text = str(row.get(key) if row.get(key) is not None else "").strip()
    if not text:
        if default is None:
            raise Skip(f"{key} is empty")
        return default
    try:
        value = float(text)
    except ValueError:
        raise Skip(f"{key} is not a number: {text[:40]!r}") from None
    if not math.isfinite(value) or value < 0:
        raise Skip(f"{key} is out of range: {text[:40]!r}")
    return value


def whole(row: Row, key: str, default: int | None = None) -> int:
    """A positive whole number of at most 4096."""
    value = number(row, key, None if default is None else float(default))
    if value != int(value) or not 1 <= value <= 4096:
        raise Skip(f"{key} is out of range: {value:g}")
    return int(value)


def point_of(row: Row, names: Names) -> Point:
    """The point that a row describes. Raises Skip."""
    geometry, family = names.find(str(row.get("model") or ""))
    precision = str(row.get("precision") or "").strip().lower()
    if precision not in PRECISIONS:
        raise Skip(f"precision is unknown: {precision[:40]!r}" if precision else "precision is empty")
    spec = str(row.get("spec") or "none").strip().lower()
    if spec == "?":
        raise Skip("spec is unknown: '?'")
    try:
        silicon = hardware(str(row.get("hw") or ""))
    except UserError as error:
        raise Skip(str(error)) from None
    if not str(row.get("tp") or "").strip():
        raise Skip("tp is empty")
    kind = str(row.get("load_kind") or "concurrency").strip()
    load, concurrency, rate = _load(row, kind)
    agentic = "agent" in kind
    exact = agentic or str(row.get("row_set") or "") in EXACT_LENGTHS
    scale = 1.0 if exact else 0.9
    found = re.search(r"synthetic (\d+(?:\.\d+)?)", spec)
    blank = not str(row.get("cache_hit") or "").strip()
    cached = None if blank and agentic else number(row, "cache_hit", 0.0)
    if cached is not None and cached > 1:
        raise Skip(f"cache_hit is out of range: {cached:g}")
    return Point(
        geometry=geometry, family=family, hardware=silicon, precision=PRECISIONS[precision],
        engine=str(row.get("engine") or "").strip().lower(), tp=whole(row, "tp"), dp=whole(row, "dp", 1),
        ep=whole(row, "ep", 1), attention_dp=number(row, "dp_attn", 0.0) > 0,
        speculation=not spec.startswith("none"), acceptance=float(found[1]) if found else None,
        input_tokens=scale * max(number(row, "isl"), 1.0), output_tokens=max(1.0, scale * number(row, "osl")),
        cached=cached, load=load, concurrency=concurrency, rate_rps=rate, agentic=agentic, age=stack_age(row),
        offload=bool(re.search(r"offload=(?!none)\w", str(row.get("notes") or ""))),
    )  # fmt: skip


def _load(row: Row, kind: str) -> tuple[Load, float | None, float | None]:
    text = str(row.get("concurrency_or_rps") or "").strip()
    if kind == "open_loop_rps":
        return "open", None, number({"concurrency_or_rps": text.removesuffix("rps")}, "concurrency_or_rps")
    clients = number({"concurrency_or_rps": text}, "concurrency_or_rps")
    if not 1 <= clients <= 1_000_000:
        raise Skip(f"concurrency_or_rps is out of range: {clients:g}")
    return ("static" if kind == "static_batch" else "closed"), clients, None


def stack_day(row: Row) -> float | None:
    """Days since 2025-01-01 of the row's date; None where it names none."""
    found = re.search(r"(20\d\d)-(\d\d)(?:-(\d\d))?", str(row.get("date") or ""))
    try:
        when = date(int(found[1]), int(found[2]), int(found[3] or 15)) if found else None
    except ValueError:
        return None
    return None if when is None else float((when - date(2025, 1, 1)).days)


def stack_age(row: Row) -> float:
    """Years between the row's software and `NEWEST`; 0 where the row only bounds its date, or names none."""
    day = stack_day(row)
    return 0.0 if day is None or "<=" in str(row.get("date")) else max(0.0, (NEWEST - day) / 365.0)
