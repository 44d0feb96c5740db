"""Each tool of the LLM and the shared action that it stands for."""

import json

import pytest
from day0.agent import prompts
from day0.agent.policy import sweeps
from day0.agent.policy.actions import GrepSource, ReadLog, ReadSource, SearchUpstream, Sweep, TryCandidate
from day0.agent.policy.base import Answer, LLMDown, Told
from day0.agent.policy.calls import TOOLS, actions_of, parse
from day0.agent.policy.guard import check_flags
from day0.agent.policy.hearing import ROUNDS_OF_QUESTIONS
from day0.agent.policy.llm_policy import STAND_IN, LLMPolicy
from day0.agent.scripted_llm import ScriptedLLM, call
from day0.runs.errors import Refused
from day0.runs.schema import AttemptStatus

CLAIM = {"hypothesis": "because", "expected_gain": 0.1}
SWEEP = {"parent": "r0.1", "space": {"max-running-requests": [2, 16]}, "whole": ["max-running-requests"], "trials": 4}
DIFF = """\
diff --git a/sglang/python/sglang/srt/x.py b/sglang/python/sglang/srt/x.py
--- a/sglang/python/sglang/srt/x.py
+++ b/sglang/python/sglang/srt/x.py
@@ -1 +1 @@
-a = 1
+a = 2
"""


def made(name, view, **arguments):
    return actions_of(parse(name, json.dumps(arguments)), view)


@pytest.mark.parametrize(
    "name", ["try_candidates", "sweep", "write_patch", "apply_codemod", "build_image", "tune_kernels", "ablate"]
)
def test_whatever_is_made_or_changed_states_a_hypothesis_and_a_gain(name):
    text = json.dumps(TOOLS[name].model_json_schema())
    assert '"hypothesis"' in text and '"expected_gain"' in text
    wanted = {"parent": "r0.1", "attempt": "r0.1", "space": {"page-size": [1, 8]}, "candidates": [{"parent": "r0.1"}]}
    wanted |= {"diff": DIFF, "codemods": ["x"], "image": "i", "without": ["dtype"]}
    some = {key: value for key, value in wanted.items() if key in TOOLS[name].model_fields}
    with pytest.raises(Refused, match="hypothesis"):
        parse(name, json.dumps(some))


def test_what_can_be_made_becomes_the_shared_action(shared_node):
    view = shared_node.view()
    (patch,) = made("write_patch", view, parent="r0.1", diff=DIFF, **CLAIM)
    (mend,) = made("apply_codemod", view, parent="r0.1", codemods=["rocm-guard"], **CLAIM)
    (image,) = made("build_image", view, parent="r0.1", image="sha256:i", flags={"--dp_size": 2}, **CLAIM)
    (tuned,) = made("tune_kernels", view, parent="r0.1", **CLAIM)
    assert all(isinstance(a, TryCandidate) for a in (patch, mend, image, tuned))
    assert (patch.diff, patch.axis) == (DIFF, "patch") and mend.codemods == ("rocm-guard",)
    assert (image.image, dict(image.flags)) == ("sha256:i", {"dp-size": 2}) and tuned.tune


def test_questions_are_the_loops_to_answer(shared_node):
    view = shared_node.view()
    assert made("grep_source", view, attempt="r0.1", text="def plan(") == [GrepSource(attempt="r0.1", text="def plan(")]
    assert made("read_source", view, attempt="r0.1", path="a.py") == [ReadSource(attempt="r0.1", path="a.py")]
    assert made("search_upstream", view, words=["mxfp4"]) == [SearchUpstream(words=("mxfp4",))]
    for bad in ("-rf /", "a b", "*.py;x"):
        with pytest.raises(Refused, match="files"):
            parse("grep_source", json.dumps({"attempt": "r0.1", "text": "def", "files": bad}))


