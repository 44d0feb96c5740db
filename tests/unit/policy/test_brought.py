"""Diffs that a person brought: tried first, once each, and by nobody else's leave."""

import pytest
from day0.agent.policy.actions import Finish
from day0.agent.policy.base import Answer
from day0.agent.policy.brought import OPTION, PERSON, Brought, name_of
from day0.agent.policy.controls import Default
from day0.agent.policy.guard import admit
from day0.agent.policy.playbook import Playbook
from day0.runs.errors import Refused
from day0.runs.patches import Patch

DIFF = """\
diff --git a/sglang/python/sglang/x.py b/sglang/python/sglang/x.py
--- a/sglang/python/sglang/x.py
+++ b/sglang/python/sglang/x.py
@@ -1 +1 @@
-a
+b
"""


@pytest.fixture
def node(make_node):
    made = make_node()
    request = made.request()
    made.request = lambda: request.model_copy(
        update={"policy": "playbook", "options": {OPTION: [{"name": "faster", "diff": DIFF}]}}
    )
    return made


def patch(name="faster", author=PERSON):
    return Patch(
        name=name, title="t", author=author, build="sha256:e", diff=DIFF, before={}, after={"x.py": "sha256:1"}
    )


def test_a_diff_comes_before_what_the_policy_thinks_of_and_is_admitted_under_any_policy(node):
    proposal = Brought(Playbook()).decide(node.view())
    (action,) = proposal.actions
    assert (proposal.proposer, action.diff, action.parent, action.axis) == (PERSON, DIFF, "r0.1", "patch")
    assert not isinstance(admit(action, node.view()), Refused)
    other = action.model_copy(update={"diff": DIFF + "\n"})
    assert "only an LLM may propose a diff" in str(admit(other, node.view()))
    assert name_of(DIFF, node.request()) == "faster" and not name_of("", node.request())


def test_it_is_tried_once_made_or_refused(node):
    brought = Brought(Default())
    (action,) = brought.decide(node.view()).actions
    made = node.view(patches={patch().digest(): patch()})
    refused = node.view(answers=(Answer(round=1, action=action, refused=True, text="does not apply"),))
    for view in (made, refused):
        assert isinstance(brought.decide(view).actions[0], Finish)
    other = node.view(patches={"sha256:1": patch(author="llm")})
    assert brought.decide(other).actions[0].diff == DIFF, "another's patch of the same name is not it"


def test_nothing_is_tried_before_the_baseline(node):
    assert brought_nothing(Brought(Playbook()).decide(node.view(baseline=None, attempts=())))


def brought_nothing(proposal):
    return proposal.proposer != PERSON
