"""Verdicts, leader and stop rules: pure, so their laws are checked as laws."""

import math

import pytest
from day0.agent.policy import decide
from day0.agent.policy.decide import Z
from day0.runs.candidate import Candidate
from day0.runs.facts import FailureClass, Knee, LoadPoint, Rung, Verdict
from day0.runs.schema import Attempt, AttemptStatus
from day0.runs.workload import Objective
from hypothesis import given
from hypothesis import strategies as st

RATES = st.floats(0.1, 100)


def attempt(number, rate, status=AttemptStatus.RUNNING, proposer="playbook", failed=None, **flags) -> Attempt:
    passed = [Verdict(rung=r, passed=True) for r in (Rung.BOOT, Rung.ANSWER, Rung.ACCURACY, Rung.MEASURE)]
    if failed:
        rung, failure = failed
        passed = [v for v in passed if v.rung != rung]
        passed.append(Verdict(rung=rung, passed=False, failure=failure, evidence="the line"))
    knee = Knee(workload="chat", rate_rps=rate, goodput_tok_s=1, passed_rps=rate, failed_rps=None) if rate else None
    return Attempt(
        id=f"r0.{number}", run="r0", number=number, status=status, proposer=proposer, verdicts=tuple(passed),
        candidate=Candidate(engine="sglang", build="b", model="m", revision="r", flags={"n": number, **flags}),
        knees=((1, Rung.MEASURE, knee),) if knee else (), node_s=60,
    )  # fmt: skip


@pytest.fixture(scope="session")
def request_(shared_node):
    return shared_node.request()


def test_a_gain_within_the_noise_does_not_count(request_):
    noise = 0.05
    least = Z * math.sqrt(2) * noise
    leader = attempt(1, 10, AttemptStatus.KEPT)
    below = decide.outcome(attempt(2, 10 * (1 + least * 0.99)), [leader], request_, noise)
    above = decide.outcome(attempt(3, 10 * (1 + least * 1.01)), [leader], request_, noise)
    assert (below.status, above.status) == (AttemptStatus.DISCARDED, AttemptStatus.KEPT)
    assert below.gain == pytest.approx(least * 0.99) and "r0.1" in below.reason


@given(rates=st.lists(RATES, min_size=1, max_size=6), new=RATES, noise=st.floats(0, 0.2), data=st.data())
def test_the_order_of_attempts_changes_nothing(request_, rates, new, noise, data):
    kept = [attempt(i + 1, r, AttemptStatus.KEPT) for i, r in enumerate(rates)]
    mixed = data.draw(st.permutations(kept))
    assert decide.leader_of(kept, request_) == decide.leader_of(mixed, request_)
    one = decide.outcome(attempt(99, new), kept, request_, noise)
    assert one == decide.outcome(attempt(99, new), mixed, request_, noise)
    assert decide.fruitless(kept) == decide.fruitless(mixed)


@given(best=RATES, rate=RATES, more=st.floats(1, 3), noise=st.floats(0, 0.2))
def test_a_faster_candidate_is_never_judged_worse(request_, best, rate, more, noise):
    leader = [attempt(1, best, AttemptStatus.KEPT)]
    slow = decide.outcome(attempt(2, rate), leader, request_, noise)
    fast = decide.outcome(attempt(2, rate * more), leader, request_, noise)
    assert not (slow.status == AttemptStatus.KEPT and fast.status != AttemptStatus.KEPT)


@given(best=RATES, rate=RATES, low=st.floats(0, 0.2), high=st.floats(0, 0.2))
def test_more_noise_never_keeps_more(request_, best, rate, low, high):
    low, high = sorted((low, high))
    leader = [attempt(1, best, AttemptStatus.KEPT)]
    quiet = decide.outcome(attempt(2, rate), leader, request_, low)
    loud = decide.outcome(attempt(2, rate), leader, request_, high)
    assert not (loud.status == AttemptStatus.KEPT and quiet.status != AttemptStatus.KEPT)