def test_an_ablation_takes_changes_back_and_nothing_else(make_node):
    node = make_node(noise=0.0)
    wider = _climb(node, "r0.1", {"dtype": "float32", "stream-interval": 8})
    (back,) = made("ablate", node.view(), attempt=wider.id, without=["--stream-interval"], **CLAIM)
    assert back.parent == wider.id and dict(back.flags) == {"stream-interval": None}
    with pytest.raises(Refused, match=r"does not change 'page-size'"):
        made("ablate", node.view(), attempt=wider.id, without=["page-size"], **CLAIM)
    with pytest.raises(Refused, match=r"no attempt 'r9.9'"):
        made("ablate", node.view(), attempt="r9.9", without=["dtype"], **CLAIM)


def _climb(node, parent, flags):
    from day0.agent.policy.guard import admit

    return node.climb(admit(TryCandidate(parent=parent, flags=flags, **CLAIM), node.view()), parent, "llm")


def test_a_sweep_spends_its_trials_by_the_sampler_and_ends(make_node):
    node = make_node(noise=0.0)
    llm = ScriptedLLM([call("sweep", **SWEEP, **CLAIM)])
    first = LLMPolicy(llm, prompts.load()).decide(node.view())
    assert isinstance(first.actions[0], Sweep) and first.proposer == "llm"
    node.answers = (Answer(round=1, action=first.actions[0], refused=False, text="begun"),)
    told = LLMPolicy(ScriptedLLM([]), prompts.load())
    values = []
    for _ in range(4):
        view = node.view()
        (action,) = told.decide(view).actions
        assert told.decide(view).actions == (action,), "the same view asks the same"
        values.append(action.flags["max-running-requests"])
        assert action.axis == "sweep 1" and 2 <= values[-1] <= 16
        made_ = _climb_action(node, action)
        node.attempts[-1] = made_.model_copy(update={"action": action.axis})
    assert len(set(values)) == 4
    assert sweeps.open_sweep(node.view()) is None
    assert told.decide(node.view()).proposer == STAND_IN, "then the LLM is asked again"


def _climb_action(node, action):
    from day0.agent.policy.guard import admit

    return node.climb(admit(action, node.view()), action.parent, "llm")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"space": {"no-such-flag": [1, 2]}, "whole": []}, "unknown"),
        ({"space": {}}, "one to four"),
        ({"space": {"max-running-requests": [8, 2]}}, "below the highest"),
        ({"whole": ["page-size"]}, "not in the space"),
        ({"parent": "r9.9"}, "no attempt"),
        ({"space": {"context-length": [16, 32]}, "whole": []}, "banned"),
        ({"trials": 500}, "trials"),
    ],
)
def test_s55_a_sweep_that_can_not_be_is_told_why(shared_node, change, reason):
    view = shared_node.view()
    with pytest.raises(Refused, match=reason):
        action = parse("sweep", json.dumps({**SWEEP, **CLAIM, **change}))
        raise Refused(sweeps.against(action, view, check_flags))


def test_a_sweep_whose_points_do_not_work_is_given_up(make_node):
    node = make_node(noise=0.0)
    sweep = Sweep(**SWEEP, **CLAIM)
    node.answers = (Answer(round=1, action=sweep.model_copy(update={"trials": 12}), refused=False, text="begun"),)
    failed = node.attempts[0].model_copy(update={"status": AttemptStatus.FAILED, "action": "sweep 1"})
    node.attempts += [failed.model_copy(update={"id": f"r0.{n}", "number": n}) for n in (2, 3, 4)]
    assert sweeps.open_sweep(node.view()) is None


def test_known_issues_are_searched_at_once_by_a_line_of_a_log(make_node):
    line = "ImportError: cannot import name 'silu_and_mul' from 'sgl_kernel'"
    llm = ScriptedLLM([call("search_known_issues", text=line), call("finish", reason="x")])
    LLMPolicy(llm, prompts.load()).decide(make_node().view())
    said = llm.asked[1].messages[-1].content
    assert "<<<data known issues about" in said and "Remedies:" in said


