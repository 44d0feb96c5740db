"""How fast the serving cores are while they serve: a fixed sum, timed again and again. Runs in the harness environment.

It is confined to the server's cores by whoever starts it, and costs them about half a per cent. Each line is the
processor time of one sum in microseconds: what the server itself uses of the core is not in it, a core that is slower
than it was (another tenant of the machine, heat, a power limit) is.
"""

from __future__ import annotations

import time

EVERY_S = 0.2
TERMS, FIRST = 9_000, 2_000
"""of the sum: about half a millisecond; before it is timed, some terms bring its code back into the caches"""


def work(terms: int) -> int:
    """Nothing but arithmetic: neither memory nor other cores matter."""
    total = 0
    for n in range(terms):
        total += n * n
    return total


def main() -> None:
    """Until it is stopped."""
    while True:
        time.sleep(EVERY_S)
        work(FIRST)
        start = time.thread_time_ns()
        work(TERMS)
        print((time.thread_time_ns() - start) // 1000, flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
