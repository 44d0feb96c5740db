"""Named places where a process may be made to die, so that crash tests hit every joint.

`DAY0_CRASH_AT=NAME` kills this process with SIGKILL when it reaches that point, `NAME:3` the third time.
Nothing is flushed and no handler runs: it is what a power cut does. Without the variable a point costs one
dictionary look-up.
"""

from __future__ import annotations

import os
import signal

POINTS = (
    "submitted",
    "surveyed",
    "floor-boot",
    "floor-measured",
    "proposed",
    "admitted",
    "attempt-started",
    "verdict-prepare",
    "verdict-boot",
    "verdict-answer",
    "verdict-screen",
    "verdict-accuracy",
    "verdict-measure",
    "mid-point",
    "decided",
    "mid-pair",
    "pair-done",
    "compared",
    "stable",
    "before-recipe",
    "after-recipe",
    "mid-replay",
    "reported",
)
_seen: dict[str, int] = {}


def reached(name: str) -> None:
    """Dies here if the environment says so."""
    wanted = os.environ.get("DAY0_CRASH_AT")
    if not wanted:
        return
    point, _, nth = wanted.partition(":")
    if point != name:
        return
    _seen[name] = _seen.get(name, 0) + 1
    if _seen[name] == int(nth or 1):
        os.kill(os.getpid(), signal.SIGKILL)
