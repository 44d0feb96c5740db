"""The wander of a simulated node: slow, of the size that its world says, and the same each time it is looked at."""

from __future__ import annotations

from itertools import pairwise
from math import log
from statistics import pstdev

import pytest
from day0.sandboxes.twin.serving import wander
from day0.sandboxes.twin.world import world
from day0.tools.loadplan import open_loop
from day0.tools.summary import summarise

from tests.twin.node.conftest import RULES, SHORT


def test_it_wanders_slowly_with_the_spread_that_was_asked():
    logs = [log(wander(0.02, "w", 600.0 * n)) for n in range(3000)]
    assert pstdev(logs) == pytest.approx(0.02, rel=0.15)
    steps = pstdev([b - a for a, b in pairwise(logs)])
    assert steps < 0.4 * pstdev(logs), "ten minutes apart it is nearly the same"
    assert wander(0.02, "w", 5000.0) == wander(0.02, "w", 5000.0) != wander(0.02, "v", 5000.0)
    assert wander(0.0, "w", 5000.0) == 1.0


def test_the_same_point_an_hour_later_is_another_number(bench_of):
    bench = bench_of(noise=world("glm-5.2").noise.model_copy(update={"drift": 0.05}))
    plan, pace = open_loop(SHORT, RULES, rate_rps=1.0, seed=1, content_seed=2), []
    with bench.serving() as (server, harness):
        for _ in range(3):
            pace.append(summarise(plan, harness.run(plan, server), RULES).tpot_ms.p50)
            bench.node.clock.sleep(7200.0)
    assert len(set(pace)) == 3 and max(pace) < 1.4 * min(pace)
