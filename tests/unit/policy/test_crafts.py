"""What is made before a candidate exists: repairs by known issue, tuned kernels, an LLM's diff; and what is refused."""

import pytest
from day0.agent import prompts
from day0.agent.policy.actions import TryCandidate
from day0.agent.policy.axes import offers, site_of
from day0.agent.policy.base import Answer
from day0.agent.policy.calls import parse
from day0.agent.policy.context import build
from day0.agent.policy.crafts import applied, codemods_for
from day0.agent.policy.guard import admit
from day0.agent.policy.llm_policy import LLMPolicy
from day0.agent.policy.playbook import Playbook
from day0.agent.policy.trials import standing
from day0.agent.scripted_llm import ScriptedLLM, call
from day0.runs.candidate import Candidate
from day0.runs.engine_facts import BootFacts
from day0.runs.errors import Refused
from day0.runs.facts import FailureClass, Rung, Verdict
from day0.runs.patches import Patch, Table
from day0.tools.codemods import CODEMODS
from day0.tools.known import known_issues

PATCH = Patch(
    name="rocm-guard", title="Guard a header", author="codemod:rocm-guard", build="sha256:e", diff="--- a\n+++ b\n",
    before={"x.cuh": "sha256:1"}, after={"x.cuh": "sha256:2"},
)  # fmt: skip
TABLE = Table(build="sha256:e", arch="gfx950", variable="AITER_CONFIG_FMOE", text="a,b\n1,2\n", rows=1, shapes=("s",))
DIFF = """\
diff --git a/sglang/python/sglang/x.py b/sglang/python/sglang/x.py
--- a/sglang/python/sglang/x.py
+++ b/sglang/python/sglang/x.py
@@ -1 +1 @@
-a
+b
"""


@pytest.fixture
def node(make_node, glm):
    """A node whose second attempt failed by the known issue of a missing header."""
    made = make_node(lambda candidate: 1.0, noise=0.0, **glm)
    made.search(Playbook(), 1)
    attempt = made.attempts[1]
    failed = Verdict(
        rung=Rung.BOOT, passed=False, failure=FailureClass.HEADER_COMPILE, evidence="no header", issue="jit-cuda-header"
    )
    update = {"verdicts": (failed,), "knees": (), "status": "failed", "expected_gain": 0.6, "reason": "no header"}
    made.attempts[1] = type(attempt).model_validate({**attempt.model_dump(), **update})
    return made


def asked(**more) -> TryCandidate:
    return TryCandidate(**{"parent": "r0.2", "hypothesis": "h", "expected_gain": 0.1, **more})


def repaired(node, parent="r0.2", patch=PATCH) -> Candidate:
    candidate = next(a for a in node.attempts if a.id == parent).candidate
    return Candidate.model_validate({**candidate.model_dump(), "patches": (*candidate.patches, patch.digest())})


def test_a_failure_with_a_shipped_repair_comes_back_with_it_before_anything_else(node):
    action = Playbook().decide(node.view()).actions[0]
    assert (action.parent, action.codemods, action.axis) == ("r0.2", ("rocm-guard",), "repair")
    assert action.expected_gain == pytest.approx(0.6) and not action.flags
    assert admit(action, node.view()) == node.attempts[1].candidate


def test_every_repair_named_by_a_known_issue_is_shipped_and_every_shipped_one_is_named():
    named = {name for issue in known_issues() for name in codemods_for(issue.id)}
    assert named == set(CODEMODS)
    assert codemods_for("no-such-issue") == ()


def test_a_repair_that_could_not_be_made_is_not_asked_for_again(node):
    action = Playbook().decide(node.view()).actions[0]
    node.answers = (Answer(round=1, action=action, refused=True, text="nothing to change"),)
    assert Playbook().decide(node.view()).actions[0].codemods == ()
    assert "nothing to change" in admit(action, node.view()).reason


def test_the_same_craft_of_the_same_parent_is_refused(node):
    node.climb(repaired(node), "r0.2", "playbook")
    view = node.view(patches={PATCH.digest(): PATCH})
    assert applied(node.attempts[-1].candidate, view) == {"rocm-guard"}
    assert "r0.3" in admit(asked(codemods=("rocm-guard",)), view).reason
    assert "has the repair" in admit(asked(parent="r0.3", codemods=("rocm-guard",)), view).reason
    assert not isinstance(admit(asked(codemods=("nextn-prefixes",)), view), Refused)


def test_unknown_and_doubled_repairs_are_refused(node):
    assert "day0 ships" in admit(asked(codemods=("make-it-fast",)), node.view()).reason
    assert "twice" in admit(asked(codemods=("rocm-guard", "rocm-guard")), node.view()).reason


def test_only_where_an_llm_may_be_asked_is_a_diff_taken(node):
    view = node.view()
    for policy, taken in (("llm", True), ("auto", True), ("playbook", False), ("random", False)):
        asking = view.model_copy(update={"request": view.request.model_copy(update={"policy": policy})})
        found = admit(asked(diff=DIFF), asking)
        assert isinstance(found, Candidate) == taken
    assert "only an LLM" in found.reason


