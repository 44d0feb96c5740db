"""What limits a run: how a deadline is read, what it leaves."""

from datetime import UTC, datetime, timedelta
from math import inf

import pytest
from day0.agent import limits
from day0.agent.seeing import deadline_left_s
from day0.runs.documents import target, workload
from day0.runs.errors import UserError
from day0.runs.schema import RunRequest
from hypothesis import given
from hypothesis import strategies as st

NOW = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("typed", "seconds"),
    [("6h", 21600.0), ("90m", 5400.0), ("1.5 d", 129600.0), ("600s", 600.0), ("2026-12-01T18:00+00:00", 21600.0)],
)
def test_a_deadline_is_a_time_from_now_or_a_moment(typed: str, seconds: float) -> None:
    assert limits.seconds_until(typed, NOW) == seconds
    assert limits.seconds_until(None, NOW) is None


@pytest.mark.parametrize("typed", ["", "soon", "6", "-3h", "0h", "2026-13-01", "2026-11-30T12:00+00:00", "nan", "1e3h"])
def test_what_is_no_deadline_is_said_in_one_sentence(typed: str) -> None:
    with pytest.raises(UserError, match=r"^deadline `") as told:
        limits.seconds_until(typed, NOW)
    assert "\n" not in str(told.value)


@given(st.floats(60, 1e6))
def test_a_moment_and_the_time_until_it_are_the_same(seconds: float) -> None:
    moment = (NOW + timedelta(seconds=seconds)).isoformat()
    assert limits.seconds_until(moment, NOW) == pytest.approx(seconds, abs=1e-5)


def test_s53_time_passes_by_the_wall_or_by_what_each_node_has_worked() -> None:
    endless = RunRequest(model="m", revision="r", target=target("mi355x-twin"), workloads=(workload("chat-1k1k"),))
    until = endless.model_copy(update={"deadline_s": 3600.0})
    assert deadline_left_s(until, spent_node_s=100.0, wall_s=1000.0, nodes=1) == 2600.0
    assert deadline_left_s(until, spent_node_s=4000.0, wall_s=10.0, nodes=2) == 1600.0
    assert deadline_left_s(endless, spent_node_s=1e9, wall_s=1e9, nodes=1) == inf