@given(rates=st.lists(RATES, min_size=1, max_size=6), worse=st.floats(0.01, 1))
def test_a_slower_attempt_never_changes_the_leader(request_, rates, worse):
    kept = [attempt(i + 1, r, AttemptStatus.KEPT) for i, r in enumerate(rates)]
    leader = decide.leader_of(kept, request_)
    late = attempt(50, decide.worth(leader, request_) * worse, AttemptStatus.KEPT)
    assert decide.leader_of([*kept, late], request_) == leader


def test_s34_fast_but_wrong_is_failed_whatever_its_speed(request_):
    leader = [attempt(1, 1, AttemptStatus.KEPT)]
    for rung in (Rung.ANSWER, Rung.ACCURACY):
        wrong = attempt(2, 100, failed=(rung, FailureClass.ACCURACY_WRONG_OUTPUT))
        end = decide.outcome(wrong, leader, request_, 0.0)
        assert end.status == AttemptStatus.FAILED and "the line" in end.reason
        kept = wrong.model_copy(update={"status": AttemptStatus.KEPT})
        assert decide.leader_of([*leader, kept], request_).id == "r0.1"


def test_s34_an_accuracy_that_was_never_checked_does_not_count(request_):
    bare = attempt(2, 100)
    bare = bare.model_copy(update={"verdicts": tuple(v for v in bare.verdicts if v.rung != Rung.ACCURACY)})
    end = decide.outcome(bare, [attempt(1, 1, AttemptStatus.KEPT)], request_, 0.0)
    assert end.status == AttemptStatus.VOID and "accuracy" in end.reason
    baseline = bare.model_copy(update={"proposer": "baseline"})
    assert decide.outcome(baseline, [], request_, 0.0).status == AttemptStatus.KEPT


def test_works_but_is_not_better_is_discarded_not_failed(request_):
    for failure in (FailureClass.NOT_PROMISING, FailureClass.BELOW_SLO):
        end = decide.outcome(attempt(2, None, failed=(Rung.SCREEN, failure)), [], request_, 0.0)
        assert end.status == AttemptStatus.DISCARDED


def test_a_knee_at_zero_meets_no_limits(request_):
    end = decide.outcome(attempt(2, 0.0), [], request_, 0.0)
    assert end.status == AttemptStatus.DISCARDED and "no offered rate" in end.reason


def test_s50_a_candidate_that_fills_the_node_twice_counts_twice(request_):
    half, whole = attempt(1, 3.0, **{"tp-size": 4}), attempt(2, 5.0, **{"tp-size": 8})
    assert decide.worth(half, request_, gpus=8) == 6.0 > decide.worth(whole, request_, gpus=8)
    assert decide.worth(half, request_) == 3.0


def test_a_single_stream_is_judged_by_its_tokens_per_second(request_, work):
    def point(speed):
        return LoadPoint(
            workload="chat", rate_rps=None, concurrency=1, seed=0, window_s=8, offered=4, completed=4, failed=0,
            output_tok_s=speed, total_tok_s=speed, success_share=1, steady=True, meets_slo=True,
        )  # fmt: skip

    one = attempt(1, None).model_copy(update={"points": tuple((1, Rung.MEASURE, point(s)) for s in (10, 30, 20))})
    assert decide.value(one, work, Objective.SINGLE_STREAM) == 20
    assert decide.value(one, work, Objective.GOODPUT) is None


def test_each_workload_has_its_own_leader(request_, work):
    other = work.model_copy(update={"name": "long"})
    both = request_.model_copy(update={"workloads": (work, other)})

    def with_long(number, chat, long, status):
        one = attempt(number, chat, status)
        knee = Knee(workload="long", rate_rps=long, goodput_tok_s=1, passed_rps=long, failed_rps=None)
        return one.model_copy(update={"knees": (*one.knees, (1, Rung.MEASURE, knee))})

    first = with_long(1, 10, 10, AttemptStatus.KEPT)
    new = with_long(2, 8, 13, AttemptStatus.RUNNING)
    assert decide.outcome(new, [first], both, 0.01).status == AttemptStatus.KEPT
    kept = new.model_copy(update={"status": AttemptStatus.KEPT})
    assert decide.leader_of([first, kept], both).id == "r0.1"
    assert decide.leader_of([first, kept], both, workload=other).id == "r0.2"


