"""Drawn worlds are worlds: equal seeds draw equal ones, they can be written and read, and they can be solved."""

from __future__ import annotations

import pytest
from day0.runs.documents import workload
from day0.sandboxes.twin import oracle
from day0.sandboxes.twin.sample import FEWEST, render, sample, serving
from day0.sandboxes.twin.world import world


def test_equal_seeds_draw_equal_worlds_and_others_differ():
    drawn = [sample(seed) for seed in range(12)]
    assert [w.digest() for w in drawn] == [sample(seed).digest() for seed in range(12)]
    assert len({w.truth.digest() for w in drawn}) == 12
    assert len({w.model.id for w in drawn}) >= 3 and len({f.name for w in drawn for f in w.faults}) >= 4


@pytest.mark.parametrize("seed", range(0, 60, 3))
def test_a_drawn_world_is_a_document_and_can_be_solved(seed, tmp_path):
    drawn = sample(seed)
    file = tmp_path / "drawn.yaml"
    file.write_text(render(drawn))
    assert world(str(file)) == drawn
    assert serving(drawn) >= FEWEST


def test_what_serves_has_a_knee_and_what_does_not_has_none():
    drawn, work = sample(7), workload("agentic-20k1k")
    ratings = [oracle.rated(drawn, work, c) for c in list(oracle.candidates(drawn))[::6]]
    assert any(r.tok_s > 0 for r in ratings)
    assert all(r.why for r in ratings if r.tok_s == 0)