def test_a_craft_with_a_banned_flag_is_refused_all_the_same(node):
    found = admit(asked(codemods=("rocm-guard",), flags={"load-format": "dummy"}), node.view())
    assert isinstance(found, Refused)


def test_tuning_twice_for_one_parent_is_refused(node):
    candidate = node.attempts[0].candidate
    tuned = Candidate.model_validate({**candidate.model_dump(), "tables": (TABLE.digest(),)})
    assert not isinstance(admit(asked(parent="r0.1", tune=True), node.view()), Refused)
    node.climb(tuned, "r0.1", "playbook")
    assert "r0.3" in admit(asked(parent="r0.1", tune=True), node.view(tables={TABLE.digest(): TABLE})).reason


def test_a_repaired_failure_no_longer_speaks_against_its_settings(node):
    from day0.agent.policy import explore

    view = node.view(patches={PATCH.digest(): PATCH})
    offered = offers(site_of(view))
    reach = explore.reach_of(view, standing(view, offered), offered)
    broken, mended = node.attempts[1].candidate, repaired(node)
    chance = [reach.risk.works(reach.belief.settings(explore.Plan(c)), False) for c in (broken, mended)]
    assert chance[0] < 0.2 < chance[1]


def test_patches_and_tables_are_attributed_to_what_made_them(node):
    node.climb(repaired(node, "r0.1"), "r0.1", "playbook")
    candidate = node.attempts[0].candidate
    tuned = Candidate.model_validate({**candidate.model_dump(), "tables": (TABLE.digest(),)})
    node.climb(tuned, "r0.1", "playbook")
    view = node.view(patches={PATCH.digest(): PATCH}, tables={TABLE.digest(): TABLE})
    trials = {t.attempt.id: (t.axis.name, t.option.label) for t in standing(view, offers(site_of(view))).trials}
    assert trials["r0.3"] == ("repair", "rocm-guard")
    assert trials["r0.4"] == ("tuning", "tuned expert kernels")


def test_an_llm_may_send_a_diff(node):
    llm = ScriptedLLM([call("try_candidate", parent="r0.2", diff=DIFF, hypothesis="the guard", expected_gain=0.5)])
    view = node.view()
    view = view.model_copy(update={"request": view.request.model_copy(update={"policy": "llm"})})
    proposal = LLMPolicy(llm, prompts.load()).decide(view)
    assert proposal.proposer == "llm" and proposal.actions[0].diff == DIFF and proposal.actions[0].crafted


def test_a_long_diff_passes_the_schema_and_an_endless_one_does_not():
    import json

    def arguments(size):
        return json.dumps({"parent": "r0.2", "diff": "x" * size, "hypothesis": "h", "expected_gain": 0})

    assert parse("try_candidate", arguments(50_000)).crafted
    with pytest.raises(Refused):
        parse("try_candidate", arguments(70_000))


def test_the_context_names_repairs_patches_tables_images_and_fallbacks(node):
    node.climb(repaired(node), "r0.2", "playbook")
    boot = BootFacts(ready_s=1, version="0.5.23", model_path="m", fallback_lines=7)
    text = build(
        node.view(
            patches={PATCH.digest(): PATCH}, tables={TABLE.digest(): TABLE}, images={"sha256:o": "next"},
            boots={"r0.1": boot},
        )
    )  # fmt: skip
    for word in ("codemod rocm-guard", "mended by codemod rocm-guard", "x.cuh", "1 rows", "sha256:o", "7 log lines"):
        assert word in text, word
    assert "patches (absent)→rocm-guard" in text


def failed_of(node, number, issue, failure=FailureClass.MISSING_KERNEL):
    attempt = node.attempts[number - 1]
    verdict = Verdict(rung=Rung.BOOT, passed=False, failure=failure, evidence="a line", issue=issue)
    update = {"verdicts": (verdict,), "knees": (), "status": "failed", "reason": "a line"}
    node.attempts[number - 1] = type(attempt).model_validate({**attempt.model_dump(), **update})


def test_the_settings_that_lead_around_a_known_issue_are_proposed_next(make_node, glm):
    made = make_node(lambda candidate: 1.0, noise=0.0, **glm)
    made.search(Playbook(), 1)
    failed_of(made, 2, "moe-shape-not-tunable")
    action = Playbook().decide(made.view()).actions[0]
    assert (action.parent, dict(action.flags), action.axis) == ("r0.2", {"moe-runner-backend": "triton"}, "repair")
    assert "moe-shape-not-tunable" in action.hypothesis
    tried = admit(action, made.view())
    assert isinstance(tried, Candidate)
    made.climb(tried, "r0.2", "playbook")
    failed_of(made, 3, "moe-shape-not-tunable")
    assert Playbook().decide(made.view()).actions[0].axis != "repair", "what did not help is not tried again"


def test_every_remedy_of_settings_names_settings_that_are_not_banned():
    from day0.agent.policy import bans

    typed = [(i.id, r) for i in known_issues() for r in i.remedies if r.flags or r.env]
    assert len(typed) > 20
    for issue, remedy in typed:
        for name, value in remedy.flags.items():
            assert not name.startswith("-") and (value is None or not bans.flag_ban(name, value)), issue
        for name, text in remedy.env.items():
            assert text is None or not bans.env_ban(name, text, {}), (issue, name)
