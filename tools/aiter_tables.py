"""aiter's tables of tuned fused expert kernels: reading both headers, validating what a tuner wrote, merging, coverage.

A table that an environment variable names replaces what the image ships, and a key that stands twice stops the engine:
so a table that leaves this module holds the image's rows too, each key once, the fastest row of it, under the current
header.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite

from day0.tools.aiter_shapes import UNITS, UNTUNED_HEADER, Shape

HEADER = (
    "gfx,cu_num,token,model_dim,inter_dim,expert,topk,act_type,dtype,q_dtype_a,q_dtype_w,q_type,use_g1u1,"
    "doweight_stage1,block_m,ksplit,us1,kernelName1,err1,us2,kernelName2,err2,us,run_1stage,xbf16,flat,tflops,bw,_tag"
)
LEGACY_LACKS = frozenset({"gfx", "xbf16", "flat"})
"""Columns that tables of older aiter releases do not have; the accelerator follows from the compute units there."""
ARCH_OF = {**{units: arch for arch, units in UNITS.items()}, 80: "gfx942"}
NEEDED = frozenset({"cu_num", *UNTUNED_HEADER.split(","), "us", "kernelName1"})
MAX_ERROR = 0.5
"""Share of wrong elements above which a tuner's row is not taken; its own default."""
MAX_BYTES, MAX_ROWS = 32 << 20, 200_000
_BOOLS = {"True": "1", "False": "0", "true": "1", "false": "0"}

Row = dict[str, str]
Key = tuple[str, ...]


@dataclass(frozen=True)
class Validated:
    """Rows that may serve, and how many were left out, by reason."""

    rows: tuple[Row, ...]
    dropped: Mapping[str, int] = field(default_factory=dict)


def rows(text: str) -> list[Row]:
    """Rows of a table under either header, in the current one's columns and any more that this build has.

    Raises `ValueError` for a header without a key, a time or a kernel.
    """
    lines = text[:MAX_BYTES].lstrip("\ufeff")
    reader = csv.DictReader(io.StringIO(lines))
    columns = [name.strip() for name in reader.fieldnames or () if name]
    reader.fieldnames = columns
    all_columns = list(dict.fromkeys((*HEADER.split(","), *columns)))
    if missing := NEEDED - set(columns):
        raise ValueError(f"the table lacks the columns {', '.join(sorted(missing))}")
    found = []
    for number, read in enumerate(reader):
        if number >= MAX_ROWS:
            break
        found.append({name: str(read.get(name) or "").strip() for name in all_columns})
    return found


def key(row: Row) -> Key:
    """(accelerator, compute units, shape...) of a row; booleans are written in both ways."""
    arch = row["gfx"] or _arch(row["cu_num"])
    return (arch, row["cu_num"], *(_BOOLS.get(row[n], row[n]) for n in UNTUNED_HEADER.split(",")))


def _arch(units: str) -> str:
    return ARCH_OF.get(int(units), "") if units.isdigit() else ""


def _number(text: str) -> float | None:
    try:
        value = float(text.rstrip("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        return None
    return value if isfinite(value) else None


def wrong(row: Row) -> str:
    """Why a tuned row may not serve; empty: it may."""
    time = _number(row["us"])
    if time is None or time <= 0:
        return "no positive time"
    if not row["kernelName1"]:
        return "no kernel"
    if not all(row[name].isdigit() and int(row[name]) > 0 for name in UNTUNED_HEADER.split(",")[:5]):
        return "a damaged key"
    for name in ("err1", "err2"):
        error = _number(row[name]) if row[name] else 0.0
        if error is None or not 0 <= error <= MAX_ERROR:
            return f"an error ratio above {MAX_ERROR:g}"
    return ""


def validated(text: str, wanted: Sequence[Shape], *, arch: str) -> Validated:
    """What of a tuner's output may serve: the wanted shapes on this accelerator, the fastest row of each.

    Raises `ValueError` for what is no table.
    """
    shapes = {shape.key() for shape in wanted}
    dropped: dict[str, int] = {}
    best: dict[Key, Row] = {}
    for row in rows(text):
        reason, mine = wrong(row), key(row)
        if not reason and mine[0] != arch:
            reason = "another accelerator"
        if not reason and mine[2:] not in shapes:
            reason = "a shape nobody asked for"
        if not reason and mine in best:
            reason = "a slower row of the same key"
            best[mine] = min(best[mine], row, key=_time)
        if reason:
            dropped[reason] = dropped.get(reason, 0) + 1
        else:
            best[mine] = row
    return Validated(tuple(best.values()), dropped)


def _time(row: Row) -> float:
    time = _number(row["us"])
    return time if time is not None and time > 0 else float("inf")


def merged(texts: Iterable[str]) -> str:
    """All rows of several tables under the current header, each key once, the fastest row of it, sorted by key.

    Rows of other accelerators stay. Raises `ValueError` for what is no table.
    """
    best: dict[Key, Row] = {}
    for text in texts:
        for row in rows(text):
            mine = key(row)
            if mine not in best or _time(row) < _time(best[mine]):
                best[mine] = {**row, "gfx": mine[0]}
    return written(best[k] for k in sorted(best, key=_order))


def _order(mine: Key) -> tuple[tuple[int, str], ...]:
    return tuple((int(part), "") if part.isdigit() else (-1, part) for part in (*mine[:2], *mine[3:], mine[2]))


def written(made: Iterable[Row]) -> str:
    """A table under the current header, with the further columns that its rows have."""
    out, kept = io.StringIO(), list(made)
    columns = dict.fromkeys((*HEADER.split(","), *(name for row in kept for name in row)))
    writer = csv.DictWriter(out, list(columns), restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(kept)
    return out.getvalue()


def coverage(shapes: Sequence[Shape], texts: Iterable[str], *, arch: str) -> float:
    """Share of the shapes, 0 to 1, for which the tables together have a row on this accelerator; 1 for no shapes."""
    have = {key(row)[2:] for text in texts for row in rows(text) if key(row)[0] == arch}
    return sum(shape.key() in have for shape in shapes) / len(shapes) if shapes else 1.0
