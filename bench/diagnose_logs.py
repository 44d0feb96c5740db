"""How many failure logs `day0 diagnose` puts into the right class: prints each miss, the score, and the time for 10 MB.

usage: python bench/diagnose_logs.py FILE...

A file holds logs one after another; the line `=== CLASS` begins each, and lines before the first one are comment.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

from day0.tools.diagnose import diagnose

NOISE = "[2026-11-30 18:{:02}:{:02} TP0] Decode batch, #running-req: {}, #token: {}, token usage: 0.1, #queue-req: 0\n"


def cases(text: str) -> Iterator[tuple[str, str]]:
    """Pairs of class and log."""
    for part in ("\n" + text).split("\n=== ")[1:]:
        wanted, _, log = part.partition("\n")
        yield wanted.strip(), log + "\n"


def main(names: list[str]) -> int:
    """See above; ends with 1 where fewer than 80 % are right."""
    enough = True
    for name in names:
        right, found = 0, list(cases(Path(name).read_text()))
        for number, (wanted, log) in enumerate(found, 1):
            got = diagnose(log.encode())
            right += got.failure == wanted
            if got.failure != wanted:
                sys.stdout.write(
                    f"{number}: {wanted}, not {got.failure} by {got.form or got.issue}: {got.evidence[:150]}\n"
                )
        sys.stdout.write(f"{name}: {right} of {len(found)} right ({right / len(found):.0%})\n")
        enough = enough and right >= 0.8 * len(found)
    log = "".join(NOISE.format(n // 60 % 60, n % 60, n % 513, n * 37) for n in range(95_000)).encode()
    started = time.perf_counter()
    diagnose([log[at : at + (1 << 20)] for at in range(0, len(log), 1 << 20)])
    sys.stdout.write(f"{len(log) / 1e6:.1f} MB of log in {time.perf_counter() - started:.2f} s\n")
    return 0 if enough else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
