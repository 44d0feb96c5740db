"""Measured rows without duplicates: one row per configuration, of its newest software stack."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from day0.runs.errors import UserError
from day0.tools.forecast.names import Names
from day0.tools.forecast.point import Point
from day0.tools.forecast.rows import KINDS, Row, Skip, number, point_of, stack_day

SUMMARY = "ix_dbdump_median"
"""The row set whose rows `ix_blog` and `ix_fixture` repeat: of equal dates it counts."""


@dataclass(frozen=True)
class Measured:
    """A row with its point and what was measured: tokens/s per accelerator (in `kind`), TPOT and TTFT in seconds."""

    row: Row
    point: Point
    kind: str
    per_gpu: float
    gpus: float
    tpot: float | None
    ttft: float | None

    @property
    def tokens(self) -> float:
        """Tokens that one request adds to the row's kind of throughput."""
        p = self.point
        return {"output": p.output_tokens, "prefill_input": p.input_tokens}.get(
            self.kind, p.input_tokens + p.output_tokens
        )


def measured(row: Row, names: Names) -> Measured:
    """A row as a measured point. Raises Skip for what is no throughput of a known configuration."""
    point = point_of(row, names)
    kind = str(row.get("tput_kind") or "").strip()
    if kind not in KINDS:
        raise Skip(f"tput_kind is unknown: {kind!r}")
    per_gpu = number(row, "tok_s_per_gpu")
    if per_gpu <= 0:
        raise Skip("tok_s_per_gpu is zero")
    gpus = number(row, "num_gpu", float(point.gpus))
    tpot, ttft = number(row, "tpot_ms", 0.0) / 1e3, number(row, "ttft_p50", 0.0)
    return Measured(row, point, kind, per_gpu, gpus or float(point.gpus), tpot or None, ttft or None)


def newest(rows: Sequence[Row], names: Names) -> list[Measured]:
    """The rows that can be scored, newest stack per configuration; rows that cannot be read are left out.

    Where the newest row publishes no TTFT, the newest of the same configuration that does lends its own.
    """
    best: dict[tuple[object, ...], tuple[tuple[float, bool], Measured]] = {}
    first: dict[tuple[object, ...], tuple[tuple[float, bool], float]] = {}
    for row in rows:
        try:
            found = measured(row, names)
        except (Skip, UserError):
            continue
        if found.point.load != "closed":
            continue
        rank = (stack_day(row) or 0.0, row.get("row_set") == SUMMARY)
        key = configuration(found)
        if key not in best or rank > best[key][0]:
            best[key] = (rank, found)
        if found.ttft is not None and (key not in first or rank > first[key][0]):
            first[key] = (rank, found.ttft)
    return [
        found if found.ttft is not None or key not in first else replace(found, ttft=first[key][1])
        for key, (_, found) in best.items()
    ]


def layout(point: Point) -> tuple[object, ...]:
    """What stays the same over the load points of one boot."""
    return (point.family, point.hardware.name, point.engine, point.precision, point.tp, point.dp, point.ep,
            point.attention_dp, point.speculation, point.offload)  # fmt: skip


def configuration(found: Measured) -> tuple[object, ...]:
    """Layout, lengths and load."""
    p = found.point
    return (*layout(p), p.agentic, found.row.get("isl"), found.row.get("osl"), p.concurrency, found.kind)
