"""The layouts of a node: which fit, how fast each is expected to be, what it costs."""

from __future__ import annotations

from day0.tools.forecast.point import Point

SPECULATION_RISK = 0.1
"""Discount (ln) on speculation when layouts are ranked: its gain hangs on the acceptance of a text not yet seen."""


def risk(point: Point) -> float:
    """What a layout loses in the ranking for what is not known before it runs."""
    return SPECULATION_RISK if point.speculation else 0.0
