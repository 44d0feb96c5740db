"""Load points that replay a trace: its gaps, lengths and shared prompts, at any offered rate."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest
from day0.runs.trace import BLOCK, Call, Trace
from day0.runs.workload import MeasureRules, Slo, Workload
from day0.tools.loadplan import arrivals, closed_loop, document, expected, open_loop, prefix_tokens, setup_s
from day0.tools.summary import summarise

from tests.unit.bench.points import raw, row
from tests.unit.bench.test_loadgen import PLAN, at_once, loadgen, point  # noqa: F401 (a fixture)
from tests.unit.bench.test_prompts import Characters, Words, prompts

RULES = MeasureRules(point_s=20, min_requests=1, p95_multiples=0, max_points=3, max_pairs=2, stability_s=0)
GAPS = [0.1, 0.0, 0.0, 3.0, 0.2, 0.7]
CALLS = tuple(
    Call(gap_s=gap, input_tokens=600 + 100 * n, output_tokens=10 + n, blocks=(0, 1 + n % 2))
    for n, gap in enumerate(GAPS)
)
TRACE = Trace(CALLS)
WORK = Workload(
    name="t", arrival="trace", trace="t.jsonl", trace_digest="sha256:1", input_tokens=850, output_tokens=12,
    cached_share=0.5, slo=Slo(ttft_ms=1500),
)  # fmt: skip


def at(rate: float, seed: int = 1, content: int = 1, rules: MeasureRules = RULES):
    return open_loop(WORK, rules, rate_rps=rate, seed=seed, content_seed=content, trace=TRACE)


def test_the_offered_rate_is_met_exactly_with_the_traces_own_bursts():
    plan = at(4.0)
    times = arrivals(plan)
    inside = [t for t in times if t >= 0]
    assert len(plan.calls) == len(times) == plan.lead_count + plan.offered
    assert len(inside) == plan.offered == 80 and list(times) == sorted(times) and times[-1] < 20
    together = sum(b == a for a, b in pairwise(times))
    assert together > len(times) / 4, "two in six come with the one before"


def test_another_rate_is_the_same_pattern_in_another_time():
    slow, fast = (at(r, rules=RULES.model_copy(update={"point_s": 40 / r})) for r in (2.0, 4.0))
    a, b = ([t for t in arrivals(p) if t >= 0] for p in (slow, fast))
    assert len(a) == 40 and a == pytest.approx([2 * t for t in b])
    assert slow.calls == fast.calls


def test_another_seed_begins_elsewhere_in_the_trace():
    firsts = {at(4.0, seed).calls[0].input_tokens for seed in range(20)}
    assert len(firsts) == len(CALLS)


def test_s38_another_content_seed_has_other_texts_and_the_same_sharing():
    one, two = (written(at(1.0, content=c)) for c in (1, 2))
    assert [c[:3] for c in one["calls"]] == [c[:3] for c in two["calls"]]
    assert {p for c in one["calls"] for p in c[3]}.isdisjoint({p for c in two["calls"] for p in c[3]})
    plan = at(1.0)
    for (a, first), (b, second) in pairwise(zip(plan.calls, one["calls"], strict=True)):
        assert [x == y for x, y in zip(a.blocks, b.blocks, strict=True)] == [
            x == y for x, y in zip(first[3], second[3], strict=True)
        ]
    assert one["requests"] == one["primes"] == [] and one["block_tokens"] == BLOCK


def written(plan):
    return document(plan, 1, base_url="http://h", tokenizer="m", corpus="c", corpus_chars=200_000)


def test_a_prompt_without_blocks_shares_nothing():
    bare = Trace(tuple(c.model_copy(update={"blocks": ()}) for c in CALLS))
    plan = open_loop(WORK, RULES, rate_rps=1.0, seed=1, content_seed=1, trace=bare)
    places = [p for c in written(plan)["calls"] for p in c[3]]
    assert len(places) == len(set(places)) == len(plan.calls) and expected(plan).cached_share == 0


def test_what_is_expected_is_of_the_requests_that_are_played():
    plan = at(2.0)
    inside = plan.calls[plan.lead_count :]
    want = expected(plan)
    assert want.input_tokens == pytest.approx(sum(c.input_tokens for c in inside) / len(inside))
    assert 0.5 < want.cached_share < 0.9 and prefix_tokens(WORK) == 0
    assert setup_s(plan) < 62


def rows(plan, **changes):
    share, out = expected(plan).cached_share, []
    for t, c in zip(arrivals(plan), plan.calls, strict=True):
        of = {
            "itl_ms": (20.0,) * (c.output_tokens - 1), "latency_ms": 200.0 + 20 * (c.output_tokens - 1),
            "output_tokens": c.output_tokens, "asked_tokens": c.input_tokens, "prompt_tokens": c.input_tokens,
            "cached_tokens": round(share * c.input_tokens),
        }  # fmt: skip
        out.append(row(t).model_copy(update=of | changes))
    return out


def test_s45_a_traces_lengths_and_sharing_are_compared_with_what_came():
    plan = at(4.0)
    good = summarise(plan, raw(plan, rows(plan), primes=()), RULES)
    assert (
        good.void is None
        and good.meets_slo
        and good.cached_share == pytest.approx(expected(plan).cached_share, abs=0.01)
    )
    other = summarise(plan, raw(plan, rows(plan, output_tokens=10), primes=()), RULES)
    assert other.void.startswith("lengths: 10.0 output tokens")
    hot = summarise(plan, raw(plan, rows(plan, cached_tokens=598), primes=()), RULES)
    assert hot.void is None or hot.void.startswith("cache:")
    cold = summarise(plan, raw(plan, rows(plan, cached_tokens=0), primes=()), RULES)
    assert cold.void.endswith("the cache was never full: nothing was shared")
    few = open_loop(WORK, RULES.model_copy(update={"point_s": 3.0}), rate_rps=4.0, seed=1, content_seed=1, trace=TRACE)
    assert 0 < expected(few).sharing < 20
    assert summarise(few, raw(few, rows(few, cached_tokens=0), primes=()), RULES).void is None
    full = tuple(s.model_copy(update={"kv_use": 0.99}) for s in raw(plan).samples)
    assert summarise(plan, raw(plan, rows(plan, cached_tokens=0), primes=(), samples=full), RULES).void is None


def test_clients_of_a_closed_loop_play_the_trace_too(loadgen):  # noqa: F811
    plan = closed_loop(WORK, RULES, concurrency=3, content_seed=1, trace=TRACE)
    assert len(plan.calls) > 100 and arrivals(plan) == ()
    one, asked = point(loadgen, at_once, PLAN | written(plan) | {"window_s": 0.05, "concurrency": 3})
    asyncio.run(one.run())
    assert {i.output_len for i in asked} >= {c.output_tokens for c in CALLS}


def test_the_load_generator_builds_a_traces_requests(loadgen):  # noqa: F811
    calls = [[0.0, 700, 9, [3, 40]], [0.01, 1300, 5, [3, 40, 80]]]
    one, asked = point(loadgen, at_once, PLAN | {"requests": [], "calls": calls, "block_tokens": 512, "top_p": 0.5})
    told = asyncio.run(one.run())
    assert [(i.output_len, i.prompt_len) for i in asked[4:]] == [(9, 700), (5, 1300)]
    assert all(r["ok"] for r in told["requests"])
    assert asked[4].extra_request_body["sampling_params"]["top_p"] == 0.5


@pytest.mark.parametrize("tokenizer", [Characters(), Words()])
def test_prompts_whose_blocks_begin_alike_begin_alike(tokenizer):
    from day0.tools.text import prose

    cutter = prompts.Cutter(tokenizer, prose(), chat=True)
    (one, n1), (two, n2), (more, n3) = (
        cutter.joined(places, 64, tokens)
        for places, tokens in (([5, 900, 4000], 180), ([5, 900, 70_000], 190), ([8], 500))
    )
    assert (n1, n2, n3) == pytest.approx((180, 190, 500), abs=1)
    alike = next(i for i, (a, b) in enumerate(zip(one, two, strict=False)) if a != b)
    shared = len(cutter.head(5, 64)) + len(cutter.head(900, 64))
    assert shared <= alike <= shared + 40, "the template, and chance"
    assert len(more) > len(cutter.head(8, 64)), "text goes on where a block falls short"
