"""The small pure pieces of the loop."""

import random
import time
from pathlib import Path

import pytest
from day0.agent import overhead
from day0.agent.confirm import enough, narrow
from day0.agent.figures import OwnBoot, at_rate, conditions, figures
from day0.agent.replay import placeholders
from day0.agent.settings import load
from day0.runs.errors import CandidateFailed, UserError
from day0.runs.facts import Knee, LoadPoint, Percentiles
from day0.runs.workload import MeasureRules, Slo, Workload
from day0.sandboxes.scripted import ScriptedNode
from day0.sandboxes.spec import SandboxSpec
from day0.tools.judge import compare, noise_floor, pair
from day0.tools.knee import KneeSearch
from hypothesis import given
from hypothesis import strategies as st

WORK = Workload(name="w", input_tokens=64, output_tokens=16, slo=Slo(ttft_ms=500.0, tpot_ms=60.0))


def knee(rate: float, passed: float, failed: float | None) -> Knee:
    return Knee(workload="w", rate_rps=rate, goodput_tok_s=16 * passed, passed_rps=passed, failed_rps=failed)


def point(rate: float, tok_s: float, void: str | None = None) -> LoadPoint:
    flat = Percentiles(mean=100.0, p50=100.0, p95=200.0, p99=300.0)
    return LoadPoint(
        workload="w", rate_rps=rate, seed=0, window_s=8.0, offered=8, completed=8, failed=0, output_tok_s=tok_s,
        total_tok_s=tok_s, ttft_ms=flat, tpot_ms=flat, success_share=1.0, steady=True, meets_slo=void is None,
        void=void,
    )  # fmt: skip


@given(
    st.lists(st.tuples(st.floats(0.1, 50), st.floats(1.0, 1.9)), min_size=1, max_size=6),
    st.floats(0.0, 0.2),
)
def test_a_figure_lies_in_its_own_range_and_every_bracket_does(boots: list[tuple[float, float]], noise: float) -> None:
    knees = [knee(low * width**0.5, low, low * width) for low, width in boots]
    owned = [OwnBoot(k, (point(k.passed_rps, 10 * k.passed_rps),)) for k in knees]
    made = {f.name: f for f in figures(WORK, owned, noise)}
    least = min(low for low, _ in boots)
    assert made["offered_rate"].value == least, "every boot passed there"
    assert made["knee"].holds(made["knee"].value)
    for one in knees[1:] or knees:
        assert made["knee"].holds(one.passed_rps)
        assert one.failed_rps is not None
        assert made["knee"].holds(one.failed_rps)
    assert made["output"].holds(10 * least)
    assert made["ttft"].high == 500.0


def test_a_knee_that_no_rate_bounded_has_no_upper_range() -> None:
    made = {f.name: f for f in figures(WORK, [OwnBoot(knee(2.0, 2.0, None))], 0.03)}
    assert made["knee"].high is None
    assert "output" not in made


def replayed(dice: random.Random, noise: float, truth: float = 1.0) -> bool:
    """Whether a recipe of the best of four candidates replays on a machine `truth` times as fast.

    Each boot has a speed of its own, each point a latency of its own; latency grows with the third power of load.
    """

    def bracket(start: float, speed: float, most: int) -> OwnBoot:
        rules = MeasureRules(
            point_s=8.0, min_requests=8, p95_multiples=0.0, max_points=most, max_pairs=2, stability_s=0.0, short=True
        )
        search, points = KneeSearch(start, rules, WORK), []
        while (asked := search.next()) is not None:
            tpot = 60.0 * (asked[0] / speed) ** 3 * dice.lognormvariate(0, noise)
            flat = Percentiles(mean=tpot, p50=tpot, p95=tpot, p99=tpot)
            points.append(
                point(asked[0], 16 * asked[0] * dice.lognormvariate(0, 0.025)).model_copy(
                    update={"tpot_ms": flat, "meets_slo": tpot <= 60.0}
                )
            )
            search.add(points[-1])
        return OwnBoot(search.result().model_copy(update={"short": True}), tuple(points))

    def boot() -> float:
        return dice.lognormvariate(0, noise)

    first = max((bracket(dice.uniform(0.85, 1.1), boot(), 3) for _ in range(4)), key=lambda b: b.knee.rate_rps)
    boots = [first, *(bracket(first.knee.rate_rps, boot(), 2) for _ in range(2))]
    made = figures(WORK, boots, noise_floor([[b.knee for b in boots]]))
    rate = next(f.value for f in made if f.name == "offered_rate")
    try:
        again = bracket(rate, truth * boot(), 2)
    except CandidateFailed:
        return False
    seen = {"knee": again.knee.rate_rps, **at_rate(again.points, rate, WORK)}
    return all(f.holds(seen[f.name]) for f in made if f.name in seen)


@pytest.mark.parametrize(("noise", "slower"), [(0.03, 0.7), (0.06, 0.5)])
def test_s40_a_recipe_replays_on_its_machine_and_not_on_a_slower_one(noise: float, slower: float) -> None:
    dice = random.Random(1)
    assert sum(replayed(dice, noise) for _ in range(150)) >= 0.88 * 150
    assert sum(replayed(dice, noise, slower) for _ in range(100)) <= 4


