"""Prints which test proves which scenario line, then runs those tests (`--list`: only prints)."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LINES = 78


def proofs() -> dict[int, list[str]]:
    """Scenario number -> node IDs of the tests that carry it in their name (`test_s07_…`, `test_s03_s04_…`)."""
    found: dict[int, list[str]] = defaultdict(list)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for match in re.finditer(r"def (test_(?:s\d\d_)+\w+)\(", path.read_text()):
            for number in re.findall(r"s(\d\d)_", match[1]):
                found[int(number)].append(f"{path.relative_to(ROOT)}::{match[1]}")
    return found


def main() -> int:
    """Exit code of pytest over all proofs."""
    found = proofs()
    for number in range(1, LINES + 1):
        tests = found.get(number, [])
        sys.stdout.write(f"S{number:02d}  {'  '.join(tests) if tests else '-'}\n")
    sys.stdout.write(f"{len(found)} of {LINES} lines have a test\n")
    if "--list" in sys.argv:
        return 0
    nodes = sorted({test for tests in found.values() for test in tests})
    return subprocess.call([sys.executable, "-m", "pytest", "-q", "--timeout", "600", *nodes], cwd=ROOT)


if __name__ == "__main__":
    raise SystemExit(main())
