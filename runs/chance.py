"""Long columns of draws: the numbers that `random.Random` gives one call at a time, without its calls around each."""

from __future__ import annotations

from math import log
from random import Random


def gaps(rng: Random, count: int) -> list[float]:
    """`rng.expovariate(1.0)`, so many times: gaps of a Poisson process of rate 1."""
    draw = rng.random
    return [-log(1.0 - draw()) for _ in range(count)]


def places(rng: Random, most: int, count: int) -> list[int]:
    """`rng.randrange(most)`, so many times. Raises `ValueError` where nothing is below `most`."""
    if most < 1:
        raise ValueError(f"there is no number from 0 to below {most}")
    bits, draw = most.bit_length(), rng.getrandbits
    out = []
    for _ in range(count):
        drawn = draw(bits)
        while drawn >= most:
            drawn = draw(bits)
        out.append(drawn)
    return out


__all__ = ["gaps", "places"]
