"""SIGTERM and SIGHUP end work as Ctrl-C does: by an exception in the main thread, so that servers are stopped."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def as_interrupt() -> Iterator[None]:
    """Within the block both raise `KeyboardInterrupt`. Only the main thread can ask so; elsewhere nothing changes."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {}
    try:
        for number in (signal.SIGTERM, signal.SIGHUP):
            before[number] = signal.signal(number, stop)
    except ValueError:
        before.clear()
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
