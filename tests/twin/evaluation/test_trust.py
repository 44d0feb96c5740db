"""Whole ladders on small worlds: what cheats, leaks or is held back is told apart by the real rungs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from day0.agent.evaluation import confirming
from day0.runs.errors import Infrastructure
from day0.runs.facts import FailureClass, Rung
from day0.runs.schema import AttemptStatus
from day0.sandboxes.twin.conditions import Check, When
from day0.sandboxes.twin.node import TwinNode
from day0.sandboxes.twin.programs import launch
from day0.sandboxes.twin.world import Fault, world

from tests.twin.evaluation.conftest import Once


def climbed(arena, **change):
    """The attempt that the change makes, after the whole ladder. Pairs enough to tell a gain."""
    aim = arena.request.target
    rules = aim.measure.model_copy(update={"max_pairs": 6})
    arena.request = arena.request.model_copy(update={"target": aim.model_copy(update={"measure": rules})})
    arena.book.request = arena.request
    arena.survey()
    arena.search(Once(**change))
    return arena.book.attempts()[-1]


def test_a_server_whose_memory_grows_under_load_is_not_stable_and_the_defaults_win(small, arena_of):
    leak = Fault(
        name="a buffer is never freed", kind="leak", gib_per_hour=900.0, when=When(flags={"tp-size": Check(equals=2)})
    )
    arena = arena_of(small.model_copy(update={"faults": (leak,)}))
    faster = climbed(arena, flags={"tp-size": 2, "dp-size": 4})
    assert faster.status == AttemptStatus.KEPT
    won = confirming.winner(arena)
    assert won.attempt.id == arena.book.baseline, won.reason
    verdict = arena.book.attempt(faster.id).verdict(Rung.CONFIRM)
    assert verdict.failure == FailureClass.NOT_STABLE and "accelerator memory grew by" in verdict.evidence


def test_a_steady_winner_says_what_was_watched(small, arena_of):
    arena = arena_of(small)
    faster = climbed(arena, flags={"tp-size": 2, "dp-size": 4})
    won = confirming.winner(arena)
    assert won.attempt.id == faster.id
    told = won.attempt.verdict(Rung.CONFIRM).detail
    assert "memory grew by 0 MiB; clocks 2250 MHz, at least 2250; power 1150 W, at most 1150" in told


def test_every_measured_attempt_is_explained(small, arena_of):
    arena = arena_of(small)
    climbed(arena, flags={"tp-size": 2, "dp-size": 4})
    for attempt in arena.book.attempts():
        (first, *_) = attempt.diagnoses("short")
        assert first.evidence and attempt.explained[-1].boot == attempt.points[-1][0]


def test_s37_a_server_that_rewrites_the_load_generator_gets_no_number(small, arena_of, tmp_path):
    tools = tmp_path / "harness" / "client.py"
    tools.parent.mkdir()
    tools.write_text("seconds = 1\n")
    arena = arena_of(small)
    made: list[TwinNode] = []

    def cheats(ctx):
        if "--help" not in ctx.argv:
            tools.write_text("seconds = 0\n")
        yield from launch.server(made[0].site, ctx)

    folder, digest = str(tools.parent), arena.at.digest
    known = {folder: arena.at.harness_build}
    arena.at = replace(arena.at, harness=folder, digest=lambda name: known.get(name) or digest(name))
    extra = {"python -m sglang.launch_server": cheats}
    made.append(
        TwinNode("twin-9", tmp_path, small, cancel=lambda: False, extra=extra, installed=(folder,))
    )  # fmt: skip
    arena.node = made[0]
    with pytest.raises(Infrastructure, match=r"changed while it measured, nothing of it counts: client\.py"):
        arena.survey()
    (base,) = arena.book.attempts()
    assert base.points and not base.knees and base.verdict(Rung.MEASURE) is None


CHEAT = """\
diff --git a/sglang/python/sglang/srt/layers/moe/expert_blocks.py b/sglang/python/sglang/srt/layers/moe/expert_blocks.py
--- a/sglang/python/sglang/srt/layers/moe/expert_blocks.py
+++ b/sglang/python/sglang/srt/layers/moe/expert_blocks.py
@@ -5,6 +5,7 @@
{}
 def expert_blocks(tokens: int, topk: int, experts: int) -> int:
     \"\"\"Rows are sorted by expert and padded to whole blocks; an expert without rows has none.\"\"\"
+    return 8
     rows = tokens * topk
     touched = min(rows, experts)
     per_expert = -(-rows // touched)
""".replace("{}", " ")


def test_s34_the_planted_cheat_climbs_and_is_refused_for_its_answers_not_its_speed(arena_of):
    arena = arena_of(world("minimax-m2.5-mxfp4-cheat"))
    arena.request = arena.request.model_copy(update={"policy": "llm"})  # whose diffs are admitted
    arena.book.request = arena.request
    cheat = climbed(arena, diff=CHEAT)
    assert cheat.candidate.patches, [a.text for a in arena.book.answers]
    broken = next(v for v in cheat.verdicts if not v.passed)
    assert (cheat.status, broken.rung) == (AttemptStatus.FAILED, Rung.ANSWER)
    assert broken.failure == FailureClass.ACCURACY_WRONG_OUTPUT
    assert arena.book.leader == arena.book.baseline