def test_s54_the_same_question_is_not_answered_twice(make_node):
    node = make_node()
    asked = ReadLog(attempt="r0.1", lines=5)
    node.answers = (Answer(round=1, action=asked, refused=False, text="a line"),)
    llm = ScriptedLLM([call("read_log", attempt="r0.1", lines=5), call("read_log", attempt="r0.1", lines=6)])
    proposal = LLMPolicy(llm, prompts.load()).decide(node.view())
    assert "answered in round 1" in llm.asked[1].messages[-1].content
    assert proposal.actions == (ReadLog(attempt="r0.1", lines=6),)


def test_s55_one_that_only_asks_is_told_to_try_something_and_then_the_playbook_does(make_node):
    node = make_node()
    node.answers = tuple(
        Answer(round=n, action=ReadLog(attempt="r0.1", lines=n), refused=False, text="x")
        for n in range(1, ROUNDS_OF_QUESTIONS + 1)
    )
    view = node.view(round=ROUNDS_OF_QUESTIONS)
    turns = iter(range(100, 200))
    llm = ScriptedLLM(iter(lambda: lambda _: call("read_log", attempt="r0.1", lines=next(turns)), None))
    proposal = LLMPolicy(llm, prompts.load()).decide(view)
    assert proposal.proposer == STAND_IN and "rounds in a row only asked" in proposal.note


def test_a_second_look_at_a_patch_sends_it_back_once(make_node, glm):
    node = make_node(noise=0.0, **glm)
    view = node.view()
    view = view.model_copy(update={"request": view.request.model_copy(update={"policy": "llm"})})
    patch = call("write_patch", parent="r0.1", diff=DIFF, **CLAIM)
    no = call("judge_patch", sound=False, reason="it returns early")
    critic = ("critic.v1", prompts.load("critic.v1"))
    llm = ScriptedLLM([patch, no, patch])
    proposal = LLMPolicy(llm, prompts.load(), critic=critic).decide(view)
    assert [a.purpose for a in llm.asked] == ["plan", "critique", "plan"]
    assert "it returns early" in llm.asked[2].messages[-1].content
    assert proposal.actions[0].diff == DIFF and proposal.usage.calls == 3
    assert llm.asked[1].prompt == "critic.v1" and "<<<data the patch" in llm.asked[1].messages[1].content


@pytest.mark.parametrize("answer", [Told(text="fine"), call("judge_patch", sound=True), call("other"), "down"])
def test_a_critic_that_is_away_or_content_stops_no_patch(make_node, glm, answer):
    def down(_):
        raise LLMDown("gone")

    node = make_node(noise=0.0, **glm)
    view = node.view()
    view = view.model_copy(update={"request": view.request.model_copy(update={"policy": "llm"})})
    llm = ScriptedLLM([call("write_patch", parent="r0.1", diff=DIFF, **CLAIM), down if answer == "down" else answer])
    proposal = LLMPolicy(llm, prompts.load(), critic=("c", "text")).decide(view)
    assert proposal.proposer == "llm" and proposal.actions[0].diff == DIFF


def test_the_prompts_name_and_a_cut_off_answer_are_known(make_node):
    llm = ScriptedLLM([Told(text="{", cut_off=True), call("read_help", word="dtype")])
    LLMPolicy(llm, prompts.load(), version="plan.v3").decide(make_node().view())
    assert llm.asked[0].prompt == "plan.v3"
    assert "cut off at the limit of tokens" in llm.asked[1].messages[-1].content


def test_s55_patches_that_can_not_be_made_are_not_asked_for_for_ever(make_node, glm):
    node = make_node(noise=0.0, **glm)
    patch = {"parent": "r0.1", **CLAIM}
    node.answers = tuple(
        Answer(round=n, action=TryCandidate(diff=DIFF + "\n" * n, **patch), refused=True, text="does not apply")
        for n in (1, 2)
    )
    view = node.view(round=2)
    view = view.model_copy(update={"request": view.request.model_copy(update={"policy": "llm"})})
    llm = ScriptedLLM([call("write_patch", diff=DIFF, **patch)] * 3)
    proposal = LLMPolicy(llm, prompts.load()).decide(view)
    assert proposal.proposer == STAND_IN and "2 rounds in a row asked for what could not be made" in proposal.note
