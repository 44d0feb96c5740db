"""What runs teach later ones: gains by change, with their source, on the same stack only."""

import pytest
from day0.agent.learning import brought, family_of
from day0.agent.policy.context import build
from day0.runs.candidate import Candidate
from day0.runs.engine_facts import ModelFacts
from day0.runs.facts import FailureClass, Knee, Rung, Verdict
from day0.runs.gained import Gained, taught
from day0.runs.schema import Attempt, AttemptStatus, RunRequest
from day0.runs.workload import MeasureRules, Slo, Target, Workload

WORK = Workload(name="chat", input_tokens=64, output_tokens=16, slo=Slo(ttft_ms=600.0))
RULES = MeasureRules(point_s=8, min_requests=4, p95_multiples=1, max_points=3, max_pairs=2, stability_s=0, short=True)
TARGET = Target(
    name="t", kind="local", accelerator="cpu", stall_s=1, boot_stall_s=1, boot_cap_s=1, measure=RULES,
    workload="chat",
)  # fmt: skip
REQUEST = RunRequest(model="m", revision="r", target=TARGET, workloads=(WORK,))
MODEL = ModelFacts(
    model="m", revision="r", architecture="A", model_type="a", layers=2, hidden=8, heads=4, kv_heads=2, head_dim=2,
    vocab=8, context=64, weight_bytes=8, parameters=8,
)  # fmt: skip


def attempt(number, flags, rate=2.0, *, parent=None, status=AttemptStatus.KEPT, **more):
    build_ = more.pop("build", "b")
    candidate = Candidate(engine="sglang", build=build_, model="m", revision="r", flags=flags, **more)
    ok = tuple(Verdict(rung=r, passed=True) for r in (Rung.ANSWER, Rung.ACCURACY, Rung.MEASURE))
    bad = (Verdict(rung=Rung.BOOT, passed=False, failure=FailureClass.OOM, evidence="x"),)
    knee = Knee(
        workload="chat", rate_rps=rate, goodput_tok_s=rate, passed_rps=rate, failed_rps=rate * 1.1, bound_by="tpot"
    )
    failed = status == AttemptStatus.FAILED
    return Attempt(
        id=f"r1.{number}", run="r1", number=number, candidate=candidate, status=status, proposer="llm", parent=parent,
        expected_gain=0.5, verdicts=bad if failed else ok, knees=() if failed else ((1, Rung.MEASURE, knee),),
    )  # fmt: skip


def test_a_gain_is_remembered_with_what_was_expected_and_where_it_comes_from():
    base, more = attempt(1, {}), attempt(2, {"dtype": "float32"}, 2.4, parent="r1.1")
    found = brought(more, (base, more), REQUEST, MODEL)
    assert (found.what, found.expected, found.measured) == ("--dtype None -> float32", 0.5, pytest.approx(0.2))
    assert (found.build, found.attempt, found.family) == ("b", "r1.2", "dense, heads share keys")


def test_a_failure_is_remembered_as_one():
    base = attempt(1, {})
    ill = attempt(2, {"page-size": 64}, parent="r1.1", status=AttemptStatus.FAILED)
    found = brought(ill, (base, ill), REQUEST, MODEL)
    assert found.measured is None and found.failure == "oom"


@pytest.mark.parametrize(
    "more",
    [{"patches": ("sha256:p",)}, {"tables": ("sha256:t",)}, {"build": "other"}, {"status": AttemptStatus.VOID}],
    ids=str,
)
def test_what_means_nothing_to_another_run_is_left_out(more):
    base, one = attempt(1, {}), attempt(2, {"dtype": "float32"}, parent="r1.1", **more)
    assert brought(one, (base, one), REQUEST, MODEL) is None


def gained(run="r2", **more):
    known = {
        "what": "--dtype None -> float32", "family": family_of(MODEL), "accelerator": "cpu", "workload": "chat",
        "build": "b", "expected": 0.1, "measured": 0.2, "run": run, "attempt": f"{run}.2",
    }  # fmt: skip
    return Gained(**known | more)


def test_it_expires_with_the_stack_and_says_nothing_of_other_kinds():
    here = {"family": family_of(MODEL), "accelerator": "cpu", "build": "b", "run": "r1"}
    assert taught([gained()], **here)
    others = [{"build": "newer"}, {"accelerator": "mi355x"}, {"family": "experts, latent attention"}, {"run": "r1"}]
    for change in others:
        assert taught([gained(**change)], **here) == ()


def test_several_runs_add_up_with_their_provenance():
    here = {"family": family_of(MODEL), "accelerator": "cpu", "build": "b", "run": "r1"}
    some = [gained("r2"), gained("r3", measured=0.4), gained("r4", measured=None, failure="oom")]
    (one,) = taught(some, **here)
    assert (one.tried, one.failed, one.measured, one.failures) == (3, 1, pytest.approx(0.3), ("oom",))
    assert one.told() == (
        "--dtype None -> float32: +30.0% measured (median), +10.0% expected in 3 tries, 1 failed (oom), chat; "
        "r2.2, r3.2, r4.2"
    )


def test_an_llm_gets_to_see_it(shared_view):
    here = {"family": family_of(MODEL), "accelerator": "cpu", "build": "b", "run": "r1"}
    text = build(shared_view.model_copy(update={"experience": taught([gained()], **here)}))
    assert "# What earlier runs on this engine build measured\n- --dtype None -> float32: +20.0% measured" in text
    assert "earlier runs" not in build(shared_view)


@pytest.fixture
def shared_view():
    from day0.agent.policy.base import RunView
    from day0.runs.engine_facts import EngineFacts, NodeFacts

    base = attempt(1, {})
    return RunView(
        run="r1", round=1, request=REQUEST, model=MODEL, node=NodeFacts(name="n"), attempts=(base,), baseline="r1.1",
        engine=EngineFacts(engine="sglang", build="b", version="0", flags=(), capabilities={}), leader="r1.1",
        noise=0.01, budget_left_s=1e6, attempts_left=9,
    )  # fmt: skip
