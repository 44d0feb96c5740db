"""Fits the coefficients to a table of measured points: `python -m day0.tools.forecast.fit POINTS.csv [OUT.yaml]`.

Deterministic: the same table and priors give the same file. About three minutes on one core, most of it for the fits
that leave one family out, from which the intervals come.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from day0.tools.forecast.against import read_rows
from day0.tools.forecast.coefficients import AnchorRules, Coefficients, Provenance, from_logs, priors
from day0.tools.forecast.mixed import fit
from day0.tools.forecast.names import Names
from day0.tools.forecast.score import LeftOut, leave_families_out, quantiles
from day0.tools.forecast.stacks import Measured, newest

ANCHOR = AnchorRules(model=0.25, layout=0.4, load=0.25, wave=0.15, noise=0.03)
SOURCE = (
    "InferenceX dashboard, fixtures and articles; SGLang cookbook; aiter, llm-d and SGLang pull requests; "
    "published agentic replays on MI355X and B200 (2025-10 to 2026-07)"
)


def fitted(rows: Sequence[Measured], digest: str) -> tuple[Coefficients, LeftOut]:
    """Coefficients of the rows with intervals from left-out families, and those fits."""
    assumed = priors()
    values, z = fit(rows, assumed)
    left = leave_families_out(rows, assumed, z)
    error = np.abs(np.expm1(left.errors))
    family = np.array([m.point.family for m in rows])
    levels = [float(np.median(left.errors[family == f])) for f in sorted(set(family.tolist()))]
    provenance = Provenance(
        source=SOURCE, sha256=digest, rows=len(rows), families=tuple(sorted({m.point.family for m in rows})),
        accelerators=tuple(sorted({m.point.hardware.name for m in rows})),
        engines=tuple(sorted({m.point.engine for m in rows if m.point.engine})),
    )  # fmt: skip
    coefficients = Coefficients(
        values=values, intervals=quantiles(rows, left.errors), level_spread=float(np.std(levels)), anchor=ANCHOR,
        zero_shot={"median": float(np.median(error)), "p90": float(np.quantile(error, 0.9))}, provenance=provenance,
    )  # fmt: skip
    return coefficients, left


def document(coefficients: Coefficients) -> str:
    """The shipped file."""
    data: dict[str, Any] = coefficients.model_dump(mode="json")
    data["values"] = from_logs(coefficients.values)
    for part in ("zero_shot", "intervals"):
        data[part] = {k: _short(v) for k, v in data[part].items()}
    data["level_spread"] = _short(data["level_spread"])
    head = (
        "# Written by `python -m day0.tools.forecast.fit`; values in their own units, see priors.yaml for meanings.\n"
    )
    return head + yaml.safe_dump({"schema": "day0/forecast/v1", **data}, sort_keys=False, width=110)


def _short(value: Any) -> Any:
    return [_short(v) for v in value] if isinstance(value, (list, tuple)) else float(f"{value:.4g}")


def main(arguments: Sequence[str]) -> int:
    """Reads POINTS.csv, writes the coefficients to OUT.yaml (default: into the package)."""
    if not 1 <= len(arguments) <= 2:
        sys.stderr.write("usage: python -m day0.tools.forecast.fit POINTS.csv [OUT.yaml]\n")
        return 2
    table = Path(arguments[0])
    out = Path(arguments[1]) if len(arguments) == 2 else Path(__file__).with_name("coefficients.yaml")
    rows = newest(read_rows(table), Names())
    coefficients, _ = fitted(rows, hashlib.sha256(table.read_bytes()).hexdigest())
    out.write_text(document(coefficients), encoding="utf-8")
    sys.stdout.write(f"{out}: {len(rows)} rows, left out {coefficients.zero_shot}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
