"""A policy on a small world, by the real ladder in virtual time; and the command over it."""

from __future__ import annotations

import json

import pytest
from day0.agent import evaluating
from day0.agent.evaluation.confirming import winner
from day0.agent.evaluation.crew import played
from day0.agent.evaluation.keeping import kept, place
from day0.agent.evaluation.playing import Job, policy_of
from day0.agent.policy.actions import Finish, ReadLog, TryCandidate
from day0.agent.policy.base import Proposal
from day0.agent.policy.controls import Random
from day0.runs.errors import UserError
from day0.sandboxes.twin.conditions import Check, When
from day0.sandboxes.twin.truth import Effect
from day0.sandboxes.twin.world import Fault
from day0.tools.engines.sglang import Sglang


def test_same_world_policy_and_seed_same_attempts(arena_of, small):
    one, two = (arena_of(small, "random") for _ in range(2))
    for arena in (one, two):
        arena.survey()
        arena.search(Random(3, check=Sglang().check))
    assert one.book.attempts() == two.book.attempts()
    assert len(one.book.attempts()) == 3
    assert (one.trail, one.node_s) == (two.trail, two.node_s)


class Tries:
    """One change of the baseline."""

    name = "tries"

    def decide(self, view):
        action = TryCandidate(
            parent=str(view.baseline), flags={"stream-interval": 4}, hypothesis="it pays", expected_gain=0.5
        )
        return Proposal(proposer=self.name, actions=(action,) if len(view.attempts) < 2 else (Finish(reason="done"),))


@pytest.mark.parametrize("lies", [False, True])
def test_what_pays_is_confirmed_and_what_lies_never_leads(arena_of, small, lies):
    when = When(flags={"stream-interval": Check(equals=4)})
    effect = Effect(name="it pays", when=when, time={"layer": 0.3, "memory": 0.4, "cache": 0.3, "prompt": 0.3})
    fault = Fault(name="it lies", kind="wrong_output", when=when)
    truth = small.truth.model_copy(update={"effects": (effect,)})
    world = small.model_copy(update={"truth": truth, "faults": (fault,) if lies else ()})
    arena = arena_of(world)
    arena.survey()
    assert arena.search(Tries()) == "done"
    base, tried = arena.book.attempts()
    won = winner(arena)
    assert (won.attempt is not None) and won.attempt.id == (base.id if lies else tried.id)
    assert len(arena.trail) == (1 if lies else 2)
    assert len(arena.book.pairs.get(tried.id, ())) == (0 if lies else 2)
    assert arena.book.view().budget_left_s < arena.request.budget_hours * 3600 - arena.book.spent_s


class Asks:
    """Asks for a log, then for what can't be, then ends."""

    name = "asks"

    def __init__(self) -> None:
        self.seen: list[object] = []

    def decide(self, view):
        self.seen.append(view)
        base = str(view.baseline)
        wrong = TryCandidate(parent=base, flags={"no-such": 1}, hypothesis="it can't be", expected_gain=0.0)
        action = [ReadLog(attempt=base, lines=3), wrong, Finish(reason="enough")][min(2, len(self.seen) - 1)]
        return Proposal(proposer=self.name, actions=(action,))


def test_questions_are_answered_refusals_told_and_the_end_is_the_policys(arena_of, small):
    arena, policy = arena_of(small), Asks()
    arena.survey()
    assert arena.search(policy) == "enough"
    log, refused = arena.book.answers
    assert not log.refused
    assert len(log.text.splitlines()) == 3
    assert refused.refused
    assert "no-such" in refused.text
    assert policy.seen[2].answers == (log, refused)
    assert arena.book.attempts()[0].status == "kept"
    assert arena.trail[0][1] == arena.book.leader


def test_a_lost_node_is_replaced_and_its_attempt_climbs_again(arena_of, small):
    dying = small.model_copy(update={"node": small.node.model_copy(update={"dies_at_s": 500.0})})
    arena = arena_of(dying)
    arena.survey()
    (baseline,) = arena.book.attempts()
    assert baseline.status == "kept"
    assert baseline.epoch == 1
    assert arena.node.name == "twin-1"
    assert arena.node_s > 500.0


def test_scores_are_kept_under_everything_that_decides_them(job, settings, file):
    asked = job("default")
    assert kept(asked, settings.home) is None
    ((_, score),) = played([asked], settings.home, 1)
    assert kept(asked, settings.home) == score
    assert place(job("default", seed=1), settings.home) != place(asked, settings.home)
    before = place(asked, settings.home)
    file.write_text(file.read_text().replace("name: small", "name: other"))
    assert place(asked, settings.home) != before


def test_the_command_plays_a_folder_and_prints_stable_keys(job, file, settings, capsys, tmp_path):
    plan = evaluating.Plan(file.parent, policies=("default",), jobs=1, out=tmp_path / "o.json", rules=job("tpe").rules)
    evaluating.evaluate(plan, as_json=True)
    told = json.loads(capsys.readouterr().out)
    assert told == json.loads((tmp_path / "o.json").read_text())
    assert set(told) == {"headline", "summary", "against", "results", "not_compared", "wall_s"}
    (result,) = told["results"]
    assert (result["world"], result["policy"], result["broken"]) == ("small", "default", False)
    evaluating.evaluate(plan, as_json=False)  # from its file, as a table
    shown = capsys.readouterr().out
    assert shown.splitlines()[0] == told["headline"]


def test_wrong_use_is_told_before_anything_is_played(settings, tmp_path, file):
    with pytest.raises(UserError, match="choose of playbook"):
        evaluating.evaluate(evaluating.Plan(policies=("best",)), as_json=True)
    with pytest.raises(UserError, match="holds no world"):
        evaluating.evaluate(evaluating.Plan(worlds=tmp_path), as_json=True)
    with pytest.raises(UserError, match="DAY0_LLM_BASE_URL"):
        policy_of(Job(world="glm-5.2", policy="llm"), settings)
    file.write_text(file.read_text() + "nonsense: 1\n")
    with pytest.raises(UserError, match=r"small.yaml:\d+"):
        evaluating.evaluate(evaluating.Plan(worlds=file, policies=("default",)), as_json=True)
    assert evaluating.policies(evaluating.Plan(), settings) == ("playbook", "tpe", "random", "default")
    assert evaluating.names(evaluating.Plan(sample=2, seed=5)) == ["sample:5", "sample:6"]


def test_worker_processes_give_the_same_scores(job, settings):
    jobs = [job("default"), job("default", seed=1)]
    alone = {asked.seed: score for asked, score in played(jobs, settings.home, 1)}
    spread = {asked.seed: score for asked, score in played(jobs, settings.home, 2, again=True)}
    assert alone == spread
    assert len(spread) == 2
