"""The fixed reference of a run: which configuration it is, and that everything is held against it."""

from __future__ import annotations

import json

import pytest
from day0.agent import referring
from day0.runs.facts import FailureClass, Rung
from day0.sandboxes.twin.conditions import Check, When
from day0.sandboxes.twin.world import Fault

NO_AITER = When(env={"SGLANG_USE_AITER": Check(equals="0")})
AITER = When(env={"SGLANG_USE_AITER": Check(absent=True)})


def reference(arena):
    return json.loads(arena.book.files[arena.book.baseline, referring.NAME])


def test_the_plainest_configuration_that_boots_is_the_reference(small, arena_of):
    arena = arena_of(small)
    arena.survey()
    made = reference(arena)
    assert made["words"] == "same-stack: without aiter, without speculation, BF16 cache"
    assert made["env"]["SGLANG_USE_AITER"] == "0" and "--kv-cache-dtype" in made["argv"]
    base = arena.book.attempt(arena.book.baseline)
    assert base.boots == 1 and base.verdict(Rung.MEASURE).passed, "the reference's boot is none of its own"
    judged = arena.book.judged[base.id]
    assert {j.tier for j in judged} == {1, 2} and all(j.against == made["words"] for j in judged)


def test_without_aiter_it_may_not_boot(small, arena_of):
    crash = Fault(name="FP4 experts need aiter", kind="crash", when=NO_AITER, log=("RuntimeError: no kernel",))
    arena = arena_of(small.model_copy(update={"faults": (crash,)}))
    arena.survey()
    assert "it needs aiter" in reference(arena)["words"] and "SGLANG_USE_AITER" not in reference(arena)["env"]


def test_s34_defaults_that_are_fast_and_wrong_are_refused_by_the_plain_reference(small, arena_of):
    broken = Fault(name="aiter's experts are mixed up", kind="wrong_output", when=AITER, wrong_share=0.3, time=0.8)
    arena = arena_of(small.model_copy(update={"faults": (broken,)}))
    arena.survey()
    base = arena.book.attempt(arena.book.baseline)
    refused = next(v for v in base.verdicts if not v.passed)
    assert (refused.rung, refused.failure) == (Rung.ANSWER, FailureClass.ACCURACY_WRONG_OUTPUT), refused
    assert "without aiter" in reference(arena)["words"]


@pytest.mark.parametrize("when", [When()])
def test_s35_where_no_configuration_answers_there_is_no_reference(small, arena_of, when):
    broken = Fault(name="nothing is right", kind="wrong_output", when=when, wrong_share=0.9)
    arena = arena_of(small.model_copy(update={"faults": (broken,)}))
    arena.survey()
    assert (arena.book.baseline, referring.NAME) not in arena.book.files
    base = arena.book.attempt(arena.book.baseline)
    assert any(v.failure == FailureClass.ACCURACY_WRONG_OUTPUT for v in base.verdicts)
