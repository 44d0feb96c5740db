"""Every shipped configuration that is faster because it is wrong is refused for its answers, through the whole ladder.

And what only looks suspicious counts: the slow path of untuned kernels voids no point.
"""

from __future__ import annotations

import pytest
from day0.runs import documents
from day0.runs.facts import FailureClass, Rung
from day0.runs.schema import AttemptStatus
from day0.sandboxes.twin.world import world
from day0.tools.loadplan import open_loop
from day0.tools.summary import summarise

from tests.twin.evaluation.conftest import Once
from tests.twin.node.conftest import RULES, Bench

SPECULATION = {
    "speculative-algorithm": "EAGLE", "speculative-num-steps": 3, "speculative-eagle-topk": 1,
    "speculative-num-draft-tokens": 4,
}  # fmt: skip
FAST_AND_WRONG = [
    ("kimi-k2.5-fast-and-wrong", {"flags": {"moe-runner-backend": "triton"}}),
    ("minimax-m2.5-bursts", {"env": {"ROCM_QUICK_REDUCE_QUANTIZATION": "INT4"}}),
    ("qwen3.5-mxfp4-serial-scan", {"flags": SPECULATION}),
]


@pytest.mark.parametrize(("name", "change"), FAST_AND_WRONG)
def test_s34_broken_but_faster_is_refused_for_its_answers(arena_of, name, change):
    arena = arena_of(world(name))
    arena.survey()
    arena.search(Once(**change))
    tried = arena.book.attempts()[-1]
    assert tried.id != arena.book.baseline, [a.text for a in arena.book.answers]
    broken = next(v for v in tried.verdicts if not v.passed)
    assert (tried.status, broken.failure) == (AttemptStatus.FAILED, FailureClass.ACCURACY_WRONG_OUTPUT), broken
    assert broken.rung == Rung.ANSWER and arena.book.leader != tried.id


def test_s44_the_untuned_1944_of_glm_5_2_counts_beside_its_fallback_lines(tmp_path):
    found = world("glm-5.2").mended()
    (told,) = (s for s in found.story if s.value == 1944)
    assert not told.tuned
    work, rate = documents.workload(told.workload), told.value / 1000
    rules = RULES.model_copy(update={"point_s": 240.0})
    with Bench(tmp_path, found).serving(dict(told.flags), dict(told.env)) as (server, harness):
        assert server.facts.fallback_lines > 0
        plan = open_loop(work, rules, rate_rps=0.97 * rate, seed=1, content_seed=1, replicas=server.facts.replicas)
        point = summarise(plan, harness.run(plan, server), rules)
    assert point.void is None, "counted since launch, told beside the number, never against it"
    assert point.output_tok_s == pytest.approx(0.97 * told.value, rel=0.1)
