"""Scores the forecast on a table of measured points: `python bench/forecast_eval.py POINTS.csv`.

(a) zero-shot with each family left out, (b) the rest of a layout after three load points, (c) the layout ranked first
against the best measured. One row per configuration, of its newest stack. Deterministic; about two minutes.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from day0.tools.forecast.against import read_rows
from day0.tools.forecast.bound import requests_bound
from day0.tools.forecast.coefficients import Coefficients
from day0.tools.forecast.fit import fitted
from day0.tools.forecast.names import Names
from day0.tools.forecast.score import LeftOut, anchored_errors, held, ranking_losses
from day0.tools.forecast.stacks import Measured, newest

GOALS = {
    "a": "median <= 20 %, intervals hold 70-90 %",
    "b": "median <= 4 %, p90 <= 15 %",
    "c": "median <= 2 %, p90 <= 15 %",
}


def say(text: str = "") -> None:
    """One line of the report."""
    sys.stdout.write(text + "\n")


def quantile_line(errors: np.ndarray) -> str:
    """Median and 90th percentile, with the count."""
    return f"median {np.median(errors):6.1%}  p90 {np.quantile(errors, 0.9):6.1%}  n {len(errors)}"


def zero_shot(rows: Sequence[Measured], left: LeftOut) -> None:
    """(a), by kind of load, accelerator and family, and the rows that miss by more than half."""
    errors = np.abs(np.expm1(left.errors))
    inside = held(rows, left.errors)
    say(f"(a) zero-shot, goal {GOALS['a']}: {quantile_line(errors)}  80 % intervals hold {inside.mean():.1%}")
    groups: dict[str, list[int]] = defaultdict(list)
    for i, m in enumerate(rows):
        load = "agent sessions" if m.point.agentic else "closed loop"
        groups[load].append(i)
        groups[f"{m.point.hardware.name}, {load}"].append(i)
        groups[f"{m.point.family} on {m.point.hardware.name}/{m.point.engine or '?'}, {load}"].append(i)
    for name, members in sorted(groups.items()):
        bias = np.exp(np.median(left.errors[members])) - 1
        say(f"    {name:62s} {quantile_line(errors[members])}  bias {bias:+.0%}  held {inside[members].mean():.0%}")
    say("    misses beyond 50 %, by layout:")
    bad: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for i in np.flatnonzero(errors > 0.5):
        p = rows[i].point
        bad[p.family, p.hardware.name, p.engine, p.precision, f"TP{p.tp}", "MTP" if p.speculation else "-",
            "agents" if p.agentic else "closed"].append(int(i))  # fmt: skip
    for key, members in sorted(bad.items(), key=lambda item: -len(item[1])):
        factor = np.exp(np.median(left.errors[members]))
        say(f"      {len(members):3d} rows {' '.join(map(str, key))}: predicted {factor:.2f} x measured")


def anchored(rows: Sequence[Measured], left: LeftOut, coefficients: Coefficients) -> None:
    """(b), with the three points that day0 chooses, and with the three lowest loads."""
    for choose in ("spread", "first"):
        errors, rest = anchored_errors(rows, left, coefficients, choose)
        goal = f", goal {GOALS['b']}" if choose == "spread" else " (extrapolating from the three lowest loads)"
        say(f"(b) after three points{goal}: {quantile_line(errors)}")
        if choose == "spread":
            for i in np.argsort(-errors)[:12]:
                p, row = rest[i].point, rest[i].row
                layout = f"{p.family} {p.hardware.name} {p.engine} {p.precision} TP{p.tp} EP{p.ep}"
                how = f"{'MTP ' if p.speculation else ''}{row['isl']}/{row['osl']} at {p.concurrency:.0f}"
                say(f"      {errors[i]:5.0%} {layout} {how}")


def ranked(rows: Sequence[Measured], left: LeftOut) -> None:
    """(c), over all layouts of a model and engine, and at one precision."""
    for same in (False, True):
        found = ranking_losses(rows, left.errors, same_precision=same)
        losses = np.array([f["loss"] for f in found])
        say(f"(c) ranked first{' at one precision' if same else ''}, goal {GOALS['c']}: {quantile_line(losses)}")
        worst: dict[tuple[object, ...], list[float]] = defaultdict(list)
        for f in found:
            if f["loss"] > 0.15:
                worst[(*f["where"][:3], "chose", f["chosen"], "best", f["best"])].append(f["loss"])
        for key, lost in sorted(worst.items(), key=lambda item: -max(item[1])) if not same else ():
            say(f"      {len(lost)} x up to {max(lost):.0%}: {' '.join(map(str, key))}")


def main(arguments: Sequence[str]) -> int:
    """Prints the report of one table."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python bench/forecast_eval.py POINTS.csv\n")
        return 2
    rows = newest(read_rows(Path(arguments[0])), Names())
    coefficients, left = fitted(rows, "")
    zero_shot(rows, left)
    anchored(rows, left, coefficients)
    ranked(rows, left)
    over = [m for m in rows if m.per_gpu > requests_bound(m.point) * m.tokens / m.gpus]
    say(f"rows above the hardware bound: {len(over)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