def test_figures_at_a_rate_ignore_void_points_and_other_rates() -> None:
    points = [point(1.0, 10.0), point(2.0, 30.0), point(1.0, 99.0, void="cut")]
    assert at_rate(points, 1.0, WORK)["output"] == 10.0
    assert at_rate(points, 3.0, WORK) == {}


def test_s46_a_recipes_knee_has_its_interval_and_its_figures_what_stands_beside_them() -> None:
    sides = [(1.8, 2.3), (1.7, 2.2), (1.9, None)]
    knees = [knee(2.0, 2.0, 2.2).model_copy(update={"low_rps": low, "high_rps": high}) for low, high in sides]
    beside = {"acceptance_length": 3.2, "forced_tokens": 30, "answer_tokens": 600, "cached_share": 0.6}
    boots = [OwnBoot(k, (point(2.0, 30.0).model_copy(update=beside),)) for k in knees]
    made = {f.name: f for f in figures(WORK, boots, 0.03)}
    assert made["knee"].interval == (1.7, None), "the boots that were compared; one has no upper end"
    assert {f.name: f for f in figures(WORK, boots[:1], 0.03)}["knee"].interval == (1.8, 2.3)
    assert figures(WORK, [OwnBoot(knee(2.0, 2.0, None))], 0.03)[0].interval is None
    seen = conditions(WORK, boots)
    assert (seen.text, seen.acceptance_length, seen.forced_share, seen.cached_share) == (WORK.text, 3.2, 0.05, 0.6)
    assert conditions(WORK, [OwnBoot(knee(2.0, 2.0, None))]).forced_share is None
    assert knees[0].told() == "2 (1.8 to 2.3)" and knees[2].told() == "2 (1.9 to open)"


def test_s40_pairs_settle_it_on_either_side_or_at_the_limit() -> None:
    def told(ratios: list[float]) -> bool:
        pairs = [pair(n, "incumbent", knee(1.0, 1.0, None), knee(r, r, None)) for n, r in enumerate(ratios, 1)]
        return enough(pairs, compare(pairs, incumbent="a", challenger="b", noise=0.03), 4)

    assert not told([2.0])
    assert told([1.5, 1.52])
    assert told([0.5, 0.51])
    assert not told([1.5, 0.9])
    assert told([1.5, 0.9, 1.2, 0.8])
    assert not enough([], None, 2)


def test_a_pair_takes_few_points() -> None:
    rules = MeasureRules(point_s=8, min_requests=8, p95_multiples=0, max_points=8, max_pairs=4, stability_s=0)
    assert narrow(rules).max_points == 2
    assert narrow(rules).point_s == rules.point_s


def test_what_differs_between_boots_is_a_placeholder() -> None:
    argv = ("python", "-m", "x", "--model-path", "/m", "--host", "::1", "--port", "7", "--tokenizer-path", "/m")
    assert placeholders(argv, "/m") == (
        "python", "-m", "x", "--model-path", "{model}", "--host", "{host}", "--port", "{port}", "--tokenizer-path",
        "{model}",
    )  # fmt: skip


def test_time_in_a_node_is_counted_once(tmp_path: Path) -> None:
    meter = overhead.Meter()
    node = overhead.metered(ScriptedNode("n", tmp_path, {}, cancel=lambda: False), meter)
    assert node.name == "n"
    with node.open(SandboxSpec("job", "", "a")) as sandbox:
        sandbox.write("f", b"x")
        assert sandbox.read("f", 9) == b"x"
        with meter.inside():
            time.sleep(0.02)
            node.clock.sleep(5.0)
    wall, inside = meter.read()
    assert 0.02 < inside <= wall < 5.0


def test_orchestration_share() -> None:
    assert overhead.share(0.0, 0.0) is None
    assert overhead.share(100.0, 99.0) == pytest.approx(0.01)
    assert overhead.share(10.0, 11.0) == 0.0


def test_a_flag_beats_the_environment_beats_the_file_beats_the_default(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert load().target == "cpu"
    home.mkdir()
    (home / "config.toml").write_text('target = "mi355x"\nbudget_hours = 2.5\n')
    assert (load().target, load().budget_hours) == ("mi355x", 2.5)
    monkeypatch.setenv("DAY0_TARGET", "cpu-quick")
    assert load().target == "cpu-quick"
    assert load(target="other").target == "other"
    assert load(target=None).target == "cpu-quick"


def test_secrets_are_never_shown(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAY0_LLM_API_KEY", "key-of-the-llm")
    monkeypatch.setenv("DAY0_DATABASE_URL", "postgresql://me:pass-word@host/db")
    settings = load()
    assert "key-of-the-llm" not in repr(settings) + str(settings)
    assert "pass-word" not in repr(settings)
    assert settings.secrets == ("key-of-the-llm", "postgresql://me:pass-word@host/db")
    with pytest.raises(UserError, match="budget_hours"):
        load(budget_hours=-1)
