"""What a screening point that missed its limits says about a candidate's worth."""

from __future__ import annotations

import math

import pytest
from day0.agent.policy.seen import BELOW, kept_up, seen_of
from day0.runs.facts import FailureClass, LoadPoint, Percentiles, Rung, Verdict
from day0.runs.schema import AttemptStatus
from day0.runs.workload import MeasureRules, Slo, Workload

RULES = MeasureRules(point_s=60, min_requests=300, p95_multiples=10, max_points=6, max_pairs=8, stability_s=0)
WORK = Workload(name="chat", input_tokens=20000, output_tokens=1000, prefixes=8, slo=Slo(ttft_ms=5000, tpot_ms=50))


def times(ms: float) -> Percentiles:
    return Percentiles(mean=ms, p50=ms, p95=ms, p99=ms)


def screen(ttft_ms: float | None, tpot_ms: float | None = None, window_s: float = 48.0, workload: str = "chat"):
    return LoadPoint(
        workload=workload, rate_rps=2.4, seed=0, window_s=window_s, offered=115, completed=7, failed=0,
        output_tok_s=100.0, total_tok_s=2100.0, ttft_ms=None if ttft_ms is None else times(ttft_ms),
        tpot_ms=None if tpot_ms is None else times(tpot_ms), success_share=1.0, steady=False, meets_slo=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("ttft_ms", "share"),
    [(4000.0, 1.0), (5000.0, 1.0), (36_900.0, 0.756), (90_000.0, 0.349), (400_000.0, BELOW), (None, BELOW)],
)
def test_who_waited_tells_which_share_was_served(ttft_ms, share):
    """82.5 s of lead-in, 48 s of window: a wait of 32 s beyond the limit is a quarter that was not served."""
    assert kept_up(screen(ttft_ms), WORK, RULES) == pytest.approx(share, abs=0.01)


def test_a_queue_that_grew_is_worth_less_than_the_leader_even_where_nobody_was_done(make_node, glm):
    node = make_node(noise=0.0, **glm)
    base = node.attempts[0]
    point = screen(3_900.0, workload=node.work.name)
    turned = Verdict(rung=Rung.SCREEN, passed=False, failure=FailureClass.NOT_PROMISING, evidence="it waits")
    answered = Verdict(rung=Rung.ANSWER, passed=True)

    def seen(ttft_ms):
        late = point.model_copy(update={"ttft_ms": times(ttft_ms), "window_s": 8.0})
        screened = base.model_copy(
            update={
                "id": "r0.2", "number": 2, "knees": (), "points": ((1, Rung.SCREEN, late),), "proposer": "playbook",
                "verdicts": (answered, turned), "status": AttemptStatus.DISCARDED,
            }
        )  # fmt: skip
        node.attempts[1:] = [screened]
        first, second = seen_of(node.view(), 8)
        return second.log_worth - first.log_worth

    assert seen(2_400.0) == pytest.approx(0.0), "within the limit: as good as the leader, as far as that tells"
    assert seen(6_000.0) < math.log(0.95)
