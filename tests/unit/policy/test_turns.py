"""Whose turn it is: an LLM leads from what the playbook leaves over, and whatever it does nothing is lost."""

import json

import pytest
from day0.agent import prompts, scripted_llm
from day0.agent.policy import decide, turns
from day0.agent.policy.actions import Finish, TryCandidate
from day0.agent.policy.base import Told
from day0.agent.policy.guard import admit
from day0.agent.policy.llm_policy import LLMPolicy
from day0.agent.policy.playbook import Playbook
from day0.agent.scripted_llm import ScriptedLLM, call
from day0.runs.errors import Refused
from day0.runs.facts import FailureClass
from day0.runs.schema import AttemptStatus

BUDGET_ATTEMPTS = 60


def policy(llm, **more):
    return LLMPolicy(llm, prompts.load(), **more)


def search(node, chosen, attempts=BUDGET_ATTEMPTS, seconds=None):
    """Plays like the loop: until it stops by itself, with `attempts` experiments or node seconds to spend."""
    made, idle = 0, 0
    while made < attempts and idle < 3:
        left = 1e6 if seconds is None else seconds - sum(a.node_s for a in node.attempts[1:])
        view = node.view(left=attempts - made, budget_s=left)
        if decide.stop(view) is not None:
            return
        proposal = chosen.decide(view)
        idle += 1
        for action in proposal.actions:
            if isinstance(action, Finish):
                return
            if not isinstance(action, TryCandidate) or action.crafted:
                continue
            candidate = admit(action, view)
            if not isinstance(candidate, Refused):
                node.climb(candidate, action.parent, proposal.proposer)
                made, idle = made + 1, 0


def wasteful(nth=0):
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


HOSTILE = {**scripted_llm.SHIPPED, "wasteful on a CPU": wasteful, "poisons": poisons}
HOSTILE.pop("engineer"), HOSTILE.pop("wasteful")


@pytest.mark.parametrize("name", sorted(HOSTILE))
@pytest.mark.parametrize("seconds", [None, 60.0 * 25], ids=["attempts", "node seconds"])
def test_s55_no_llm_ends_more_than_two_per_cent_below_the_playbook_at_equal_budget(make_node, name, seconds):
    def fails(candidate):
        return FailureClass.CRASHED if candidate.flags.get("enable-mixed-chunk") else None

    ours, theirs = make_node(noise=0.0, fails=fails), make_node(noise=0.0, fails=fails)
    search(theirs, Playbook(), seconds=seconds)
    search(ours, policy(HOSTILE[name]()), seconds=seconds)
    assert ours.best() >= 0.98 * theirs.best(), [a.candidate.flags for a in ours.attempts]


def test_s51_an_llm_that_brings_nothing_is_dismissed_and_the_playbook_searches_on(make_node):
    node = make_node(noise=0.0)
    llm = wasteful()
    search(node, policy(llm, patience=3))
    own = [a for a in node.attempts if a.proposer == "llm"]
    first_kept = next(a.number for a in node.attempts if a.proposer == "playbook" and a.status == AttemptStatus.KEPT)
    assert len([a for a in own if a.number < first_kept]) == 3
    assert decide.stop(node.view()).status == "no_improvement"


def test_where_the_budget_only_pays_for_the_playbook_the_llm_gets_one_idea_and_is_told_so(make_node):
    node = make_node(noise=0.0)
    llm = wasteful()
    search(node, policy(llm), attempts=6)
    assert [a.proposer for a in node.attempts].count("llm") == 1
    note = policy(llm).decide(node.view(left=3)).note
    assert "what is left of the budget pays for" in note and "the playbook took this step" in note


def test_an_idea_that_was_kept_earns_another(make_node):
    node = make_node(noise=0.0)
    good = [{"dtype": "float32"}, {"max-running-requests": 8}]
    calls = [
        lambda asked, flags=flags: call(
            "try_candidate", parent=scripted_llm.leader(asked), flags=flags, hypothesis="h", expected_gain=0.1
        )
        for flags in good
    ]
    search(node, policy(ScriptedLLM(calls)), attempts=2)
    assert [a.proposer for a in node.attempts] == ["baseline", "llm", "llm"]


def test_its_end_of_the_search_is_the_playbooks_turn(make_node):
    node = make_node(noise=0.0)
    search(node, policy(scripted_llm.lazy()))
    alone = make_node(noise=0.0)
    search(alone, Playbook())
    assert [a.candidate for a in node.attempts] != [a.candidate for a in alone.attempts][:1]
    assert node.best() == pytest.approx(alone.best())
    assert {a.proposer for a in node.attempts[1:]} <= {"playbook", "stand-in"}


def test_what_proves_nothing_is_no_evidence_for_the_playbook(make_node):
    node = make_node(noise=0.0, fails=lambda c: FailureClass.CRASHED if "enable-mixed-chunk" in c.flags else None)
    ill = node.climb(admit(_try("r0.1", {"enable-mixed-chunk": True}), node.view()), "r0.1", "llm")
    node.climb(admit(_try(ill.id, {"dtype": "float32"}), node.view()), ill.id, "llm")
    shown = [a.id for a in turns.fair(node.view()).attempts]
    assert shown == ["r0.1", "r0.2"]
    assert dict(Playbook().decide(turns.fair(node.view())).actions[0].flags)["dtype"] == "float32"


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
