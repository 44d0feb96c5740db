"""How often somebody who waits looks up."""

from __future__ import annotations

POLL_S = 0.25
POLL_SHARE = 0.04
"""Of the time waited so far: an end is noticed that late at most."""


def pause_s(waited_s: float, longest_s: float) -> float:
    """How long to sleep until the next look: longer the longer one waits, so that a long point costs few of them."""
    return min(max(POLL_S, POLL_SHARE * waited_s), max(POLL_S, longest_s))
