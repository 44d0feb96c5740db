"""What a run's attempts add up to for those who decide: noise between boots, what closing will cost. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf, log, sqrt
from statistics import median

from day0.agent.policy.decide import leader_of, worth
from day0.runs.facts import Knee, Pair, Rung
from day0.runs.findings import NoiseFloor
from day0.runs.schema import FINISHED, Attempt, AttemptStatus, RunRequest
from day0.runs.workload import Workload
from day0.tools.judge import noise_floor
from day0.tools.sequential import FALSE_PROMOTION, limits

BOOT_GUESS_S = {"cpu": 45.0}
"""node seconds to boot before anything was measured, by accelerator; others:"""
BOOT_GUESS_GPU_S = 420.0
CLOSING_POINTS = 3.5
"""of a boot around a known knee: two, one more for a missing side, and in some boots another look at the known rate"""
SPARE = 1.3
"""how much more than just enough a gain must be for a number of pairs to be likely enough"""
LEAST_PAIRS = 2
LIKELY_PAIRS = 3
"""Even a large gain takes so many where a burst hits one of the boots."""
CLOSING_SHARE = 0.4
"""of the budget that closing may keep from the search for more than the fewest pairs: where a boot with its points
takes hours, pairs to spare would leave a search of two or three experiments"""


def tried(attempts: tuple[Attempt, ...]) -> int:
    """Experiments that count against `max_attempts`: what was refused or cancelled cost nothing."""
    free = {AttemptStatus.REFUSED, AttemptStatus.CANCELLED}
    return sum(1 for a in attempts if a.proposer != "baseline" and a.status not in free)


def noise(
    attempts: tuple[Attempt, ...], pairs: Mapping[str, Sequence[Pair]], floors: Sequence[NoiseFloor] = ()
) -> float:
    """Relative s.d. of a knee between boots of one configuration, from everything that was measured twice.

    `pairs` are those of each challenger, `floors` what was measured before the search (see `day0.agent.floor`).
    """
    groups: dict[tuple[str, str], list[Knee]] = {}
    ratios: dict[tuple[str, str], list[float]] = {}
    for attempt in attempts:
        for _, rung, knee in attempt.knees:
            if rung == Rung.MEASURE:
                groups.setdefault((attempt.id, knee.workload), []).append(knee)
        # pairs differ by their arrivals, the two boots of one pair do not: only the ratio tells of boots alone
        for pair in pairs.get(attempt.id, ()) if attempt.status == AttemptStatus.KEPT else ():
            ratios.setdefault((attempt.id, pair.challenger.workload), []).append(pair.log_ratio)
    return noise_floor(list(groups.values()), list(ratios.values()), [f.rates_rps for f in floors])


def point_s(request: RunRequest, attempts: tuple[Attempt, ...]) -> float:
    """Node seconds of a load point: the median measured so far, else what the rules ask at least, doubled."""
    seen = [p.window_s for a in attempts for _, rung, p in a.points if rung == Rung.MEASURE]
    return float(median(seen)) if seen else 2 * request.target.measure.point_s


def boot_s(request: RunRequest, attempts: tuple[Attempt, ...]) -> float:
    """Node seconds from launch until load can run: the median so far, else a guess by kind of node."""
    climbed = [a for a in attempts if a.status in FINISHED and a.node_s > 0 and a.verdict(Rung.MEASURE)]
    repeats = {a.id: {boot for boot, rung, _ in a.points if rung == Rung.REPEAT} for a in climbed}
    measured = [a for a in climbed if a.boots == 1 + len(repeats[a.id])]
    # a screened point that the search for the knee began with stands under both rungs
    loaded = [
        sum(p.window_s for _, p in {(boot, p) for boot, _, p in a.points if boot not in repeats[a.id]})
        for a in measured
    ]
    spent = [max(0.0, a.node_s - a.beside_s - load) for a, load in zip(measured, loaded, strict=True)]
    return float(median(spent)) if spent else BOOT_GUESS_S.get(request.target.accelerator, BOOT_GUESS_GPU_S)


def closing_boot_s(request: RunRequest, attempts: tuple[Attempt, ...]) -> float:
    """Node seconds of one boot of closing: as the boots for the noise floor took, which are of the same kind.

    While there are none: a boot with `CLOSING_POINTS` load points.
    """
    base = next((a for a in attempts if a.proposer == "baseline"), None)
    again = len({boot for boot, rung, _ in base.points if rung == Rung.REPEAT}) if base is not None else 0
    if base is not None and again:
        return base.beside_s / again
    return boot_s(request, attempts) + CLOSING_POINTS * point_s(request, attempts)


def pairs_likely(request: RunRequest, attempts: tuple[Attempt, ...], workload: Workload, noise: float) -> int:
    """Pairs of boots that a confirmation is likely to take, one to spare included.

    As many as lift the leader's measured gain above what noise can fake (see `day0.tools.judge.compare`); as few as a
    large gain takes while there is none yet, for that is what a search begins with. None where the defaults have no
    knee to pair with.
    """
    most, gpus = request.target.measure.max_pairs, request.target.gpus
    baseline = next((a for a in attempts if a.proposer == "baseline"), None)
    leader = leader_of(attempts, request, gpus, workload)
    before, after = (worth(a, request, gpus, workload) for a in (baseline, leader))
    if before is None:
        return 0 if baseline is not None and baseline.status in FINISHED else min(most, LIKELY_PAIRS + 1)
    if after is None or after <= before:
        return min(most, LIKELY_PAIRS + 1)
    return min(most, _pairs_needed(log(after / before), noise, most) + 1)


def _pairs_needed(gain: float, noise: float, most: int) -> int:
    """The fewest pairs, three at least, that show such a gain (log) where they are all."""
    for n in range(LIKELY_PAIRS, most):
        if gain > SPARE * limits(n, n, FALSE_PROMOTION)[1] * noise / sqrt(n / 2):
            return n
    return most


def pairs_allowed(
    request: RunRequest, attempts: tuple[Attempt, ...], spent_node_s: float, deadline_left_s: float = inf
) -> int:
    """Pairs that budget and deadline still pay for beside stability and replay: two at least, the target's limit at
    most.
    """
    one = closing_boot_s(request, attempts)
    left = min(request.budget_hours * 3600 - spent_node_s, deadline_left_s)
    left -= request.target.measure.stability_s + 2 * one
    return max(LEAST_PAIRS, min(request.target.measure.max_pairs, int(left / (2 * one))))


def closing_s(request: RunRequest, attempts: tuple[Attempt, ...], noise: float) -> float:
    """Node seconds reserved for confirm, stability and replay, and for the noise floor while it is not measured: search
    never spends them (S53).

    Around a known knee a boot takes two points, a warm-up and, for one in two, a third point. Beyond the fewest pairs
    no more than `CLOSING_SHARE` of the budget is reserved.
    """
    one = closing_boot_s(request, attempts)
    likely = [pairs_likely(request, attempts, w, noise) for w in request.workloads]
    fewest = [min(pairs, LEAST_PAIRS) for pairs in likely]
    stable = len(request.workloads) * request.target.measure.stability_s
    wanted, least = (
        sum(2 * pairs + 2 for pairs in some) * one + stable for some in (likely, fewest)
    )  # stability, replay
    base = next((a for a in attempts if a.proposer == "baseline"), None)
    floor = 0.0 if base is not None and base.beside_s else request.target.measure.floor_boots * one
    return max(floor + least, min(floor + wanted, CLOSING_SHARE * request.budget_hours * 3600))


def search_left_s(
    request: RunRequest,
    attempts: tuple[Attempt, ...],
    spent_node_s: float,
    noise: float,
    deadline_left_s: float = inf,
) -> float:
    """Node seconds that the search may still spend; the closing time is already reserved.

    A deadline is reckoned as if one node worked: closing uses one, and a batch waits for its slowest climb.
    """
    left = min(request.budget_hours * 3600 - spent_node_s, deadline_left_s)
    return left - closing_s(request, attempts, noise)


def deadline_left_s(request: RunRequest, spent_node_s: float, wall_s: float, nodes: int) -> float:
    """Seconds until the deadline, endless where there is none.

    The time that passed is the larger of the wall time since the request and what each node has worked: a simulated
    node works hours in a second, a real one never more than the wall.
    """
    if request.deadline_s is None:
        return inf
    return request.deadline_s - max(wall_s, spent_node_s / max(1, nodes))
