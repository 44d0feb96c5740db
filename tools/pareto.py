"""Throughput against interactivity: which load points are worth having, and how two sets of them compare. Pure.

Throughput is divided by accelerators *held*, never by the width of tensor parallelism (S50): copies of a model hold
theirs, too. Two configurations are compared at the same tokens per second and user (S49): a denser batch always gives
more in all and less to each.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from day0.runs.facts import LoadPoint


class Spot(NamedTuple):
    """One load point: output tok/s that a user sees (1 / median TPOT), and output tok/s per accelerator held."""

    user_tok_s: float
    held_tok_s: float
    rate_rps: float | None = None
    name: str = ""


def spots(points: Iterable[LoadPoint], held: int, name: str = "") -> tuple[Spot, ...]:
    """The sound ones among load points of a configuration that holds so many accelerators (0, a CPU: the node is one).

    A point that broke a limit is as true as one that held it: it lies farther along the curve.
    """
    return tuple(
        Spot(1e3 / p.tpot_ms.p50, p.output_tok_s / max(1, held), p.rate_rps, name)
        for p in points
        if p.void is None and p.steady and not p.warmup and p.tpot_ms is not None and p.tpot_ms.p50 > 0
    )


def frontier(found: Iterable[Spot]) -> tuple[Spot, ...]:
    """Those that no other one beats in both, from the least to the most interactive."""
    kept: list[Spot] = []
    for spot in sorted(found, key=lambda s: (-s.user_tok_s, -s.held_tok_s)):
        if not kept or spot.held_tok_s > kept[-1].held_tok_s:
            kept.append(spot)
    return tuple(reversed(kept))


def at_interactivity(found: Iterable[Spot], user_tok_s: float) -> float | None:
    """Tok/s per accelerator held at an interactivity, on straight lines along the frontier; None outside of it."""
    edge = frontier(found)
    for low, high in pairwise(edge):
        if low.user_tok_s <= user_tok_s <= high.user_tok_s:
            share = (user_tok_s - low.user_tok_s) / (high.user_tok_s - low.user_tok_s)
            return low.held_tok_s + share * (high.held_tok_s - low.held_tok_s)
    return next((s.held_tok_s for s in edge if s.user_tok_s == user_tok_s), None)


class Equal(NamedTuple):
    """Two configurations at the same interactivity, tok/s per accelerator held."""

    user_tok_s: float
    first: float
    second: float


def equal(first: Sequence[Spot], second: Sequence[Spot]) -> Equal | None:
    """Both at the densest load that both were measured at; None where their interactivities do not meet."""
    one, two = frontier(first), frontier(second)
    if not one or not two:
        return None
    user = max(one[0].user_tok_s, two[0].user_tok_s)
    a, b = at_interactivity(one, user), at_interactivity(two, user)
    return None if a is None or b is None else Equal(user, a, b)
