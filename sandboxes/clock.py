"""Node time on a real machine."""

from __future__ import annotations

import time

from day0.runs.errors import Cancelled
from day0.sandboxes.spec import CancelToken

SLICE_S = 0.2
"""How long anything here blocks before it looks at the cancel token."""

CANCELLED_GRACE_S = 3.0
"""Who cancels wants the node back within seconds: the grace of a stop is cut to this."""


class WallClock:
    """Wall time that never jumps: the start is taken from the calendar, the rest from the monotonic clock."""

    def __init__(self, cancel: CancelToken) -> None:
        self.cancel = cancel
        self._base = time.time() - time.monotonic()

    def now(self) -> float:
        """Seconds since the epoch."""
        return self._base + time.monotonic()

    def check(self) -> None:
        """Raises `Cancelled` when the token says so."""
        if self.cancel():
            raise Cancelled("cancelled")

    def sleep(self, seconds: float) -> None:
        """Raises `Cancelled` within a slice."""
        end = time.monotonic() + seconds
        self.check()
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(left, SLICE_S))
            self.check()
