"""Whom failures are blamed on."""

from __future__ import annotations

from day0.agent.policy.playbook import Playbook
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


def test_the_only_image_is_never_at_fault(make_node, glm):
    """Two failures that share nothing but the image do not end the search."""
    node = make_node(lambda c: 1.0, noise=0.01, fails=lambda c: FailureClass.CRASHED, **glm)
    node.search(Playbook(patience=20), 6)
    assert len(node.attempts) == 7, "six experiments, none of them given up for the image that all of them have"
