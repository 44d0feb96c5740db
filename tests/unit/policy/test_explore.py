"""The search on accelerators: bundles, blame, the anchored forecast, and the order of tuning."""

import math

import pytest
from day0.agent.policy import explore
from day0.agent.policy.actions import Finish
from day0.agent.policy.axes import offers, site_of
from day0.agent.policy.expectation import FAR_OFF, Shape, expected, pace_of, shape_of
from day0.agent.policy.guard import admit
from day0.agent.policy.playbook import Playbook
from day0.agent.policy.trials import standing
from day0.runs.candidate import Candidate
from day0.runs.engine_facts import BootFacts
from day0.runs.errors import Refused
from day0.runs.facts import FailureClass
from day0.runs.schema import AttemptStatus
from hypothesis import given
from hypothesis import strategies as st

SPEC = "speculative-algorithm"


def speed(candidate):
    """Narrow replicas, speculation and a small cache pay; everything else does nothing."""
    flags = candidate.flags
    out = {8: 1.0, 4: 1.5, 2: 1.8, 1: 1.2}[int(flags.get("tp-size", 1))]
    out *= {0: 1.0, 1: 1.2, 2: 1.3, 3: 1.4, 5: 1.35}.get(int(flags.get("speculative-num-steps", 0)), 1.3)
    return out * (1.1 if flags.get("kv-cache-dtype") == "fp8_e4m3" else 1.0)


BEST = 1.8 * 1.4 * 1.1


@pytest.fixture
def gpu(make_node, glm):
    def make(speed=speed, noise=0.0, **more):
        return make_node(speed, noise, **{**glm, **more})

    return make


def reach(node, **more):
    view = node.view(**more)
    offered = offers(site_of(view))
    return explore.reach_of(view, standing(view, offered), offered)


def ideas(node, **more):
    return explore.explored(reach(node, **more))


def test_three_attempts_find_the_best_layout_with_speculation(gpu):
    node = gpu()
    node.search(Playbook(), 3)
    assert node.best() == pytest.approx(BEST, rel=0.08)


def test_the_first_experiment_is_a_bundle_and_its_reason_says_so(gpu):
    action = Playbook().decide(gpu().view()).actions[0]
    assert len(action.axis.split("+")) > 3 and "at once" in action.hypothesis
    assert action.expected_gain > 0.3


def test_a_bundle_with_a_lossy_culprit_comes_back_without_it(gpu):
    def fails(candidate):
        lossy = candidate.flags.get("kv-cache-dtype") == "fp8_e4m3"
        return FailureClass.ACCURACY_WRONG_OUTPUT if lossy else None

    node = gpu(fails=fails)
    node.search(Playbook(), 3)
    failed = [a for a in node.attempts if a.status == AttemptStatus.FAILED]
    assert len(failed) == 1 and node.best() >= 1.8 * 1.3
    leader = node.view().attempt(node.view().leader)
    assert SPEC in leader.candidate.flags and "kv-cache-dtype" not in leader.candidate.flags


def test_a_layout_that_cannot_run_is_left_and_all_else_of_the_bundle_kept(gpu):
    def fails(candidate):
        return FailureClass.MISSING_KERNEL if candidate.flags.get("tp-size") in {1, 2} else None

    node = gpu(fails=fails)
    node.search(Playbook(), 5)
    leader = node.view().attempt(node.view().leader)
    assert leader.candidate.flags["tp-size"] == 4 and SPEC in leader.candidate.flags
    assert sum(a.status == AttemptStatus.FAILED for a in node.attempts) <= 2


def test_drafts_that_are_too_deep_are_not_tried_deeper(gpu):
    def fails(candidate):
        deep = int(candidate.flags.get("speculative-num-steps", 0)) >= 3
        return FailureClass.SPECULATIVE if deep else None

    node = gpu(fails=fails)
    node.search(Playbook(), 12)
    tried = [int(a.candidate.flags.get("speculative-num-steps", 0)) for a in node.attempts]
    assert sum(steps >= 3 for steps in tried) <= 2
    leader = node.view().attempt(node.view().leader)
    assert leader.candidate.flags["speculative-num-steps"] in {1, 2}


def test_a_dead_lock_is_blamed_on_the_custom_all_reduce_before_speculation(gpu):
    node = gpu()
    node.search(Playbook(), 1)
    leader = node.view().attempt(node.view().leader).candidate
    unsafe = leader.model_copy(update={"flags": {k: v for k, v in leader.flags.items() if "custom" not in k}})
    node.fails = lambda c: FailureClass.HANG_DEADLOCK if "disable-custom-all-reduce" not in c.flags else None
    node.climb(unsafe, "r0.2", "llm")
    risk = reach(node).risk
    belief = reach(node).belief
    assert risk.works(belief.settings(explore.Plan(Candidate.model_validate(unsafe.model_dump()))), False) < 0.2
    assert risk.works(belief.settings(explore.Plan(leader)), False) > 0.9


