"""Virtual time: a queue of events, run in order of (time, number), so that equal inputs give equal histories."""

from __future__ import annotations

import heapq
from collections.abc import Callable

Action = Callable[[], None]
CHECK_S = 1.0
"""Virtual seconds between two looks at the cancel token."""


class Event:
    """Something that will happen; `drop` makes it not happen."""

    __slots__ = ("action", "dropped")

    def __init__(self, action: Action) -> None:
        self.action, self.dropped = action, False

    def drop(self) -> None:
        """Takes the event out of the queue. Harmless when it already happened."""
        self.dropped = True


class Kernel:
    """The clock and the queue. Time moves only inside `run`."""

    def __init__(self, start: float = 0.0) -> None:
        self.now = start
        self._queue: list[tuple[float, int, Event]] = []
        self._number = 0

    def after(self, seconds: float, action: Action) -> Event:
        """Runs `action` in `seconds` of virtual time (0: next, after what is already due now)."""
        self._number += 1
        event = Event(action)
        heapq.heappush(self._queue, (self.now + max(0.0, seconds), self._number, event))
        return event

    def run(self, until: float, done: Callable[[], bool], check: Action) -> bool:
        """Lets time pass until `done()`, at most to `until`; whether it was done.

        `check` is called at the start and once per virtual second, and may raise to stop the work there.
        """
        check()
        checked = self.now
        while not done():
            due = self._due()
            step = min(until, checked + CHECK_S)
            if due is not None and due <= step:
                _, _, event = heapq.heappop(self._queue)
                self.now = max(self.now, due)
                event.action()
            elif step >= until:
                self.now = max(self.now, until)
                return done()
            else:
                self.now = checked = step
                check()
        return True

    def _due(self) -> float | None:
        while self._queue and self._queue[0][2].dropped:
            heapq.heappop(self._queue)
        return self._queue[0][0] if self._queue else None
