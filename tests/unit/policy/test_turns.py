"""Whose turn it is: an LLM leads from what the playbook leaves over, and whatever it does nothing is lost."""

import json

import pytest
from day0.agent import prompts, scripted_llm
from day0.agent.policy import decide, turns
from day0.agent.policy.actions import Finish, Question, TryCandidate
from day0.agent.policy.base import Answer, Told
from day0.agent.policy.guard import admit, check_flags
from day0.agent.policy.llm_policy import LLMPolicy
from day0.agent.policy.playbook import Playbook
from day0.agent.scripted_llm import ScriptedLLM, call
from day0.runs.errors import Refused
from day0.runs.facts import FailureClass
from day0.runs.schema import AttemptStatus


def policy(llm, **more):
    return LLMPolicy(llm, prompts.load(), **more)


def search(node, chosen, attempts):
    """Plays like the loop: until it stops by itself, with `attempts` experiments to spend; questions are answered."""
    made, idle, number = 0, 0, 0
    while made < attempts and idle < 3:
        view = node.view(left=attempts - made, round=number)
        if decide.stop(view) is not None:
            return
        proposal = chosen.decide(view)
        idle, number = idle + 1, number + 1
        for action in proposal.actions:
            if isinstance(action, Finish):
                return
            if isinstance(action, Question):
                node.answers = (*node.answers, Answer(round=number, action=action, refused=False, text="a line"))
                idle = 0
            if not isinstance(action, TryCandidate) or action.crafted:
                continue
            candidate = admit(action, view)
            if not isinstance(candidate, Refused):
                node.climb(candidate, action.parent, proposal.proposer)
                made, idle = made + 1, 0


def wasteful():
    """Allowed, new each time, and slower than the leader."""
    numbers = iter(range(1, 10_000))

    def one(asked):
        return call(
            "try_candidates",
            candidates=[{
                "parent": scripted_llm.leader(asked), "hypothesis": "slow is smooth", "expected_gain": 5.0,
                "flags": {"disable-radix-cache": True, "decode-log-interval": 40 + next(numbers)},
            }],
        )  # fmt: skip

    return ScriptedLLM(iter(lambda: one, None))


def poisons():
    """Tries each option that the playbook may want together with something that can't work, then that on top."""
    flags = [
        {"max-running-requests": 8}, {"dtype": "float32"}, {"stream-interval": 8}, {"num-continuous-decode-steps": 8},
    ]  # fmt: skip
    numbers = iter(range(10_000))

    def one(asked):
        ill = [row.split()[0] for row in asked.messages[1].content.splitlines() if " [failed" in row]
        number = next(numbers)
        change = {**flags[number % len(flags)], "decode-log-interval": 40 + number}
        change |= {} if ill else {"enable-mixed-chunk": True}
        parent = ill[0] if ill else "r0.1"
        return call("try_candidate", parent=parent, flags=change, hypothesis="h", expected_gain=1)

    return ScriptedLLM(iter(lambda: one, None))


def fails(candidate):
    return FailureClass.CRASHED if candidate.flags.get("enable-mixed-chunk") else None


@pytest.fixture(scope="module")
def alone():
    """The playbook's best by itself, by its budget of experiments."""
    found = {}

    def best(make_node, attempts):
        if attempts not in found:
            node = make_node(noise=0.0, fails=fails)
            search(node, Playbook(), attempts)
            found[attempts] = node.best()
        return found[attempts]

    return best


HOSTILE = {
    "absent": scripted_llm.absent, "asks": scripted_llm.asks, "badly": scripted_llm.badly, "lazy": scripted_llm.lazy,
    "floods": scripted_llm.floods, "maliciously": scripted_llm.maliciously, "stuck": scripted_llm.SHIPPED["stuck"],
    "wasteful": wasteful, "poisons": poisons,
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "attempts"),
    [*((name, 6) for name in sorted(HOSTILE)), ("poisons", 25)],
)
def test_s55_no_llm_ends_more_than_two_per_cent_below_the_playbook_at_equal_budget(make_node, alone, name, attempts):
    ours = make_node(noise=0.0, fails=fails)
    search(ours, policy(HOSTILE[name]()), attempts)
    assert ours.best() >= 0.98 * alone(make_node, attempts), [dict(a.candidate.flags) for a in ours.attempts]
    assert len(ours.attempts) <= attempts + 1, "its proposals share the budget"


