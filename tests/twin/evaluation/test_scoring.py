"""What was found against what could have been found."""

from __future__ import annotations

import pytest
from day0.agent.evaluation.playing import request_of
from day0.agent.evaluation.report import against, headline, lines, quantile, ratios, summary, told
from day0.agent.evaluation.scoring import Judge, Score
from day0.runs.candidate import Candidate
from day0.runs.documents import workload
from day0.sandboxes.twin.conditions import Check, When
from day0.sandboxes.twin.world import Fault

CHAT = workload("chat-1k1k")


def score(policy: str, world: str = "w", seed: int = 0, **more: object) -> Score:
    given: dict[str, object] = {
        "solved": True, "share": 0.98, "broken": False, "ended": "", "attempts": 5, "refused": 0, "hours": 9.0,
        "search_hours": 6.0, "budget_hours": 24.0, "hours_to_95": 3.0, "best": 1000.0, "flags_solve": True,
    }  # fmt: skip
    return Score(world=world, policy=policy, seed=seed, workload="chat-1k1k", **{**given, **more})  # type: ignore[arg-type]


def candidate_of(world, **flags: object) -> Candidate:
    return Candidate(engine="sglang", build=world.builds[0].digest(), model="m", revision="r", flags=flags)


def test_the_best_of_the_space_is_worth_one_and_what_does_not_serve_nothing(small, tmp_path):
    fault = Fault(
        name="it lies", kind="wrong_output", when=When(flags={"chunked-prefill-size": Check(equals=8192)}), time=0.5
    )
    world = small.model_copy(update={"faults": (fault,)})
    judge = Judge(world, CHAT, tmp_path)
    best = judge.oracle.best
    assert judge.share(judge.rate(candidate_of(world, **best.flags), (), ())) == pytest.approx(1.0)
    lying = judge.rate(candidate_of(world, **{**best.flags, "chunked-prefill-size": 8192}), (), ())
    assert (lying.tok_s, lying.why) == (0.0, "it lies")
    assert judge.rate(candidate_of(world, **{"tp-size": 16}), (), ()).tok_s == 0.0
    assert Judge(world, CHAT, tmp_path).best == judge.best
    assert len(list(tmp_path.iterdir())) == 1


def test_flags_do_not_solve_a_world_whose_best_needs_a_repair(small):
    from day0.sandboxes.twin.world import Choice

    assert Judge(small, CHAT).flags_solve()
    needs = When(flags={}, source={"a.py": "broken"})
    build = small.builds[0].model_copy(update={"tree": {"a.py": "broken"}, "repaired": {"a.py": "mended"}})
    broken = small.model_copy(
        update={
            "builds": (build,),
            "faults": (Fault(name="broken source", kind="crash", when=needs),),
            "space": (*small.space, (Choice(repaired=False), Choice(repaired=True))),
        }
    )
    judge = Judge(broken, CHAT)
    assert judge.best > 0
    assert not judge.flags_solve()


def test_a_target_that_was_never_reached_counts_as_the_whole_budget():
    assert score("playbook").counted_hours == 3.0
    assert score("playbook", hours_to_95=None).counted_hours == 24.0
    assert score("tpe", hours_to_95=None, search_hours=80.0, budget_hours=80.0).counted_hours == 80.0


def test_the_comparison_takes_worlds_that_both_played_and_the_median_of_seeds():
    scores = [
        score("playbook", "a", hours_to_95=2.0),
        score("playbook", "b", hours_to_95=4.0),
        score("playbook", "c"),
        *(score("tpe", "a", n, hours_to_95=hours) for n, hours in enumerate((4.0, 10.0, 30.0))),
        score("tpe", "b", hours_to_95=None, search_hours=50.0, budget_hours=60.0),
    ]
    assert ratios(scores) == {"a": 5.0, "b": 15.0}
    assert against(scores) == {"policy": "playbook", "rival": "tpe", "worlds": 2, "median_ratio": 10.0}
    assert against(scores[:3]) is None


def test_tables_and_headline_name_the_best_policy_and_its_broken_promotions():
    scores = [
        score("default", solved=False, share=0.3, hours_to_95=None),
        score("playbook"),
        score("playbook", "v", broken=True, why_broken="it lies", share=0.0, solved=False),
    ]
    head = headline(scores)
    assert head.startswith("playbook solves 1 of 2")
    assert "1 broken promotions" in head
    assert [row["policy"] for row in summary(scores)] == ["default", "playbook"]
    assert summary(scores)[1]["p10_share"] == pytest.approx(0.098)
    rows = lines(scores)
    assert [r[:3] for r in rows] == [("v", "playbook", "no"), ("w", "default", "no"), ("w", "playbook", "yes")]
    assert rows[1][4] == "never (24.0)"
    assert rows[0][6] == "it lies"
    assert set(told(scores)) == {"headline", "summary", "against", "results"}
    assert headline([]) == "nothing was played"


def test_quantiles_are_linear_between_order_statistics():
    assert quantile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert quantile([0.0, 10.0], 0.1) == pytest.approx(1.0)
    assert quantile([4.0], 0.9) == 4.0


def test_controls_are_limited_by_attempts_and_others_by_the_budget(job, small):
    assert request_of(job("tpe"), small).budget_hours > 1000
    assert request_of(job("playbook", hours=5.0), small).budget_hours == 5.0
    assert request_of(job("playbook"), small).max_attempts == 2
