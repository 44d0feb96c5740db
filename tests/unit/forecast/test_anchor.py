import pytest
from day0.tools.forecast.estimate import Anchor, Forecaster
from hypothesis import given, settings
from hypothesis import strategies as st

ORACLE = Forecaster()
LOADS = (4.0, 16.0, 64.0)


def taught(make_point, factor, loads=LOADS):
    points = [make_point(concurrency=n) for n in loads]
    seen = ORACLE.predict(points)
    return ORACLE.anchored([
        Anchor(point=p, tok_s_per_gpu=e.total_tok_s * factor) for p, e in zip(points, seen, strict=True)
    ])  # fmt: skip


@settings(max_examples=10, deadline=None)
@given(st.floats(0.4, 2.5))
def test_three_points_carry_a_layouts_level_to_its_other_loads(make_point, factor):
    wise = taught(make_point, factor)
    others = [make_point(concurrency=n) for n in (8.0, 32.0)]
    for plain, known in zip(ORACLE.predict(others), wise.predict(others), strict=True):
        assert known.total_tok_s == pytest.approx(plain.total_tok_s * factor, rel=0.04)
        assert known.tpot_ms == pytest.approx(plain.tpot_ms / factor, rel=0.04)
        assert known.high / known.low < plain.high / plain.low


def test_a_neighbouring_layout_learns_part_and_another_model_nothing(make_point):
    wise = taught(make_point, 0.5)
    neighbour, stranger = make_point(tp=4), make_point("deepseek-r1")
    (a, b), (c, d) = ORACLE.predict([neighbour, stranger]), wise.predict([neighbour, stranger])
    assert 0.5 < c.total_tok_s / a.total_tok_s < 0.95
    assert d.total_tok_s == pytest.approx(b.total_tok_s)
    assert (d.low, d.high) == (b.low, b.high)
    assert "measured points" in c.assumes


def test_anchoring_leaves_the_first_forecaster_as_it_was(make_point):
    before = ORACLE.predict([make_point()])
    taught(make_point, 3.0)
    assert ORACLE.predict([make_point()]) == before


def test_an_unknown_accelerator_or_engine_widens_the_interval(make_point):
    known, strange = ORACLE.predict([make_point(), make_point(engine="new-engine")])
    assert strange.low < known.low
    assert strange.high > known.high
