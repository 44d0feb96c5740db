import pytest
from day0.runs import documents
from day0.tools.forecast.estimate import Forecaster
from day0.tools.forecast.hardware import hardware
from day0.tools.forecast.knee import knee
from day0.tools.forecast.layouts import assess, points, ranked
from day0.tools.forecast.names import Names
from day0.tools.forecast.prices import cost, usd_per_mtok

ORACLE = Forecaster()
NAMES = Names()
AGENTIC = documents.workload("agentic-20k1k")


@pytest.fixture(scope="module")
def glm():
    shape, family = NAMES.find("glm-5.2")
    made = points(shape, hardware("mi355x"), 8, ["bf16", "fp8", "fp4"], family=family)
    return ranked(list(made), AGENTIC, ORACLE, 2.1)


def test_the_published_layouts_of_glm_lie_in_their_intervals(glm):
    """Published: TP8 1461 and TP4xDP2 1944 output tok/s per node at 20k in, 1k out, 60 % hits."""
    by_name = {layout.name: layout for layout in glm}
    two, one = by_name["TP4xDP2 fp4 +MTP"], by_name["TP8 fp4 +MTP"]
    assert two.low <= 1944 <= two.high
    assert one.low <= 1461 <= one.high * 1.15
    assert two.node_output_tok_s > one.node_output_tok_s


def test_layouts_come_best_first_and_those_that_do_not_fit_say_why(glm):
    fits = [layout.fits for layout in glm]
    assert fits == sorted(fits, reverse=True)
    worst = [layout for layout in glm if not layout.fits]
    assert all(layout.why and layout.node_output_tok_s == 0 for layout in worst)
    assert any("weights take" in layout.why for layout in worst)
    assert next(layout.capped_by for layout in glm if layout.name == "TP4xDP2 fp4 +MTP") == "silent"
    assert {layout.precision for layout in glm if layout.fits} == {"fp8", "fp4", "bf16"}


def test_the_knee_holds_the_limits(glm):
    for layout in glm:
        if layout.knee:
            assert layout.knee.ttft_ms <= 5000
            assert layout.knee.tpot_ms <= 50
            assert layout.usd_per_mtok == pytest.approx(usd_per_mtok(2.1, layout.node_output_tok_s / 8))


def test_divisibility_is_checked_before_speed(make_point):
    heads = assess(make_point("llama-3.1-70b", tp=16), AGENTIC, ORACLE)
    assert heads.why == "" or "divide" in heads.why or heads.fits
    odd = assess(make_point("gpt-oss-120b", tp=7, precision="fp4"), AGENTIC, ORACLE)
    assert "do not divide by 7" in odd.why
    assert "no FP4" in assess(make_point(accelerator="mi300x", precision="fp4"), AGENTIC, ORACLE).why
    short = NAMES.find("gpt-oss-120b")[0].model_copy(update={"context": 4096})
    assert "exceeds the context" in assess(make_point("gpt-oss-120b", geometry=short, tp=1), AGENTIC, ORACLE).why


def test_an_impossible_limit_is_said(make_point):
    strict = AGENTIC.model_copy(update={"slo": AGENTIC.slo.model_copy(update={"tpot_ms": 0.01})})
    assert knee(make_point(), strict, ORACLE) is None
    assert "one request at a time" in assess(make_point(), strict, ORACLE).why


def test_a_single_stream_is_one_client(make_point):
    found = knee(make_point(precision="fp4", speculation=True), documents.workload("single-stream-10k1500"), ORACLE)
    assert found is not None
    assert found.clients == 1
    assert found.output_tok_s == pytest.approx(213, rel=0.6)  # published, on a stack tuned for latency


def test_attention_dp_is_offered_to_latent_caches_only():
    for name, expected in (("deepseek-r1", True), ("minimax-m2.5", False)):
        made = points(NAMES.find(name)[0], hardware("mi355x"), 8, ["fp8"])
        assert any(p.attention_dp for p in made) is expected


def test_costs_are_equal_at_the_break_even_ratio():
    own, other = hardware("mi355x"), hardware("b200")
    made = cost(own, 80.0, other, 100.0)
    assert made.break_even == pytest.approx(0.8)
    for price in made.prices:
        at_ratio = usd_per_mtok(price.reference_usd_per_hour * made.break_even, 80.0)
        assert at_ratio == pytest.approx(price.reference_usd_per_mtok)
    assert [p.kind for p in made.prices] == ["hyperscaler", "neocloud", "retail"]
    assert round(next(p.price_ratio for p in made.prices if p.kind == "retail"), 2) == 1.24
    assert made.source
