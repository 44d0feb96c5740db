"""Whether a node ran at its own pace: what the timing program says, what is learned, what is measured again."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from pathlib import Path
from typing import cast

from day0.agent import calm
from day0.runs.facts import LoadPoint
from day0.sandboxes.base import Process
from day0.tools.harness import pace as program
from day0.tools.pace import LEAST, MOST_SLOW, SLOW, Best, Meter, best_of
from day0.tools.summary import summarise
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.bench.points import RULES, plan, raw

SUMS = st.lists(st.floats(1.0, 1e5), min_size=LEAST, max_size=60)


class Written:
    """A process by what it has written so far."""

    def __init__(self) -> None:
        self.data = b""

    def output(self, offset: int, max_bytes: int) -> bytes:
        return self.data[offset : offset + max_bytes]

    def says(self, *sums: int) -> None:
        self.data += b"".join(b"%d\n" % one for one in sums)


def metered(written: Written) -> Meter:
    return Meter(cast(Process, written), Best())


def seen(share: float | None, **changes: object) -> LoadPoint:
    of = plan()
    return summarise(of, raw(of, slow_share=share), RULES).model_copy(update=changes)


def test_a_point_is_held_against_the_best_that_any_point_of_the_node_showed() -> None:
    written = Written()
    meter = metered(written)
    meter.begin()
    written.says(*[100] * 20)
    assert meter.end() == 0.0
    meter.begin()
    written.says(*[200] * 20)
    assert meter.end() == 1.0, "a whole point in a slow spell is slow though it is even in itself"
    meter.begin()
    written.says(*[100] * 15, *[190] * 5)
    assert meter.end() == 0.25


def test_what_came_before_a_point_and_half_a_line_do_not_count() -> None:
    written = Written()
    meter = metered(written)
    meter.best.learn([100.0] * LEAST)
    written.says(*[999] * 50)
    meter.begin()
    written.says(*[100] * LEAST)
    written.data += b"99"
    assert meter.end() == 0.0
    meter.begin()
    assert meter.end() is None, "too few to say"


def test_a_node_keeps_its_best_and_another_one_has_its_own() -> None:
    assert best_of("test-a") is best_of("test-a")
    assert best_of("test-a") is not best_of("test-b")


@given(SUMS, st.floats(1.01, 10.0))
def test_a_share_is_one_and_more_tenants_never_lower_it(sums: list[float], factor: float) -> None:
    best = Best()
    best.learn(sums)
    calmer, busier = best.slow_share(sums), best.slow_share([factor * one for one in sums])
    assert calmer is not None
    assert busier is not None
    assert 0.0 <= calmer <= busier <= 1.0
    if factor > SLOW:
        assert best.slow_share([factor * (best.us or 0.0)] * LEAST) == 1.0


def test_the_program_writes_a_line_a_sum(tmp_path: Path, monkeypatch) -> None:
    naps: list[float] = []

    def nap(seconds: float) -> None:
        naps.append(seconds)
        if len(naps) > 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(program.time, "sleep", nap)
    out = io.StringIO()
    try:
        with redirect_stdout(out):
            program.main()
    except KeyboardInterrupt:
        pass
    sums = [int(line) for line in out.getvalue().split()]
    assert len(sums) == 3
    assert all(one > 0 for one in sums)


def test_a_point_of_a_slow_machine_is_void_twice_and_counts_the_third_time() -> None:
    slow = seen(MOST_SLOW + 0.1)
    assert slow.meets_slo
    for number in range(calm.TRIES - 1):
        void = calm.judged(slow, number)
        assert calm.spoilt(void)
        assert not void.meets_slo
        assert "50%" in str(void.void)
    last = calm.judged(slow, calm.TRIES - 1)
    assert last == slow
    assert last.slow_share == MOST_SLOW + 0.1, "the point says it"


def test_a_calm_machine_an_unknown_one_a_warm_up_and_another_reason_change_nothing() -> None:
    for point in (seen(MOST_SLOW), seen(None), seen(0.9, warmup=True), seen(0.9, void="compile: 1 line")):
        assert calm.judged(point, 0) == point
        assert not calm.spoilt(point)


def test_s38_a_repetition_has_the_same_arrivals_and_fresh_contents() -> None:
    first = plan()
    tries = [calm.attempt(first, "measure-0", number) for number in range(calm.TRIES)]
    assert tries[0] == (first, "measure-0")
    assert len({name for _, name in tries}) == len(tries)
    assert len({now.content_seed for now, _ in tries}) == len(tries)
    assert {now.model_copy(update={"content_seed": 0}) for now, _ in tries} == {
        first.model_copy(update={"content_seed": 0})
    }
