"""The playbook on a node whose knee is a formula: how near the best it gets, and with how few attempts."""

import math

import pytest
from day0.agent.policy.actions import Finish
from day0.agent.policy.axes import offers, site_of
from day0.agent.policy.base import Answer
from day0.agent.policy.controls import Default, Random
from day0.agent.policy.playbook import Playbook, ideas
from day0.agent.policy.trials import standing
from day0.runs.facts import FailureClass, LoadPoint, Rung
from day0.runs.schema import AttemptStatus

# The best reachable of the node in conftest: float32, 8 running, 8 steps, stream 8, compile, allocator.
BEST = 1.20 * 1.15 * 1.08 * 1.04 * 1.10 * 1.08


def test_four_attempts_end_with_a_combination_clearly_better_than_the_default(make_node):
    for noise in (0.0, 0.01, 0.02):
        node = make_node(noise=noise)
        node.search(Playbook(), 4)
        assert node.best() > 1.25
        leader = node.view().attempt(node.view().leader)
        assert len(leader.candidate.changed(node.attempts[0].candidate)) >= 2


def test_twelve_attempts_end_near_the_best(make_node):
    for noise in (0.0, 0.01, 0.02):
        node = make_node(noise=noise)
        node.search(Playbook(), 12)
        assert node.best() > 1 + 0.7 * (BEST - 1)


def test_it_beats_chance_with_the_same_number_of_attempts(make_node):
    def reached(policy, attempts=8):
        node = make_node(noise=0.02)
        node.search(policy, attempts)
        return node.best()

    luck = [reached(Random(seed)) for seed in range(12)]
    assert reached(Playbook()) > sorted(luck)[-2]


def test_s51_it_stops_when_nothing_improves_and_says_so(make_node):
    node = make_node(lambda candidate: 2.0, noise=0.0)
    notes = node.search(Playbook(patience=5), 50)
    assert "5 experiments in a row brought no improvement" in notes[-1]
    assert len(node.attempts) == 6


def test_it_stops_when_no_axis_is_left(make_node):
    node = make_node(noise=0.0)
    notes = node.search(Playbook(patience=1000), 400)
    assert notes[-1] == "finish: no axis is left that promises a gain"
    assert node.best() == pytest.approx(BEST, rel=0.04)


def test_no_candidate_is_ever_proposed_twice(make_node):
    node = make_node(noise=0.03)
    node.search(Playbook(patience=1000), 60)
    digests = [a.candidate.digest() for a in node.attempts]
    assert len(digests) == len(set(digests))


def test_the_same_view_gives_the_same_proposal(make_node):
    node = make_node()
    node.search(Playbook(), 5)
    assert Playbook().decide(node.view()) == Playbook().decide(node.view())


def test_a_batch_holds_different_candidates_for_all_free_nodes(make_node):
    node = make_node()
    actions = Playbook(batch=3).decide(node.view()).actions
    assert len({(tuple(a.flags), tuple(a.env)) for a in actions}) == 3


def test_a_failed_boot_bans_the_kin_of_its_axis(make_node):
    def fails(candidate):
        return FailureClass.MISSING_KERNEL if "enable-torch-compile" in candidate.flags else None

    node = make_node(noise=0.0, fails=fails)
    node.search(Playbook(patience=1000), 100)
    compiled = [a for a in node.attempts if "enable-torch-compile" in a.candidate.flags]
    assert len(compiled) == 1 and compiled[0].status == AttemptStatus.FAILED


def test_running_out_of_memory_bans_nothing_but_that_value(make_node):
    def fails(candidate):
        return FailureClass.OOM if candidate.flags.get("page-size") == 16 else None

    node = make_node(noise=0.0, fails=fails)
    node.search(Playbook(patience=1000), 200)
    assert {a.candidate.flags.get("page-size") for a in node.attempts} >= {16, 32}


def test_a_bundle_that_fails_is_taken_apart(make_node):
    def fails(candidate):
        return FailureClass.CRASHED if candidate.flags.get("dtype") == "float32" else None

    node = make_node(noise=0.0, fails=fails)
    node.search(Playbook(), 6)
    assert node.attempts[1].status == AttemptStatus.FAILED
    leader = node.view().attempt(node.view().leader)
    assert "MALLOC_TRIM_THRESHOLD_" in leader.candidate.env and "dtype" not in leader.candidate.flags


def test_small_gains_within_the_noise_are_tried_together(make_node):
    def speed(candidate):
        flags, env = candidate.flags, candidate.env
        small = [flags.get("stream-interval") == 4, flags.get("page-size") == 16, bool(env.get("MALLOC_TOP_PAD_"))]
        return 2.0 * 1.04 ** sum(small)

    node = make_node(speed, noise=0.0)
    for one in ({"stream-interval": 4}, {"page-size": 16}):
        candidate = node.attempts[0].candidate
        node.climb(candidate.model_copy(update={"flags": {**candidate.flags, **one}}), "r0.1", "playbook")
    # a noise that hides 4 % but not 8 %
    loud = node.view(noise=0.025)
    rows = tuple(a.model_copy(update={"status": AttemptStatus.DISCARDED}) if a.number > 1 else a for a in loud.attempts)
    view = loud.model_copy(update={"attempts": rows, "leader": "r0.1"})
    first = next(i for i in ideas(standing(view, offers(site_of(view))), offers(site_of(view))) if "+" in i.axis)
    assert first.option.flags == {"stream-interval": 4, "page-size": 16}


