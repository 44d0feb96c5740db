"""Worlds as somebody else might write them: the playbook ends cleanly on each, and promotes nothing that is broken."""

from __future__ import annotations

from pathlib import Path

import pytest
from day0.agent.evaluation.confirming import winner
from day0.agent.policy.playbook import Playbook
from day0.sandboxes.twin import oracle
from day0.sandboxes.twin.oracle import Pick
from day0.sandboxes.twin.world import world
from day0.tools.engines.sglang import Sglang

FOLDER = Path(__file__).parents[2] / "fixtures" / "worlds"
WORLDS = tuple(sorted(file.stem for file in FOLDER.glob("*.yaml")))


pytestmark = pytest.mark.timeout(600)  # whole searches: a busy machine is no failure
MOST = {"only-whole-experts": 8}
"""experiments, where fewer than four would not do"""


def played(arena_of, name):
    """(world, arena, what was won, why the search ended)."""
    found = world(str(FOLDER / f"{name}.yaml"))
    arena = arena_of(found, most=MOST.get(name, 4))
    arena.survey()
    why = arena.search(Playbook(check=Sglang().check))
    return found, arena, winner(arena), why


@pytest.mark.parametrize("name", [n for n in WORLDS if n != "nothing-boots"])
def test_the_winner_of_an_odd_world_serves_and_serves_rightly(arena_of, name):
    found, arena, won, why = played(arena_of, name)
    assert why and won.reason
    assert won.attempt is not None
    best = won.attempt.candidate
    served = oracle.server(found, arena.request.workloads[0], Pick(dict(best.flags), dict(best.env), True))
    assert not isinstance(served, str), f"a broken promotion: {served}"
    if name == "only-whole-experts":
        assert best.flags["ep-size"] > 1
    if name == "every-speculation-broken":
        assert "speculative-algorithm" not in best.flags


def test_a_world_in_which_nothing_boots_ends_without_a_winner_and_says_so(arena_of):
    _, arena, won, why = played(arena_of, "nothing-boots")
    assert won.attempt is None and won.reason == "no configuration works"
    assert why
    assert {a.status for a in arena.book.attempts()} == {"failed"}
    assert arena.node_s < 24 * 3600
