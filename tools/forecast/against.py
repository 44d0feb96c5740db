"""Predicts the rows of a table of measured points, in that table's own columns."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from day0.runs.errors import UserError
from day0.tools.forecast.estimate import Estimate, Forecaster
from day0.tools.forecast.names import Names
from day0.tools.forecast.point import Point
from day0.tools.forecast.rows import KINDS, Row, Skip, number, point_of

MAX_BYTES = 64 << 20


def read_rows(file: Path) -> list[dict[str, Any]]:
    """The rows of a CSV file. Raises UserError, one sentence, when it is none."""
    try:
        text = _text(file)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UserError(f"{file} can't be read: {reason}") from None
    try:
        reader = csv.DictReader(text.splitlines(), strict=False)
        header = reader.fieldnames or ()
        if "model" not in header:
            raise UserError(f"{file} has no column `model`; give a table of measured points with a header line")
        return [{k: v for k, v in row.items() if k is not None} for row in reader]
    except csv.Error as error:
        raise UserError(f"{file} can't be read as CSV: {error}") from None


def _text(file: Path) -> str:
    """What a file of a sane size holds; a device or a pipe may have no end."""
    with file.open("rb") as opened:
        data = opened.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise UserError(f"{file} is larger than {MAX_BYTES >> 20} MiB")
    return data.decode("utf-8-sig")


def read_models(file: Path) -> dict[str, Any]:
    """A table of geometries (name -> entry) from a JSON file. Raises UserError, one sentence."""
    try:
        value = json.loads(_text(file))
    except (OSError, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UserError(f"{file} can't be read as JSON: {reason}") from None
    if not isinstance(value, dict):
        raise UserError(f"{file} is no table of models: it must map names to entries")
    inner = value.get("models")
    return inner if isinstance(inner, dict) else value


def against(
    rows: Sequence[Row], models: Mapping[str, Any] | None = None, forecaster: Forecaster | None = None
) -> dict[str, Any]:
    """`{"rows": [...], "summary": {...}}`: each row with its prediction, or with `skipped` and a reason."""
    names = Names(models)
    taken: list[tuple[int, Point, str, float]] = []
    out: list[dict[str, Any]] = [dict(row) for row in rows]
    for i, row in enumerate(rows):
        try:
            point = point_of(row, names)
            kind = str(row.get("tput_kind") or "total_in+out").strip()
            if kind not in KINDS:
                raise Skip(f"tput_kind is unknown: {kind[:40]!r}")
            gpus = number(row, "num_gpu", float(point.gpus)) or float(point.gpus)
        except (Skip, UserError) as error:
            out[i]["skipped"] = str(error)
            continue
        taken.append((i, point, kind, point.gpus / gpus))
    for (i, point, kind, scale), made in zip(taken, _predict(forecaster, [p for _, p, _, _ in taken]), strict=True):
        out[i].update(_columns(point, kind, scale, made))
    return {"rows": out, "summary": summary(out, forecaster or Forecaster())}


def _predict(forecaster: Forecaster | None, points: list[Point]) -> tuple[Estimate, ...]:
    return (forecaster or Forecaster()).predict(points)


def _columns(point: Point, kind: str, scale: float, made: Estimate) -> dict[str, float]:
    per_gpu = {"output": made.output_tok_s, "prefill_input": made.input_tok_s}.get(kind, made.total_tok_s) * scale
    return {
        "pred_tok_s_per_gpu": round(per_gpu, 4),
        "pred_low": round(per_gpu * made.low, 4),
        "pred_high": round(per_gpu * made.high, 4),
        "pred_tpot_ms": round(made.tpot_ms, 4),
        "pred_ttft_p50": round(made.ttft_p50_ms / 1e3, 5),
    }


def summary(rows: Sequence[Mapping[str, Any]], forecaster: Forecaster) -> dict[str, Any]:
    """Counts, reasons for skipping, and the error against what the table says was measured."""
    import numpy as np

    reasons: dict[str, int] = {}
    errors: list[float] = []
    inside = 0
    for row in rows:
        if "skipped" in row:
            reasons[row["skipped"]] = reasons.get(row["skipped"], 0) + 1
            continue
        try:
            true = number(row, "tok_s_per_gpu")
        except Skip:
            continue
        if true > 0:
            errors.append(abs(row["pred_tok_s_per_gpu"] / true - 1.0))
            inside += row["pred_low"] <= true <= row["pred_high"]
    known = forecaster.coefficients.provenance
    return {
        "rows": len(rows),
        "predicted": sum("skipped" not in row for row in rows),
        "skipped": sum(reasons.values()),
        "skipped_reasons": dict(sorted(reasons.items(), key=lambda item: (-item[1], item[0]))),
        "compared": len(errors),
        "median_abs_error": round(float(np.median(errors)), 4) if errors else None,
        "p90_abs_error": round(float(np.quantile(errors, 0.9)), 4) if errors else None,
        "interval": 0.8,
        "interval_holds": round(inside / len(errors), 4) if errors else None,
        "note": "rows of families that were fitted are not zero-shot: " + ", ".join(known.families),
    }
