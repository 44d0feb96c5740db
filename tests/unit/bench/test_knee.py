from __future__ import annotations

import random
from math import exp, log

import pytest
from day0.runs.errors import CandidateFailed
from day0.runs.facts import LoadPoint, Percentiles
from day0.runs.workload import MeasureRules, Slo, Workload
from day0.tools.knee import EXTRA_POINTS, KneeSearch, arrival_seed, fallen, knee, start_rate
from hypothesis import given, settings
from hypothesis import strategies as st

WORK = Workload(name="t", input_tokens=256, output_tokens=64, slo=Slo(ttft_ms=1500, tpot_ms=60))


def rules(points: int = 5) -> MeasureRules:
    return MeasureRules(point_s=8, min_requests=1, p95_multiples=0, max_points=points, max_pairs=2, stability_s=0)


def flat(value: float) -> Percentiles:
    return Percentiles(mean=value, p50=value, p95=value, p99=value)


def point(
    rate: float,
    *,
    ttft: float = 100,
    tpot: float = 10,
    steady: bool = True,
    void: str | None = None,
    delivered: float | None = None,
) -> LoadPoint:
    ok = steady and void is None and ttft <= 1500 and tpot <= 60
    done = rate if delivered is None else delivered
    return LoadPoint(
        workload="t", rate_rps=rate, seed=1, window_s=8, offered=80, completed=80, failed=0, output_tok_s=64 * done,
        total_tok_s=320 * done, ttft_ms=flat(ttft), tpot_ms=flat(tpot), success_share=1.0, steady=steady, meets_slo=ok,
        void=void,
    )  # fmt: skip


class Queue:
    """Latency of a single queue: service time grows hyperbolically towards capacity; beyond it nothing is steady."""

    def __init__(self, capacity: float, base_ms: float, tpot_ms: float, noise: float = 0.0, seed: int = 0) -> None:
        self.capacity, self.base, self.tpot, self.noise = capacity, base_ms, tpot_ms, noise
        self.rng = random.Random(seed)
        self.asked: list[float] = []

    def ttft(self, rate: float) -> float:
        return self.base / (1 - rate / self.capacity)

    def per_token(self, rate: float) -> float:
        return self.tpot * (1 + 2 * rate / self.capacity)

    def true_knee(self) -> float:
        low, high = 1e-6, self.capacity * (1 - 1e-9)
        for _ in range(100):
            mid = (low + high) / 2
            low, high = (mid, high) if self.ttft(mid) <= 1500 and self.per_token(mid) <= 60 else (low, mid)
        return low

    def __call__(self, rate: float, index: int) -> LoadPoint:
        assert index == len(self.asked)
        self.asked.append(rate)
        shake = exp(self.rng.gauss(0, self.noise))
        if rate >= self.capacity:
            return point(rate, ttft=5000 * shake, tpot=self.tpot * 3, steady=False, delivered=self.capacity)
        return point(rate, ttft=self.ttft(rate) * shake, tpot=self.per_token(rate) * shake)


servers = st.builds(Queue, capacity=st.floats(0.5, 500), base_ms=st.floats(20, 700), tpot_ms=st.floats(2, 40))


@given(server=servers, off=st.floats(0.4, 1.5), points=st.sampled_from([3, 5, 8]))
@settings(max_examples=200, deadline=None)
def test_the_true_knee_lies_inside_the_bracket(server: Queue, off: float, points: int) -> None:
    found = knee(server, start=off * server.capacity * 0.9, rules=rules(points), workload=WORK)
    true = server.true_knee()
    assert len(server.asked) <= points + EXTRA_POINTS
    assert found.passed_rps <= true * 1.0001
    if found.failed_rps is not None:
        assert true <= found.failed_rps * 1.0001
        assert found.passed_rps <= found.rate_rps <= found.failed_rps
        assert abs(log(found.rate_rps / true)) <= log(found.failed_rps / found.passed_rps) + 1e-6
        assert found.bound_by in {"p95 TTFT", "p50 TPOT", "steadiness"}


