"""An LLM at the wheel on simulated nodes: what no repair knows is solved, and what it wastes costs nothing."""

from __future__ import annotations

import pytest
from day0.agent import prompts, scripted_llm
from day0.agent.evaluation.playing import Job, policy_of
from day0.agent.policy import decide
from day0.agent.policy.actions import GrepSource, ReadLog, ReadSource
from day0.agent.policy.llm_policy import LLMPolicy
from day0.agent.policy.playbook import Playbook
from day0.runs.errors import UserError
from day0.sandboxes.twin.world import world
from day0.tools.engines.sglang import Sglang

PATCHED = {
    "qwen3.5-mxfp4-serial-scan": "sglang/python/sglang/srt/layers/attention/linear/scan_plan.py",
    "qwen3.6-35b-a3b-expert-split": "sglang/python/sglang/srt/layers/moe/expert_split.py",
}


def led(llm, **more):
    return LLMPolicy(llm, prompts.load(), version=prompts.PLAN, check=Sglang().check, **more)


def played(arena, policy):
    arena.survey()
    ended = arena.search(policy)
    attempts = arena.book.attempts()
    best = decide.leader_of(attempts, arena.request, arena.gpus)
    return ended, best, decide.worth(best, arena.request, arena.gpus)


@pytest.mark.parametrize("name", sorted(PATCHED))
def test_what_only_a_patch_solves_the_playbook_does_not_and_an_llm_does_through_its_tools(arena_of, name):
    alone, here = arena_of(world(name), "playbook", 6), arena_of(world(name), "llm", 40)
    _, lead, found = played(alone, Playbook(check=Sglang().check))
    assert not alone.book.patches and not lead.candidate.patches

    def enough():
        best = decide.leader_of(here.book.attempts(), here.request, here.gpus)
        return bool(best and best.candidate.patches and decide.worth(best, here.request, here.gpus) > 1.4 * found)

    here.survey()
    assert here.search(led(scripted_llm.SHIPPED["engineer"]()), enough) == "it is good enough"
    (patch,) = here.book.patches.values()
    assert patch.author == "llm" and set(patch.after) == {PATCHED[name]}
    asked = [type(a.action) for a in here.book.answers if not a.refused]
    assert asked[-3:] == [ReadLog, GrepSource, ReadSource], "it was found out through questions, not known"
    mended = next(a for a in here.book.attempts() if a.candidate.patches)
    assert (mended.proposer, mended.action) == ("llm", "patch")


def test_the_names_of_scripted_llms_and_prompts_are_policies(settings):
    made = policy_of(Job(world="glm-5.2", policy="scripted:well@plan.v2"), settings)
    assert isinstance(made, LLMPolicy) and made.version == "plan.v2"
    for wrong in ("scripted:nobody", "scripted:well@plan.v0", "scripted:well@../../x"):
        with pytest.raises(UserError, match=r"choose of|there are"):
            policy_of(Job(world="glm-5.2", policy=wrong), settings)
