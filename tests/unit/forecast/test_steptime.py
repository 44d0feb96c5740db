import itertools
from dataclasses import replace

import pytest
from day0.tools.forecast.bound import bound
from day0.tools.forecast.estimate import Forecaster
from day0.tools.forecast.names import Names
from day0.tools.forecast.point import memory, running_cap
from day0.tools.forecast.stacks import measured
from hypothesis import given, settings
from hypothesis import strategies as st

ORACLE = Forecaster()
MODELS = ["glm-5.2", "deepseek-r1", "qwen3.5-397b-a17b", "minimax-m2.5", "gpt-oss-120b", "llama-3.1-70b", "kimi-k3"]


def test_the_silent_cap_is_48_per_replica(make_point):
    assert running_cap(make_point(speculation=True, concurrency=128.0)) == (48.0, "silent")
    assert running_cap(make_point(speculation=True, max_running=256)) == (256.0, "asked")
    assert running_cap(make_point(speculation=True, engine="atom"))[1] == "memory"
    assert running_cap(make_point(accelerator="b200", speculation=True))[1] == "memory"
    two = make_point(speculation=True, tp=4, dp=2, concurrency=96.0)
    assert ORACLE.predict([two])[0].capped_by == ""
    assert ORACLE.predict([replace(two, concurrency=97.0)])[0].capped_by == "silent"


def test_the_cap_turns_load_into_queueing(make_point):
    below, above = ORACLE.predict([make_point(speculation=True, concurrency=n) for n in (48.0, 192.0)])
    assert above.total_tok_s == pytest.approx(below.total_tok_s, rel=0.02)
    assert above.ttft_p50_ms > 10 * below.ttft_p50_ms


def test_the_memory_cap_of_an_observed_boot(make_point):
    # GLM-5.1 MXFP4 on two MI355X holds 733,696 tokens, so 94 requests of 7.8k, of which 90 were seen to run
    point = make_point("glm-5.1", precision="fp4", tp=2)
    assert memory(point).kv_tokens == pytest.approx(733_696, rel=0.3)
    cap, why = running_cap(point)
    assert (why, cap) == ("memory", pytest.approx(94, rel=0.3))


@settings(max_examples=25, deadline=None)
@given(
    model=st.sampled_from(MODELS),
    layout=st.tuples(st.sampled_from([4, 8]), st.booleans(), st.sampled_from(["fp8", "fp4"])),
    accelerator=st.sampled_from(["mi355x", "b200"]),
    tokens=st.sampled_from([512.0, 8192.0, 60_000.0]),
)
def test_more_clients_never_lower_throughput_nor_tpot_and_stay_below_the_bound(
    make_point, model, layout, accelerator, tokens
):
    tp, spec, precision = layout
    points = [
        make_point(model, accelerator, tp=tp, speculation=spec, precision=precision, input_tokens=tokens, concurrency=n)
        for n in (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)
    ]
    made = ORACLE.predict(points)
    for less, more in itertools.pairwise(made):
        assert more.total_tok_s >= less.total_tok_s * 0.995
        assert more.tpot_ms >= less.tpot_ms * 0.98
    for point, estimate in zip(points, made, strict=True):
        assert 0 < estimate.total_tok_s <= bound(point)


def test_output_and_total_are_one_rate(make_point):
    (made,) = ORACLE.predict([make_point()])
    assert made.total_tok_s / made.output_tok_s == pytest.approx((7373 + 922) / 922)
    assert made.requests_s * 922 / 8 == pytest.approx(made.output_tok_s)


def test_open_load_below_capacity_gives_what_is_offered(make_point):
    point = make_point(precision="fp4", tp=4, dp=2, speculation=True, input_tokens=20_000.0, output_tokens=1000.0,
                       cached=0.6, load="open", concurrency=None, rate_rps=0.5)  # fmt: skip
    low, far = ORACLE.predict([point, replace(point, rate_rps=500.0)])
    assert low.requests_s == pytest.approx(0.5, rel=0.01)
    assert 1.0 < far.requests_s < 20.0
    assert far.tpot_ms > low.tpot_ms


def test_a_cache_that_sessions_outgrow_is_a_cliff(make_point):
    made = ORACLE.predict([
        make_point("qwen3.5-397b-a17b", tp=4, agentic=True, cached=None, input_tokens=110_000.0, output_tokens=450.0,
                   concurrency=n) for n in (16.0, 160.0)
    ])  # fmt: skip
    assert made[1].total_tok_s < made[0].total_tok_s


def test_older_stacks_are_slower(make_point):
    new, old = ORACLE.predict([make_point(), make_point(age=0.5)])
    assert old.total_tok_s < new.total_tok_s
    assert "newest" in new.assumes
    assert "0.5 years older" in old.assumes


def test_cited_figures_stay_within_reach(cited):
    names = Names()
    rows = [measured(row, names) for row in cited]
    made = ORACLE.predict([m.point for m in rows])
    errors, inside = [], 0
    for m, e in zip(rows, made, strict=True):
        value = e.requests_s * m.tokens / m.gpus
        errors.append(abs(value / m.per_gpu - 1))
        inside += value * e.low <= m.per_gpu <= value * e.high
    assert sorted(errors)[len(errors) // 2] <= 0.20
    assert inside / len(rows) >= 0.70