def test_what_the_forecast_says_cannot_fit_is_never_proposed(gpu, glm):
    node = gpu(model=glm["model"].model_copy(update={"weight_bytes": None}))
    assert expected(Shape(1, 8, 1, 1, False, 0, False), site_of(node.view())).why_not
    node.search(Playbook(patience=1000), 40)
    assert all(a.candidate.flags.get("tp-size") != 1 for a in node.attempts)


def test_measured_points_shift_what_the_forecast_expects(gpu):
    """TP2 was forecast to pay and did not: every plan of that width is expected to bring less than before."""
    node = gpu(lambda c: 0.5 if c.flags.get("tp-size") == 2 else 1.0)
    before = reach(node)
    narrow = node.attempts[0].candidate.model_copy(update={"flags": {"tp-size": 2, "dp-size": 4}})
    plan = explore.Plan(Candidate.model_validate({**narrow.model_dump(), "flags": {"tp-size": 2, "dp-size": 4}}))
    was = before.promise(plan)[1]
    node.climb(narrow, "r0.1", "llm")
    other = Candidate.model_validate({**narrow.model_dump(), "flags": {**narrow.flags, "ep-size": 2}})
    now = reach(node).promise(explore.Plan(other))[1]
    assert was > 0.2 and now < was - 0.3


def test_kernels_are_tuned_once_the_layout_stands_and_only_where_a_boot_said_so(gpu):
    node = gpu()
    node.search(Playbook(), 4)
    boot = BootFacts(ready_s=1, version="0.5.23", model_path="m", fallback_lines=40)
    leader = node.view().leader
    assert not any(i.tune for i in ideas(node))
    told = ideas(node, boots={leader: boot})
    assert any(i.tune for i in told)
    action = next(a for a in Playbook(batch=3).decide(node.view(boots={leader: boot})).actions if a.tune)
    assert action.parent == leader and action.crafted and not isinstance(admit(action, node.view()), Refused)


def test_before_the_layout_stands_nothing_is_tuned(gpu):
    node = gpu()
    boot = BootFacts(ready_s=1, version="0.5.23", model_path="m", fallback_lines=40)
    assert not any(i.tune for i in ideas(node, boots={"r0.1": boot}))


def test_every_inherited_flag_may_be_taken_away(gpu):
    node = gpu()
    node.search(Playbook(), 1)
    leader = node.view().attempt(node.view().leader).candidate
    prunings = [i for i in ideas(node) if i.axis == "prune"]
    pruned = {key for i in prunings for key in i.option.flags}
    assert set(leader.flags) - {"tp-size", "dp-size"} <= pruned
    together = next(i for i in prunings if len(i.option.flags) > 4)
    assert together.promise > min(i.promise for i in prunings)


def test_small_inherited_flags_are_taken_away_together_only_once(gpu):
    node = gpu()
    node.search(Playbook(patience=40), 40)
    at = {a.id: a for a in node.attempts}
    changes = [a.candidate.changed(at[a.parent].candidate) for a in node.attempts if a.parent]
    assert sum(len(c) > 4 and all(new is None for _, new in c.values()) for c in changes) == 1


def test_a_baseline_without_memory_is_not_held_against_its_layout(gpu):
    """The engine's own share of memory does not fit: the layout is not to blame, nor is a narrower one."""
    node = gpu(fails=lambda c: FailureClass.OOM if "mem-fraction-static" not in c.flags else None)
    node.search(Playbook(), 4)
    assert node.view().leader is not None
    widths = {a.candidate.flags.get("tp-size") for a in node.attempts if a.status != AttemptStatus.FAILED}
    assert len(widths) > 1


def test_failures_in_the_same_words_are_blamed_on_what_they_share(gpu):
    """Every layout but the node-wide one breaks: after a few boots the search stays at the width that works."""
    node = gpu(fails=lambda c: FailureClass.CRASHED if int(c.flags.get("dp-size", 1)) > 1 else None)
    node.search(Playbook(), 8)
    failed = [a for a in node.attempts if a.status == AttemptStatus.FAILED]
    assert len(failed) <= 4 and SPEC in node.view().attempt(node.view().leader).candidate.flags


