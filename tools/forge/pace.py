"""How fast a forge may be asked: one request after the other, writes a second apart, and its own word obeyed.

GitHub's rules (docs.github.com, "Best practices for using the REST API"): serial requests, at least one second between
writes; after 403 or 429 wait for `retry-after`, else until `x-ratelimit-reset`, else a minute.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from day0.runs.errors import Infrastructure
from day0.sandboxes.base import Clock

BETWEEN_WRITES_S = 1.0
UNSAID_S = 60.0
"""to wait where a forge says that there was too much but not until when"""
LONGEST_S = 900.0
"""a longer wait is a person's decision: the same command may simply be given again later"""
TRIES = 4
T = TypeVar("T")


class Pace:
    """One per forge and process; `clock` is wall time."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._written: float | None = None

    def write(self) -> None:
        """Call before a write: waits until a second has passed since the last one ended. Raises `Cancelled`."""
        if self._written is not None:
            left = self._written + BETWEEN_WRITES_S - self.clock.now()
            if left > 0:
                self.clock.sleep(left)

    def written(self) -> None:
        """Call after a write, whether it succeeded or not."""
        self._written = self.clock.now()

    def patiently(self, ask: Callable[[], T], wait_of: Callable[[T], float | None]) -> T:
        """The answer of `ask`, asked again after as long as `wait_of` says (None: it is an answer).

        Raises `Infrastructure` when the wait is too long or there is no end of it, `Cancelled`.
        """
        for _ in range(TRIES):
            answer = ask()
            wait_s = wait_of(answer)
            if wait_s is None:
                return answer
            if wait_s > LONGEST_S:
                raise Infrastructure(f"the forge asks to wait for {wait_s:.0f} s: run it again later")
            self.clock.sleep(wait_s)
        raise Infrastructure("the forge went on asking to wait: run it again later")


def asked_to_wait(status: int, headers: Mapping[str, str], body: str, now: float) -> float | None:
    """Seconds that an answer asks to wait for; None: it does not. `now` in seconds since the epoch."""
    spent = headers.get("x-ratelimit-remaining") == "0"
    limited = status == 403 and ("retry-after" in headers or spent or "rate limit" in body.lower())
    if not limited and status != 429:
        return None
    told = _number(headers.get("retry-after"))
    if told is not None:
        return max(told, 0.0)
    reset = _number(headers.get("x-ratelimit-reset")) if spent else None
    return UNSAID_S if reset is None else max(reset - now, 0.0) + 1.0


def _number(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return None


__all__ = ["Pace", "asked_to_wait"]