def test_a_gain_found_on_another_parent_is_added_to_the_leader(make_node):
    node = make_node(noise=0.0)
    base = node.attempts[0].candidate
    node.climb(base.model_copy(update={"flags": {**base.flags, "dtype": "float32"}}), "r0.1", "llm")
    node.climb(base.model_copy(update={"flags": {**base.flags, "max-running-requests": 8}}), "r0.1", "llm")
    action = Playbook().decide(node.view()).actions[0]
    assert node.view().leader == "r0.2" == action.parent
    assert dict(action.flags) == {"max-running-requests": 8}


def test_a_loss_is_tried_again_once_an_interacting_axis_changed(make_node):
    node = make_node(noise=0.0)
    base = node.attempts[0].candidate
    compiled = {**base.flags, "enable-torch-compile": True}
    node.climb(base.model_copy(update={"flags": compiled}), "r0.1", "llm")  # loses 2 % without float32
    node.climb(base.model_copy(update={"flags": {**base.flags, "dtype": "float32"}}), "r0.1", "llm")
    view = node.view()
    found = ideas(standing(view, offers(site_of(view))), offers(site_of(view)))
    assert [i for i in found if i.axis == "compile" and "interact" in i.why]


def test_neighbours_of_a_number_that_helped_are_tried(make_node):
    def speed(candidate):
        return 2.0 * (1 + 0.1 * math.log2(int(candidate.flags.get("num-continuous-decode-steps", 1)) or 1))

    node = make_node(speed, noise=0.0)
    node.search(Playbook(patience=1000), 60)
    leader = node.view().attempt(node.view().leader)
    assert leader.candidate.flags["num-continuous-decode-steps"] == 32


def limited(node, bound, misses=(), running=None, queue=None):
    """The view with the baseline's knee bound by something."""
    view = node.view()
    base = view.attempts[0]
    knee = base.knees[0][2].model_copy(update={"bound_by": bound})
    point = LoadPoint(
        workload=knee.workload, rate_rps=3, seed=0, window_s=8, offered=9, completed=9, failed=0, output_tok_s=1,
        total_tok_s=1, success_share=1, steady=True, meets_slo=False, misses=misses, running_max=running,
        queue_max=queue,
    )  # fmt: skip
    base = base.model_copy(update={"knees": ((1, Rung.MEASURE, knee),), "points": ((1, Rung.MEASURE, point),)})
    return view.model_copy(update={"attempts": (base,)})


def order(view):
    offered = offers(site_of(view))
    return [i.axis for i in ideas(standing(view, offered), offered)]


def test_what_limits_the_knee_steers_the_order(make_node):
    node = make_node()
    by_ttft, by_tpot = order(limited(node, "p95 TTFT")), order(limited(node, "median TPOT"))
    assert by_ttft.index("policy") < by_ttft.index("continuous-decode")
    assert by_tpot.index("continuous-decode") < by_tpot.index("policy")


def test_s47_requests_that_queue_at_the_cap_show_an_admission_cap(make_node, glm):
    from day0.runs.engine_facts import BootFacts

    node = make_node(**glm)
    view = limited(node, "p95 TTFT", running=48, queue=20)
    boot = BootFacts(ready_s=1, version="0.5.23", model_path="m", max_running_requests=48)
    seen = standing(view.model_copy(update={"boots": {"r0.1": boot}}), offers(site_of(view)))
    assert "cap" in seen.limits
    roomy = boot.model_copy(update={"max_running_requests": 200})
    assert "cap" not in standing(view.model_copy(update={"boots": {"r0.1": roomy}}), offers(site_of(view))).limits


def test_on_a_gpu_node_it_starts_with_layout_speculation_and_an_explicit_cap_together(make_node, glm):
    node = make_node(lambda candidate: 2.0, **glm)
    action = Playbook().decide(node.view()).actions[0]
    assert {"topology", "speculation"} <= set(action.axis.split("+"))
    assert action.flags["max-running-requests"] > 48 and action.flags["disable-custom-all-reduce"] is True
    assert action.flags["tp-size"] * action.flags["dp-size"] == 8


def test_what_was_refused_by_others_is_not_proposed_again(make_node):
    node = make_node()
    first = Playbook().decide(node.view()).actions[0]
    node.answers = (Answer(round=1, action=first, refused=True, text="no"),)
    assert Playbook().decide(node.view()).actions[0] != first


def test_it_waits_for_the_baseline(make_node):
    node = make_node()
    running = node.attempts[0].model_copy(update={"status": AttemptStatus.RUNNING})
    assert Playbook().decide(node.view(attempts=(running,), leader=None)).actions == ()
    assert Playbook().decide(node.view(attempts=(), leader=None, baseline=None)).actions == ()


def test_a_baseline_that_does_not_work_is_mended(make_node):
    def fails(candidate):
        return None if candidate.flags.get("page-size") == 16 else FailureClass.CRASHED

    node = make_node(noise=0.0, fails=fails)
    node.search(Playbook(patience=1000), 60)
    assert any(a.status == AttemptStatus.KEPT and a.candidate.flags.get("page-size") == 16 for a in node.attempts)


def test_default_finishes_at_once_and_random_is_a_function_of_seed_and_view(make_node):
    node = make_node()
    assert isinstance(Default().decide(node.view()).actions[0], Finish)
    assert Random(1).decide(node.view()) == Random(1).decide(node.view())
    assert Random(1, batch=4).decide(node.view()) != Random(2, batch=4).decide(node.view())