def test_a_narrow_split_that_works_clears_the_wider_ones(gpu):
    node = gpu(fails=lambda c: FailureClass.CRASHED if len(c.flags) == 1 else None)
    node.search(Playbook(), 2)
    risk, belief = reach(node).risk, reach(node).belief
    leader = node.view().attempt(node.view().leader).candidate
    wider = leader.model_copy(update={"flags": type(leader.flags)({**leader.flags, "tp-size": 8, "dp-size": 1})})
    assert risk.works(belief.settings(explore.Plan(wider)), False) > 0.6


def test_an_inherited_flag_that_hurts_is_found(gpu):
    node = gpu(lambda c: speed(c) * (0.6 if "stream-interval" in c.flags else 1.0))
    node.search(Playbook(patience=20), 25)
    assert "stream-interval" not in node.view().attempt(node.view().leader).candidate.flags


def test_a_baseline_that_does_not_boot_is_left_for_one_that_does(gpu):
    node = gpu(fails=lambda c: FailureClass.OOM if c.flags.get("tp-size") == 8 else None)
    node.search(Playbook(), 3)
    assert any(a.status == AttemptStatus.KEPT for a in node.attempts)


def test_the_search_ends_by_itself(gpu):
    node = gpu(lambda c: 1.0)
    notes = node.search(Playbook(), 200)
    assert notes[-1].startswith("finish") and len(node.attempts) < 30


def test_the_same_view_gives_the_same_proposal(gpu):
    node = gpu(noise=0.02)
    node.search(Playbook(), 4)
    assert Playbook().decide(node.view()) == Playbook().decide(node.view())


def test_other_images_are_within_reach(gpu):
    node = gpu()
    view = node.view(images={"sha256:other": "the next release"})
    found = [i for i in ideas(node, images={"sha256:other": "the next release"}) if i.option.image]
    assert found and found[0].option.image == "sha256:other"
    action = explore_action(found[0])
    made = admit(action, view)
    assert not isinstance(made, Refused) and made.build == "sha256:other"
    assert "no node of this run" in admit(action, node.view()).reason


def explore_action(idea):
    from day0.agent.policy.ideas import action_of

    return action_of(idea, "r0.1")


@given(mean=st.floats(-3, 3), sd=st.floats(1e-3, 2))
def test_an_expected_improvement_is_positive_and_at_least_the_mean(mean, sd):
    found = explore.improvement(mean, sd)
    assert found >= max(0.0, mean) - 1e-9 and math.isfinite(found)


def test_older_builds_name_attention_parallelism_by_a_switch():
    base = {"engine": "sglang", "build": "b", "model": "m", "revision": "r"}
    new = Candidate(**base, flags={"tp-size": 8, "attn-dp-size": 8})
    old = Candidate(**base, flags={"tp-size": 8, "enable-dp-attention": True, "dp-size": 8})
    assert shape_of(new) == shape_of(old)


def test_it_never_proposes_what_the_guard_refuses(gpu):
    node = gpu(noise=0.01)
    for _ in range(12):
        for action in Playbook(batch=4).decide(node.view()).actions:
            if isinstance(action, Finish):
                return
            candidate = admit(action, node.view())
            assert not isinstance(candidate, Refused)
            if all(a.candidate != candidate for a in node.attempts):
                node.climb(candidate, action.parent, "playbook")


@pytest.mark.parametrize("share", [0.6, 0.8, 1.5])
def test_the_forecast_of_a_measured_layout_is_what_was_measured(gpu, share):
    site = site_of(gpu().view())
    shape = Shape(tp=8, dp=1, ep=1, attention_dp=1, speculation=False, cap=0, kv_byte=False)
    told = expected(shape, site).tok_s
    pace = pace_of(shape, told * share, site)
    assert expected(shape, site, pace).tok_s == pytest.approx(told * share, rel=0.15)
    assert 1 / FAR_OFF <= pace <= FAR_OFF and (pace > 1) == (share < 1)


def test_a_better_layout_that_ran_out_of_memory_comes_back_with_a_smaller_chunk(gpu):
    """The workspace of a chunk has no room beside wider weights: the engine's own chunk is too large there."""

    def fails(candidate):
        narrow = int(candidate.flags.get("tp-size", 1)) == 4
        return FailureClass.OOM if narrow and float(candidate.flags.get("chunked-prefill-size", 16384)) > 8192 else None

    def layouts(candidate):
        return {8: 1.0, 4: 1.5, 2: 0.5, 1: 0.4}[int(candidate.flags.get("tp-size", 1))]

    node = gpu(layouts, noise=0.01, fails=fails)
    node.search(Playbook(), 10)
    leader = node.view().attempt(node.view().leader)
    assert leader.candidate.flags["tp-size"] == 4
    assert leader.candidate.flags["chunked-prefill-size"] == 8192
