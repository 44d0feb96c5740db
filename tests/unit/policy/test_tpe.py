"""The numeric control: rebuilt from the view, the same view asks the same, what fails is worth nothing."""

from __future__ import annotations

import pytest
from day0.agent.policy.actions import Finish, TryCandidate
from day0.agent.policy.guard import admit
from day0.agent.policy.tpe import Tpe, chosen_in, kept_share, value_of
from day0.runs.candidate import Candidate
from day0.runs.facts import FailureClass, LoadPoint, Percentiles, Rung, Verdict
from day0.runs.schema import AttemptStatus
from day0.runs.workload import Slo

pytest.importorskip("optuna", reason="optuna is not installed: it comes with the extra `eval`")


def speed(candidate: Candidate) -> float:
    """Two axes pay, one hurts, the rest does nothing."""
    rate = 2.0 if candidate.flags.get("tp-size") == 4 else 1.0
    rate *= 1.5 if candidate.flags.get("speculative-num-steps") == 3 else 1.0
    return rate * (0.6 if candidate.flags.get("stream-interval") else 1.0)


@pytest.fixture
def node(make_node, glm):
    """A GPU site whose knees are a formula."""
    return lambda **more: make_node(speed, 0.0, **glm, **more)


def step(played, policy: Tpe) -> TryCandidate | Finish:
    view = played.view()
    (action,) = policy.decide(view).actions
    if isinstance(action, TryCandidate):
        candidate = admit(action, view)
        assert isinstance(candidate, Candidate), candidate
        played.climb(candidate, action.parent, "tpe")
        played.attempts[-1] = played.attempts[-1].model_copy(update={"action": action.axis})
    return action


def test_the_same_view_and_seed_ask_the_same_and_another_seed_something_else(node) -> None:
    played = node()
    for _ in range(3):
        step(played, Tpe(7))
    view = played.view()
    assert Tpe(7).decide(view) == Tpe(7).decide(view)
    assert Tpe(7).decide(view) != Tpe(8).decide(view)


def test_it_learns_from_nothing_but_the_view(node) -> None:
    """A fresh policy for every call finds what pays, which chance alone finds once in a dozen."""
    played = node()
    for _ in range(40):
        step(played, Tpe(3))
    late = [speed(a.candidate) for a in played.attempts[26:]]
    early = [speed(a.candidate) for a in played.attempts[1:12]]
    assert sum(late) / len(late) > 1.2 * sum(early) / len(early)


def test_what_an_attempt_chose_is_read_back_from_its_action(node) -> None:
    played = node()
    action = step(played, Tpe(1))
    assert isinstance(action, TryCandidate)
    chosen = chosen_in(played.attempts[-1])
    assert chosen is not None
    assert "+".join(chosen) == "+".join(sorted(chosen))
    assert "off" not in chosen.values()
    assert chosen_in(played.attempts[0]) is None


def test_failures_are_worth_nothing_and_a_screened_one_what_it_kept_of_the_limits(node) -> None:
    played = node(fails=lambda c: FailureClass.OOM if c.flags.get("tp-size") == 4 else None)
    view = played.view()
    broken = played.climb(played.attempts[0].candidate.model_copy(update={"flags": {"tp-size": 4}}), "r0.1", "tpe")
    assert value_of(broken, view) == 0.0
    point = LoadPoint(
        workload="chat", rate_rps=2.0, seed=1, window_s=8, offered=100, completed=90, failed=0, output_tok_s=1.0,
        total_tok_s=1.0, success_share=1.0, steady=True, meets_slo=False,
        ttft_ms=Percentiles(mean=1, p50=1, p95=5000, p99=1), tpot_ms=Percentiles(mean=1, p50=40, p95=100, p99=1),
    )  # fmt: skip
    slo = Slo(ttft_ms=2500, tpot_ms=80, tpot_percentile=95)
    assert kept_share(point, slo) == pytest.approx(0.5)
    assert kept_share(point.model_copy(update={"ttft_ms": None, "tpot_ms": None}), slo) == pytest.approx(0.9)
    turned_away = Verdict(rung=Rung.SCREEN, passed=False, failure=FailureClass.NOT_PROMISING)
    screened = broken.model_copy(
        update={
            "verdicts": (turned_away,),
            "points": ((1, Rung.SCREEN, point),),
            "knees": (),
            "status": AttemptStatus.DISCARDED,
        }
    )
    assert value_of(screened, view) == pytest.approx(1.0)


def test_it_waits_for_what_still_climbs_and_says_when_nothing_is_left(node) -> None:
    played = node()
    running = played.attempts[0].model_copy(update={"status": AttemptStatus.RUNNING})
    assert Tpe(1).decide(played.view(attempts=(running,))).actions == ()
    (last,) = Tpe(1).decide(played.view(left=0)).actions  # the guard refuses everything by now
    assert isinstance(last, Finish)
