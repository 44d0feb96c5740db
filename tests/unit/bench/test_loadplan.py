from __future__ import annotations

from itertools import pairwise

import pytest
from day0.runs.workload import MeasureRules, Slo, Workload
from day0.tools.loadplan import arrivals, closed_loop, document, open_loop, prefix_tokens, window_s
from day0.tools.text import PROSE, corpus, prose
from hypothesis import given, settings
from hypothesis import strategies as st

RULES = MeasureRules(point_s=8, min_requests=1, p95_multiples=0, max_points=3, max_pairs=2, stability_s=0, short=True)
WORK = Workload(name="t", input_tokens=256, output_tokens=64, prefixes=4, cached_share=0.75, slo=Slo(ttft_ms=1500))


def plan_at(rate: float, seed: int = 1, content: int = 1, rules: MeasureRules = RULES):
    return open_loop(WORK, rules, rate_rps=rate, seed=seed, content_seed=content)


def written(plan, number: int = 1):
    return document(plan, number, base_url="http://h", tokenizer="m", corpus="c", corpus_chars=200_000)


@given(rate=st.floats(0.2, 200), seed=st.integers(0, 10_000))
@settings(max_examples=60, deadline=None)
def test_exactly_the_offered_count_arrives_in_the_window(rate: float, seed: int) -> None:
    plan = plan_at(rate, seed)
    times = arrivals(plan)
    inside = [t for t in times if t >= 0]
    assert len(inside) == plan.offered == max(1, round(rate * plan.window_s))
    assert list(times) == sorted(times)
    assert times[0] >= -plan.lead_s and times[-1] < plan.window_s


def test_another_rate_sees_the_same_pattern_stretched() -> None:
    slow, fast = (
        open_loop(WORK, RULES.model_copy(update={"point_s": 40 / r}), rate_rps=r, seed=7, content_seed=1)
        for r in (2.0, 4.0)
    )
    a, b = ([t for t in arrivals(p) if t >= 0] for p in (slow, fast))
    assert len(a) == len(b) == 40
    assert all(abs(x - 2 * y) < 1e-9 for x, y in zip(a, b, strict=True))


def test_arrivals_look_like_poisson() -> None:
    gaps = []
    for seed in range(40):
        times = [t for t in arrivals(plan_at(10, seed)) if t >= 0]
        gaps += [b - a for a, b in pairwise(times)]
    mean = sum(gaps) / len(gaps)
    spread = (sum((g - mean) ** 2 for g in gaps) / len(gaps)) ** 0.5
    assert abs(mean - 0.1) < 0.005
    assert 0.9 < spread / mean < 1.1  # exponential: coefficient of variation 1; a metronome has 0


def test_s38_fresh_contents_same_arrivals() -> None:
    one, two, again = (written(plan_at(3, content=c)) for c in (1, 2, 1))
    assert one == again
    assert [r[0] for r in one["requests"]] == [r[0] for r in two["requests"]]
    assert [r[1] for r in one["requests"]] == [r[1] for r in two["requests"]]
    assert not {r[2] for r in one["requests"]} & {r[2] for r in two["requests"]}
    assert not set(one["prefixes"]) & set(two["prefixes"])


def test_no_prompt_of_a_point_begins_where_another_does() -> None:
    value = written(plan_at(30))
    places = [r[2] for r in value["requests"]] + value["prefixes"] + [p[1] for p in value["primes"]]
    assert len(set(places)) == len(places)


def test_each_prefix_is_primed_and_looked_at_again_on_each_replica() -> None:
    plan = plan_at(3).model_copy(update={"replicas": 2})
    assert [p[0] for p in written(plan)["primes"]] == [0] * 4 + [1] * 4 + [2] * 4 + [3] * 4
    bare = plan.model_copy(update={"workload": WORK.model_copy(update={"cached_share": 0.0})})
    assert written(bare)["primes"] == []


def test_window_obeys_the_longest_rule() -> None:
    rules = RULES.model_copy(update={"min_requests": 300, "p95_multiples": 10.0})
    assert window_s(rules, 2.0) == 150
    assert window_s(rules, 1000.0, p95_e2e_s=20) == 200
    assert window_s(RULES, 1000.0) == 8


def test_closed_loop_is_a_warm_up_without_arrival_times() -> None:
    plan = closed_loop(WORK, RULES, concurrency=16, content_seed=3)
    assert plan.warmup and arrivals(plan) == ()
    assert written(plan)["concurrency"] == 16
    assert (plan.lead_s, plan.window_s) == (0.0, RULES.point_s)


def test_shared_tokens() -> None:
    assert prefix_tokens(WORK) == 192


def test_shipped_text_is_printable_ascii_and_large() -> None:
    text = prose()
    assert len(text) > 200_000
    assert all(32 <= ord(c) < 127 for c in text)
    assert len(PROSE) == 3 and "Rabbit-Hole" in text and "Of Man's first disobedience" in text


def test_sums_are_right() -> None:
    parts = corpus("sums").split()
    assert len(parts) > 10_000
    assert all(int(p.split("=")[1]) == sum(map(int, p.split("=")[0].split("+"))) for p in parts[:500])


def test_a_window_holds_several_stays_while_nobody_knows_how_long_one_is():
    rules = RULES.model_copy(update={"p95_multiples": 10.0})
    slow = WORK.model_copy(update={"output_tokens": 1000, "slo": Slo(ttft_ms=5000.0, tpot_ms=50.0)})
    unknown = open_loop(slow, rules, rate_rps=1000.0, seed=1, content_seed=1)
    assert unknown.window_s == pytest.approx(4 * 55.0)
    known = open_loop(slow, rules, rate_rps=1000.0, seed=1, content_seed=1, p95_e2e_s=3.0)
    assert known.window_s == pytest.approx(30.0)
    unlimited = slow.model_copy(update={"slo": Slo()})
    assert open_loop(unlimited, rules, rate_rps=1000.0, seed=1, content_seed=1).window_s == RULES.point_s
