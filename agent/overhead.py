"""How much of a run's wall time is day0's own: (wall - time inside calls to a node) / wall.

A transparent proxy over `day0.sandboxes.base` times the outermost call of each thread; nested calls are not
counted twice. Reading a file and asking a clock are calls to a node too.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

from day0.sandboxes.base import Node

PARTS = frozenset({"clock", "images"})
"""attributes that are themselves ports of the node"""
WRAPPED = frozenset({"open", "spawn", "http"})
"""methods whose result is itself a part of the node"""


class Meter:
    """Wall seconds since it was made, and those spent inside node calls, over all threads."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._inside = 0.0
        self._lock = threading.Lock()
        self._local = threading.local()

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Counts the time of the block, unless an outer block of this thread already does."""
        if getattr(self._local, "busy", False):
            yield
            return
        self._local.busy, start = True, time.monotonic()
        try:
            yield
        finally:
            self._local.busy = False
            with self._lock:
                self._inside += time.monotonic() - start

    def read(self) -> tuple[float, float]:
        """(wall seconds, seconds inside node calls) so far."""
        return time.monotonic() - self._started, self._inside


class _Metered:
    """Delegates everything to `inner`, timed."""

    def __init__(self, inner: Any, meter: Meter) -> None:
        self._inner, self._meter = inner, meter

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._inner, name)
        if name in PARTS:
            return _Metered(value, self._meter)
        if not callable(value):
            return value

        meter, wrapped = self._meter, name in WRAPPED

        def timed(*args: Any, **kwargs: Any) -> Any:
            with meter.inside():
                out = value(*args, **kwargs)
            return _Metered(out, meter) if wrapped else out

        # the next look finds it without coming here: a poll is a dozen calls, several times a second
        self.__dict__[name] = timed
        return timed

    def __enter__(self) -> Any:
        with self._meter.inside():
            return _Metered(self._inner.__enter__(), self._meter)

    def __exit__(self, *error: Any) -> Any:
        with self._meter.inside():
            return self._inner.__exit__(*error)


def metered(node: Node, meter: Meter) -> Node:
    """The same node, with its time counted by `meter`."""
    return cast(Node, _Metered(node, meter))


def share(wall_s: float, inside_s: float, nodes: int = 1) -> float | None:
    """Orchestration's share of the wall time of `nodes` nodes; None before any time passed."""
    return None if wall_s <= 0 else max(0.0, 1.0 - inside_s / (wall_s * nodes))
