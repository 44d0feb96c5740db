"""Draws in columns are those of the standard library, one call at a time."""

from __future__ import annotations

from random import Random

import pytest
from day0.runs.chance import gaps, places


@pytest.mark.parametrize("seed", ["1:arrivals", "7:prefix", "x"])
def test_gaps_are_those_of_expovariate(seed):
    one, other = Random(seed), Random(seed)
    assert gaps(one, 500) == [other.expovariate(1.0) for _ in range(500)]
    assert one.getstate() == other.getstate()


@pytest.mark.parametrize("most", [1, 2, 3, 16, 17, 1000])
def test_places_are_those_of_randrange(most):
    one, other = Random(f"{most}:prefix"), Random(f"{most}:prefix")
    assert places(one, most, 500) == [other.randrange(most) for _ in range(500)]
    assert one.getstate() == other.getstate()


def test_nothing_is_below_zero():
    with pytest.raises(ValueError, match="below 0"):
        places(Random(1), 0, 1)