@given(server=servers, seed=st.integers(0, 1000))
@settings(max_examples=100, deadline=None)
def test_five_points_come_within_a_few_percent_without_noise(server: Queue, seed: int) -> None:
    found = knee(server, start=server.capacity * 0.9, rules=rules(5), workload=WORK)
    assert found.failed_rps is not None
    assert abs(log(found.rate_rps / server.true_knee())) < 0.10


def test_noise_moves_the_knee_little() -> None:
    errors = []
    for seed in range(60):
        server = Queue(10, 200, 15, noise=0.05, seed=seed)
        found = knee(server, start=7.5, rules=rules(5), workload=WORK)
        errors.append(abs(log(found.rate_rps / server.true_knee())))
    assert sorted(errors)[len(errors) // 2] < 0.03
    assert max(errors) < 0.15


def test_a_cliff_is_bracketed_though_nothing_foretells_it() -> None:
    def cliff(rate: float, index: int) -> LoadPoint:
        return point(rate) if rate < 7.3 else point(rate, ttft=40_000, steady=False, delivered=2.5)

    found = knee(cliff, start=9.0, rules=rules(8), workload=WORK)
    assert found.failed_rps is not None
    assert found.passed_rps < 7.3 <= found.failed_rps
    assert found.failed_rps / found.passed_rps < 1.6


def test_a_pass_above_a_failure_does_not_count_unless_the_failure_was_chance() -> None:
    asked: list[float] = []

    def hole(rate: float, index: int) -> LoadPoint:
        asked.append(rate)
        return point(rate, ttft=9000) if 4.0 < rate < 6.0 else point(rate, ttft=300 if rate < 8 else 3000)

    search = KneeSearch(7.0, rules(8), WORK)
    for rate in (7.0, 5.0, 3.0):
        search._rate = rate
        search.add(hole(rate, 0))
    assert search.next() == (5.0, 3)  # the lowest failure is looked at again
    search.add(point(5.0, ttft=9000))
    found = search.result()
    assert found.passed_rps == 3.0 and found.failed_rps == 5.0


def test_s46_a_rate_counts_by_the_majority_of_its_repeats() -> None:
    search = KneeSearch(5.0, rules(9), WORK)
    for ttft in (1600.0, 1400.0, 1300.0):
        search._rate = 5.0
        search.add(point(5.0, ttft=ttft))
    assert search.result().passed_rps == 5.0
    tie = KneeSearch(5.0, rules(9), WORK)
    for ttft in (1600.0, 1400.0):
        tie._rate = 5.0
        tie.add(point(5.0, ttft=ttft))
    with pytest.raises(CandidateFailed):
        tie.result()


def test_a_tight_bracket_repeats_its_sides() -> None:
    search = KneeSearch(5.0, rules(6), WORK)
    search.add(point(5.0))
    search._rate = 5.1
    search.add(point(5.1, ttft=2000))
    assert search.next() == (5.0, 2)
    search.add(point(5.0))
    assert search.next() == (5.1, 3)


def test_s46_a_rate_that_is_looked_at_again_meets_other_arrivals_and_a_void_point_the_same() -> None:
    search = KneeSearch(5.0, rules(6), WORK)
    assert search.repeat == 0
    search.add(point(5.0, void="compile: 1 line"))
    assert search.next() == (5.0, 1) and search.repeat == 0
    search.add(point(5.0))
    search._rate = 5.1
    search.add(point(5.1, ttft=2000))
    assert search.next() == (5.0, 3) and search.repeat == 1
    seeds = {arrival_seed(seed, repeat) for seed in range(5000) for repeat in range(4)}
    assert len(seeds) == 4 * 5000 and arrival_seed(7, 0) == 7


def test_throughput_that_dips_and_comes_back_is_not_taken_for_monotone() -> None:
    asked: list[float] = []

    def dip(rate: float, index: int) -> LoadPoint:
        # between 5 and 6 requests/s the server thrashes; above it a larger batch makes up for that, up to 9
        asked.append(rate)
        if 5.0 <= rate <= 6.0:
            return point(rate, ttft=20_000, steady=False, delivered=2.0)
        return point(rate, ttft=300) if rate < 9.0 else point(rate, ttft=30_000, steady=False, delivered=8.5)

    for start in (3.0, 4.5, 5.5, 7.0, 12.0):
        asked.clear()
        found = knee(dip, start=start, rules=rules(8), workload=WORK)
        assert found.failed_rps is not None and found.passed_rps <= found.rate_rps * 1.0001 <= found.failed_rps
        seen = sorted(asked)
        failed = [r for r in seen if 5.0 <= r <= 6.0 or r >= 9.0]
        # whatever lies above the lowest rate that was seen to fail never counts, however well it went
        assert found.failed_rps == min(failed) and found.passed_rps == max(r for r in seen if r < min(failed))


def test_nothing_passes_is_below_the_slo() -> None:
    count = 0

    def slow(rate: float, index: int) -> LoadPoint:
        nonlocal count
        count += 1
        return point(rate, ttft=9000)

    with pytest.raises(CandidateFailed) as caught:
        knee(slow, start=3.0, rules=rules(3), workload=WORK)
    assert caught.value.failure == "below_slo"
    assert count == 3 + EXTRA_POINTS


def test_everything_passes_leaves_the_bracket_open() -> None:
    found = knee(lambda rate, index: point(rate), start=3.0, rules=rules(3), workload=WORK)
    assert found.failed_rps is None
    assert found.rate_rps == found.passed_rps > 3.0
    assert found.goodput_tok_s == pytest.approx(64 * found.passed_rps)


def test_a_void_point_is_repeated_once_and_failures_are_not() -> None:
    asked: list[tuple[float, int]] = []

    def shaky(rate: float, index: int) -> LoadPoint:
        asked.append((rate, index))
        return point(rate, void="compile: 1 line") if index == 0 else point(rate, ttft=200 if rate < 5 else 4000)

    knee(shaky, start=4.0, rules=rules(3), workload=WORK)
    assert asked[0][0] == asked[1][0] == 4.0

    def failing(rate: float, index: int) -> LoadPoint:
        return point(rate, void="failures: 3 of 80", steady=True) if rate > 5 else point(rate)

    found = knee(failing, start=8.0, rules=rules(5), workload=WORK)
    assert found.failed_rps is not None and found.bound_by == "failed requests"


def test_start_is_below_what_the_probe_delivered() -> None:
    assert start_rate(point(10.0), WORK) == pytest.approx(9.0)
    assert start_rate(point(10.0, tpot=90, ttft=9000), WORK) == pytest.approx(6.0)


def bursting(hit: set[int], capacity: float = 10.0):
    """A server whose points of these numbers are hit by a burst: everything takes 1.4 times as long."""
    server = Queue(capacity, base_ms=100, tpot_ms=22)

    def measure(rate: float, index: int) -> LoadPoint:
        found = server(rate, index)
        if index in hit:
            return point(rate, ttft=server.ttft(rate) * 1.4, tpot=server.per_token(rate) * 1.4)
        return found

    return server, measure


def again(measure, start: float, *, known: bool) -> tuple[float, int]:
    """(knee, points) of a boot whose knee is known from another."""
    search, count = KneeSearch(start, rules(2), WORK, doubt=fallen(0.01) if known else 0.0), 0
    while (asked := search.next()) is not None:
        search.add(measure(*asked))
        count += 1
    return search.result().rate_rps, count


def test_one_burst_at_a_known_knee_is_looked_at_again():
    server, measure = bursting({0})
    true = server.true_knee()
    low, _ = again(measure, 0.98 * true, known=False)
    server.asked.clear()
    found, count = again(measure, 0.98 * true, known=True)
    assert low < 0.8 * true
    assert found == pytest.approx(true, rel=0.04)
    assert count == 4


def test_a_knee_that_really_fell_costs_one_more_point_and_stays_low():
    server, measure = bursting(set(), capacity=6.0)
    true = server.true_knee()
    found, count = again(measure, 1.5 * true, known=True)
    assert found == pytest.approx(true, rel=0.08)
    assert count <= 2 + EXTRA_POINTS


def test_a_knee_near_the_known_one_takes_no_further_point():
    server, measure = bursting(set())
    assert again(measure, 1.03 * server.true_knee(), known=True)[1] == 2


def test_the_noisier_a_node_the_further_a_knee_may_fall():
    assert fallen(0.0) == fallen(0.02) == 0.9
    assert 0.7 < fallen(0.06) < 0.8
