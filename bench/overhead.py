"""What the command line costs to start, and what orchestration cost in the newest runs: printed, never asserted."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

STARTS = 11
TARGETS = {"help_s": 0.3, "orchestration": 0.01}


def help_seconds() -> list[float]:
    """Wall seconds of `day0 --help`, one value a start; the first, which may find cold files, is dropped."""
    day0 = str(Path(sys.executable).parent / "day0")
    found = []
    for _ in range(STARTS + 1):
        start = time.perf_counter()
        subprocess.run([day0, "--help"], check=True, capture_output=True)
        found.append(time.perf_counter() - start)
    return found[1:]


def orchestration(limit: int = 20) -> list[tuple[str, float, float]]:
    """(run, wall seconds, share that was not spent inside node calls) of the newest runs in this ledger."""
    from day0.agent.settings import load
    from day0.runs.ledger import Ledger

    ledger = Ledger.open(load().database)
    try:
        rows = []
        for run in ledger.runs(limit=limit):
            for event in ledger.facts(run.id, "overhead"):
                wall, inside = float(event.data["wall_s"]), float(event.data["inside_s"])
                rows.append((run.id, wall, (wall - inside) / wall))
        return rows
    finally:
        ledger.close()


def main() -> None:
    """Prints both figures beside their targets."""
    seconds = help_seconds()
    middle, most = statistics.median(seconds), max(seconds)
    sys.stdout.write(f"day0 --help: median {middle:.3f} s, slowest {most:.3f} s (target {TARGETS['help_s']} s)\n")
    rows = orchestration()
    for run, wall, share in rows:
        sys.stdout.write(
            f"orchestration of {run}: {share:.2%} of {wall:.0f} s (target {TARGETS['orchestration']:.0%})\n"
        )
    if not rows:
        sys.stdout.write("orchestration: no finished run in this ledger; `make run-cpu-quick` makes one\n")


if __name__ == "__main__":
    main()
