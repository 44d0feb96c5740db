"""Drawn worlds are worlds: equal seeds draw equal ones, they can be written and read, and they can be solved."""

from __future__ import annotations

import random

import pytest
from day0.runs import documents
from day0.runs import geometry as geo
from day0.runs.documents import workload
from day0.sandboxes.twin import oracle, scaled
from day0.sandboxes.twin.sample import FEWEST, render, sample, serving
from day0.sandboxes.twin.wellformed import problems
from day0.sandboxes.twin.world import world
from day0.tools.forecast.models import geometry


def test_equal_seeds_draw_equal_worlds_and_others_differ():
    drawn = [sample(seed) for seed in range(12)]
    assert [w.digest() for w in drawn] == [sample(seed).digest() for seed in range(12)]
    assert len({w.truth.digest() for w in drawn}) == len({w.model.geometry.digest() for w in drawn}) == 12
    assert len({w.summary.split()[-1] for w in drawn}) >= 4 and len({f.name for w in drawn for f in w.faults}) >= 4


@pytest.mark.parametrize("seed", range(0, 60, 3))
def test_a_drawn_world_is_a_document_and_can_be_solved(seed, tmp_path):
    drawn = sample(seed)
    file = tmp_path / "drawn.yaml"
    file.write_text(render(drawn))
    assert world(str(file)) == drawn, "it is read back as it was, and nothing in it is unknown to its engine"
    assert list(problems(drawn)) == []
    assert serving(drawn) >= FEWEST and len(list(oracle.candidates(drawn))) <= 128
    assert oracle.rated(drawn, workload("agentic-20k1k"), next(oracle.candidates(drawn))).tok_s > 0


def test_what_serves_has_a_knee_and_what_does_not_has_none():
    drawn, work = sample(7), workload("agentic-20k1k")
    ratings = [oracle.rated(drawn, work, c) for c in list(oracle.candidates(drawn))[::6]]
    assert any(r.tok_s > 0 for r in ratings)
    assert all(r.why for r in ratings if r.tok_s == 0)


@pytest.mark.parametrize("name", documents.names("world"))
def test_a_scaled_model_is_what_its_own_config_says(name):
    for seed in range(3):
        made = scaled.draw(random.Random(seed), world(name).model, "scaled")
        told, true = geometry("scaled", made.config), made.geometry
        assert (told.layers, told.hidden, told.experts, told.moe_width) == (
            true.layers, true.hidden, true.experts, true.moe_width,
        )  # fmt: skip
        assert sum(g.layers for g in true.groups) == true.layers
        assert geo.weight_bytes(told, made.precision) == pytest.approx(geo.weight_bytes(true, made.precision), rel=0.06)
        assert geo.kv_bytes_per_token(told) == pytest.approx(geo.kv_bytes_per_token(true), rel=0.01)
        exclude = (made.config.get("quantization_config") or {}).get("exclude", [])
        assert all(f"model.layers.{true.layers}." in e for e in exclude if e.startswith("model.layers"))
