"""Whom failures are blamed on."""

from __future__ import annotations

from day0.agent.policy.axes import offers, site_of
from day0.agent.policy.belief import difference
from day0.agent.policy.explore import reach_of
from day0.agent.policy.playbook import Playbook
from day0.agent.policy.trials import standing
from day0.runs.facts import FailureClass
from day0.runs.schema import AttemptStatus


def too_large(candidate):
    """Memory that somebody holds: the engine's own share of it does not fit, nor a larger one."""
    return FailureClass.OOM if float(candidate.flags.get("mem-fraction-static", 0.88)) > 0.86 else None


def test_several_values_of_one_number_that_fail_alike_lead_to_a_smaller_one(make_node, glm):
    node = make_node(lambda c: 1.0, noise=0.01, fails=too_large, **glm)
    node.search(Playbook(), 4)
    assert node.attempts[0].status == AttemptStatus.FAILED
    works = [a for a in node.attempts if a.status == AttemptStatus.KEPT]
    assert works and float(works[0].candidate.flags["mem-fraction-static"]) <= 0.86


def test_an_image_is_a_suspect_only_where_there_is_another(make_node, glm):
    node = make_node(lambda c: 1.0, noise=0.01, **glm)
    for images in ({}, {"sha256:other": "the next release"}):
        view = node.view(images=images)
        offered = offers(site_of(view))
        reach = reach_of(view, standing(view, offered), offered)
        named = reach.risk.suspects(reach.belief.settings(reach.leader), False)
        assert any(n.startswith("build=") for n in named) == bool(images)


def test_a_bundle_that_brought_little_does_not_make_other_values_of_its_keys_look_better(make_node, glm):
    """After a bundle that was expected to bring far more, nothing else than layouts and single new axes is left."""
    node = make_node(lambda c: 1.0, noise=0.01, **glm)
    node.search(Playbook(), 1)
    first = node.attempts[1].candidate
    chosen = {k: v for k, v in first.flags.items() if k in {"chunked-prefill-size", "num-continuous-decode-steps"}}
    assert chosen, "the first bundle holds numbers of which there are others"
    view = node.view(leader="r0.2")
    offered = offers(site_of(view))
    reach = reach_of(view, standing(view, offered), offered)
    assert not any(set(option.flags) & set(chosen) for _, option in reach.moves)


def test_effects_are_summed_in_one_order_whatever_python_hashes_to():
    """Same seed, same result: the last bits of a sum decide between options that promise alike."""
    one, other = {"level": 1.0, "zeta": 1.0, "alpha": 1.0}, {"level": 1.0, "mid": 1.0}
    assert list(difference(one, other).items()) == [("alpha", 1.0), ("mid", -1.0), ("zeta", 1.0)]