def test_s51_no_improvement_has_its_own_status(shared_node):
    view = shared_node.view()
    fruitless = tuple(attempt(i, 1.0, AttemptStatus.DISCARDED) for i in range(2, 10))
    stop = decide.stop(view.model_copy(update={"attempts": (*view.attempts, *fruitless)}), patience=8)
    assert stop.status == "no_improvement" and "8 experiments" in stop.reason
    assert decide.stop(view.model_copy(update={"attempts": (*view.attempts, *fruitless[1:])}), patience=8) is None


def test_s51_a_kept_attempt_starts_the_count_again(shared_node):
    rows = [attempt(i, 1.0, AttemptStatus.DISCARDED) for i in range(2, 6)] + [attempt(6, 9.0, AttemptStatus.KEPT)]
    assert decide.fruitless(rows) == 0
    assert decide.fruitless([*rows, attempt(7, None, AttemptStatus.FAILED)]) == 1


def test_s51_boots_that_fail_are_half_an_experiment():
    """Minutes each: a search with most of its budget left went home after four of them and four measurements."""
    boot = [v for v in attempt(7, None).verdicts if v.rung == Rung.BOOT]
    dead = [
        attempt(n, None, AttemptStatus.FAILED).model_copy(update={"verdicts": (boot[0].model_copy(update={
            "passed": False, "failure": FailureClass.OOM, "evidence": "the line"}),)})
        for n in range(2, 7)
    ]  # fmt: skip
    assert [decide.fruitless(dead[:n]) for n in range(6)] == [0, 0, 1, 1, 2, 2]
    assert decide.fruitless([*dead[:4], attempt(8, 1.0, AttemptStatus.DISCARDED)]) == 3


def test_s52_what_a_stand_in_tried_is_never_no_improvement():
    rows = [attempt(i, 1.0, AttemptStatus.DISCARDED, proposer="stand-in") for i in range(2, 60)]
    assert decide.fruitless(rows) == 0


@pytest.mark.parametrize("status", [AttemptStatus.REFUSED, AttemptStatus.VOID, AttemptStatus.CANCELLED])
def test_what_cost_or_said_nothing_is_no_evidence(status):
    assert decide.fruitless([attempt(2, 1.0, status)]) == 0


def test_s53_budget_and_attempts_stop_the_search(shared_node):
    assert decide.stop(shared_node.view(budget_s=30)).status == "budget"
    assert decide.stop(shared_node.view(left=0)).status == "attempts"
    assert decide.stop(shared_node.view()) is None


def test_nothing_stops_while_an_attempt_runs(shared_node):
    view = shared_node.view(left=0)
    assert decide.stop(view.model_copy(update={"attempts": (*view.attempts, attempt(2, 1.0))})) is None


def test_only_a_leader_other_than_the_baseline_is_confirmed(shared_node, make_node):
    assert decide.confirm(shared_node.view()) is None
    node = make_node(noise=0.0)
    node.climb(node.attempts[0].candidate.model_copy(update={"flags": {"dtype": "float32"}}), "r0.1", "playbook")
    pair = decide.confirm(node.view())
    assert (pair.incumbent, pair.challenger) == ("r0.1", "r0.2") and pair.expected == pytest.approx(0.2)


def test_a_verdict_hangs_on_the_noise_only_where_noise_could_turn_it(request_):
    leader = [attempt(1, 10, AttemptStatus.KEPT)]

    def hangs(rate, **more):
        return decide.hangs_on_noise(attempt(2, rate, **more), leader, request_)

    assert hangs(10.5) and hangs(11.4)
    assert not hangs(12) and not hangs(10.05) and not hangs(9)
    assert not hangs(10.5, failed=(Rung.ACCURACY, FailureClass.ACCURACY_WRONG_OUTPUT))
    assert not decide.hangs_on_noise(attempt(2, 10), [], request_), "the first that works needs no noise"