def test_s51_an_llm_that_brings_nothing_is_dismissed_and_the_playbook_searches_on(make_node, alone):
    node, attempts = make_node(noise=0.0, fails=fails), 50
    search(node, policy(wasteful()), attempts)
    first_kept = next(a.number for a in node.attempts if a.proposer == "playbook" and a.status == AttemptStatus.KEPT)
    assert [a.proposer for a in node.attempts[1 : first_kept - 1]] == ["llm"] * decide.PATIENCE
    note = policy(wasteful()).decide(node.view(attempts=tuple(node.attempts[: first_kept - 1]))).note
    assert "8 of the LLM's experiments in a row brought no improvement; the playbook took this step" in note
    assert node.best() >= 0.98 * alone(make_node, attempts), "the 2 % hold where it leads, too"


def test_where_the_budget_only_pays_for_the_playbook_the_llm_gets_one_idea_and_is_told_so(make_node):
    node = make_node(noise=0.0)
    search(node, policy(wasteful()), 6)
    by = [a.proposer for a in node.attempts]
    assert by.count("llm") == 1 and by.index("llm") > 2, "not before the playbook's next step promises little"
    note = policy(wasteful()).decide(node.view(left=3)).note
    assert "what is left of the budget pays for" in note and "the playbook took this step" in note


def test_an_idea_that_was_kept_earns_another(make_node):
    node = make_node(noise=0.0)
    assert turns.room(node.view(left=3), promise=0.02) == 1
    kept = node.climb(admit(_try("r0.1", {"dtype": "float32"}), node.view()), "r0.1", "llm")
    assert kept.status == AttemptStatus.KEPT and turns.room(node.view(left=3), promise=0.02) == 2
    node.climb(admit(_try("r0.1", {"disable-radix-cache": True}), node.view()), "r0.1", "llm")
    node.climb(admit(_try("r0.1", {"page-size": 16}), node.view()), "r0.1", "llm")
    assert turns.room(node.view(left=3), promise=0.02) == 0
    assert turns.room(node.view(left=3), promise=None) == 3, "the playbook has nothing left"
    assert turns.room(node.view(left=3, budget_s=100.0), promise=None) == 1


def test_its_end_of_the_search_is_the_playbooks_turn(make_node):
    proposal = policy(ScriptedLLM([call("finish", reason="tired")])).decide(_measured(make_node).view())
    assert proposal.proposer == "playbook" and isinstance(proposal.actions[0], TryCandidate)


def _measured(make_node):
    node = make_node(noise=0.0)
    node.search(Playbook(), 1)
    return node


def test_what_the_llm_tried_in_vain_changes_nothing_of_what_the_playbook_does(make_node):
    """But where the playbook comes to the same by itself: then it knows the result without another boot."""
    alone, node = make_node(noise=0.0, fails=fails), make_node(noise=0.0, fails=fails)
    alone.search(Playbook(), 4)
    ill = node.climb(admit(_try("r0.1", {"enable-mixed-chunk": True}), node.view()), "r0.1", "llm")
    node.climb(admit(_try(ill.id, {"dtype": "float32"}), node.view()), ill.id, "llm")
    for wanted in alone.attempts[1:]:
        (action, *_) = turns.advice(node.view(), Playbook().decide, check_flags).actions
        candidate = admit(action, node.view())
        assert candidate == wanted.candidate
        whose = "llm" if wanted.status != AttemptStatus.KEPT else "playbook"
        node.climb(candidate, action.parent, whose)
    assert "llm" in [a.proposer for a in node.attempts[3:]], "some were the LLM's, and are not tried again"


def test_tuning_that_the_budget_does_not_pay_for_is_refused(make_node, glm):
    node = make_node(noise=0.0, **glm)
    llm = ScriptedLLM([call("tune_kernels", parent="r0.1", hypothesis="rows", expected_gain=0.3)])
    proposal = policy(llm).decide(node.view(budget_s=60.0 * 30))
    assert proposal.proposer == turns.STAND_IN


def test_followed_advice_is_the_playbooks_experiment(make_node):
    proposal = policy(scripted_llm.well()).decide(make_node().view())
    assert proposal.proposer == "playbook" and proposal.note == "the LLM follows the playbook"


def _try(parent, flags):
    return TryCandidate(parent=parent, flags=flags, hypothesis="h", expected_gain=0.1)


def test_several_candidates_in_one_call_are_taken_as_far_as_nodes_are_free(make_node):
    claim = {"parent": "r0.1", "hypothesis": "h", "expected_gain": 0.1}
    some = [{**claim, "flags": {"stream-interval": n}} for n in (2, 4)]
    llm = ScriptedLLM([Told(calls=(("try_candidates", json.dumps({"candidates": some})),))])
    proposal = policy(llm, batch=2).decide(make_node().view())
    assert [dict(a.flags) for a in proposal.actions] == [{"stream-interval": 2}, {"stream-interval": 4}]
