"""The noise floor: what was measured, how long it holds, what it makes of the least gain that counts."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import pytest
from day0.agent import floor
from day0.agent.policy.decide import threshold
from day0.runs.findings import NoiseFloor
from day0.tools.judge import NOISE_PRIOR, calm, noise_floor, spread

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def known(**more) -> NoiseFloor:
    told = {"workload": "w", "rates_rps": (2.0, 2.01, 1.99), "node": "n", "boot_id": "b", "run": "r1-1"}
    return NoiseFloor(**{**told, "at": "2026-03-01T03:00:00.000000Z", **more})


def test_an_earlier_floor_holds_for_a_day_and_until_the_node_starts_anew():
    assert floor.fresh(known(), "b", NOW)
    assert not floor.fresh(known(), "another", NOW)
    assert not floor.fresh(known(boot_id=""), "", NOW), "nobody knows whether the node was started anew"
    assert not floor.fresh(known(), "b", NOW + timedelta(hours=16))
    assert not floor.fresh(known(at=""), "b", NOW) and not floor.fresh(None, "b", NOW)


def test_s40_boots_repeated_on_purpose_weigh_more_than_the_prior():
    quiet = [2.0, 2.0 * math.exp(0.008), 2.0 * math.exp(-0.008)]
    assert spread(quiet) == pytest.approx(0.008)
    assert threshold(noise_floor([])) == pytest.approx(threshold(NOISE_PRIOR))
    least = threshold(noise_floor([], floors=[quiet]))
    assert 0.03 < least < 0.04, "about what Student's t asks for with two degrees of freedom"
    loud = [2.0, 2.4, 1.7]
    assert threshold(noise_floor([], floors=[loud])) > 0.3, "a noisy node lets only large gains count"
    assert noise_floor([], floors=[[2.0]]) == NOISE_PRIOR


def test_what_was_not_measured_is_called_assumed():
    told = floor.words(NoiseFloor(workload="w", why_none=floor.NOT_ASKED), 0.03)
    assert told == "w: noise floor 3.0%, assumed and not measured: this target asks for no boots for it"
    told = floor.words(known(reused=True), 0.016)
    assert told == "w: noise floor 1.6% (3 boots of the baseline on n, by run r1-1: 0.5%, with the prior)"


def test_s40_one_burst_in_one_boot_does_not_make_the_floor():
    hit = [4.71, 4.72, 3.47]
    assert floor.far_apart(hit), "another boot tells a burst from a noisy node"
    four = [*hit, 4.68]
    assert not floor.far_apart(four)
    assert threshold(noise_floor([], floors=[hit])) > 0.3 and threshold(noise_floor([], floors=[four])) < 0.06


def test_s40_a_noisy_node_keeps_its_floor_however_often_it_boots():
    loud = [2.0, 2.4, 1.7, 2.1]
    assert floor.far_apart(loud[:3]) and calm(loud) > 0.1
    assert calm(loud) <= spread(loud) and calm([2.0, 2.4, 1.7]) == spread([2.0, 2.4, 1.7])
