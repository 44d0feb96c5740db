"""Requests as columns: both forms of a load generator's result say the same."""

from __future__ import annotations

import pytest
from day0.runs.errors import Infrastructure
from day0.tools.columns import of_rows, read
from day0.tools.rawpoint import Row
from day0.tools.summary import percentiles
from hypothesis import given
from hypothesis import strategies as st

ROW = {
    "planned": 1.0, "sent": 1.5, "ttft_ms": 250.0, "itl_ms": [10.0, 20.0, 10.0], "latency_ms": 290.0,
    "output_tokens": 4, "asked_tokens": 64, "prompt_tokens": None, "cached_tokens": 32, "hash": "h", "ok": True,
    "error": "",
}  # fmt: skip
COLUMNS = {
    "count": 2, "planned_us": [1_000_000, 2_000_000], "sent_us": [1_500_000, 2_000_000], "ttft_us": [250_000, 0],
    "latency_us": [290_000, 5_000], "output_tokens": [4, 0], "asked_tokens": 64, "prompt_tokens": None,
    "cached_tokens": [32, None], "in_window": [4, 0], "errors": {"1": "cut"}, "hash": "h", "itl_us": [10_000, 20_000],
    "itl_times": [2, 1], "itl_runs": [2, 0],
}  # fmt: skip


def test_rows_and_columns_are_the_same_requests() -> None:
    lost = ROW | {"planned": 2.0, "sent": 2.0, "ttft_ms": 0.0, "itl_ms": [], "latency_ms": 5.0, "output_tokens": 0}
    rows = read([ROW, lost | {"cached_tokens": None, "ok": False, "error": "cut"}])
    columns = read(COLUMNS)
    for name in ("planned", "sent", "ttft_ms", "latency_ms", "output_tokens", "prompt", "first_s", "ended_s"):
        assert list(getattr(rows, name)) == list(getattr(columns, name)), name
    assert list(rows.ok) == list(columns.ok) == [True, False] and rows.errors == columns.errors == ("", "cut")
    assert rows.tpot_ms[0] == columns.tpot_ms[0] and str(rows.tpot_ms[1]) == str(columns.tpot_ms[1]) == "nan"
    assert percentiles(rows.itl_ms) == percentiles(columns.itl_ms, columns.times)
    assert columns.in_window is not None and rows.tokens_within(0.0, 60.0).sum() == columns.in_window.sum()


def test_tokens_are_counted_where_they_came() -> None:
    one = of_rows([Row.model_validate(ROW)])  # tokens at 1.75, 1.76, 1.78 and 1.79
    counts = [one.tokens_within(0.0, end)[0] for end in (1.74, 1.755, 1.765, 1.785, 2.0)]
    assert counts == [0, 1, 2, 3, 4] and one.tokens_within(1.77, 3.0)[0] == 2


@pytest.mark.parametrize(
    "value",
    [
        None,
        "rows",
        [1],
        [ROW | {"itl_ms": "x"}],
        {k: v for k, v in COLUMNS.items() if k != "sent_us"},
        COLUMNS | {"ttft_us": [1]},
        COLUMNS | {"ttft_us": ["a", "b"]},
        COLUMNS | {"itl_times": [1]},
        COLUMNS | {"itl_runs": [9, 9]},
        COLUMNS | {"errors": {"7": "cut"}},
        COLUMNS | {"count": None},
    ],
)
def test_a_result_that_is_none_is_the_harness_fault(value: object) -> None:
    with pytest.raises(Infrastructure, match="load generator"):
        read(value)


@given(st.lists(st.tuples(st.floats(0, 1e4), st.integers(1, 50)), min_size=1, max_size=30))
def test_percentiles_of_counted_values_are_those_of_the_values(pairs: list[tuple[float, int]]) -> None:
    counted = percentiles([v for v, _ in pairs], [n for _, n in pairs])
    listed = percentiles([v for v, n in pairs for _ in range(n)])
    assert counted is not None and listed is not None
    for name in ("mean", "p50", "p95", "p99"):
        assert getattr(counted, name) == pytest.approx(getattr(listed, name), rel=1e-9, abs=1e-9)
