"""What attempts have shown, in the form that belief and risk are computed from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from day0.agent.policy.decide import WORKS_ALL_THE_SAME, leader_of, worth
from day0.agent.policy.expectation import shape_of
from day0.agent.policy.settings import Plan
from day0.runs.candidate import Candidate
from day0.runs.facts import FailureClass, LoadPoint, Rung, Verdict
from day0.runs.schema import FINISHED, Attempt, AttemptStatus
from day0.runs.workload import MeasureRules, Workload
from day0.tools.loadplan import open_loop

if TYPE_CHECKING:
    from day0.agent.policy.base import RunView

SCREENED_SD = 0.08
"""of ln(worth) that is told from one point above the knee"""
SCREEN = 1.05
"""of the leader's knee: the rate that the screen rung offers"""
STEEP = 3.0
"""near the knee latency grows about this many times faster than load"""
BELOW = 0.3
"""of the leader's worth: what a candidate that meets no limit counts as"""


@dataclass(frozen=True)
class Seen:
    """One finished attempt. `works`: it answered rightly; None: nobody knows. `failed`: how it does not work."""

    attempt: Attempt
    plan: Plan
    tuned: bool
    log_worth: float | None
    sd: float
    works: bool | None
    measured: bool
    failed: Verdict | None


def seen_of(view: RunView, gpus: int) -> tuple[Seen, ...]:
    """All finished attempts in the order of their numbers."""
    tables = table_layouts(view)
    done: list[Attempt] = []
    out = []
    for attempt in sorted(view.attempts, key=lambda a: a.number):
        if attempt.status not in FINISHED or attempt.status in {AttemptStatus.REFUSED, AttemptStatus.CANCELLED}:
            continue
        out.append(_seen(attempt, view, gpus, done, tables))
        done.append(attempt)
    return tuple(out)


def _seen(attempt: Attempt, view: RunView, gpus: int, before: Sequence[Attempt], tables: dict[str, object]) -> Seen:
    amount = worth(attempt, view.request, gpus)
    broken = next((v for v in attempt.verdicts if not v.passed), None)
    failed = broken if broken is not None and broken.failure not in WORKS_ALL_THE_SAME else None
    answered = any(v.rung == Rung.ANSWER and v.passed for v in attempt.verdicts)
    log_worth, sd = None, max(view.noise / 2, 0.01)
    if amount is not None:
        log_worth = math.log(amount)
    elif broken is not None and failed is None:
        best = worth(leader_of(before, view.request, gpus), view.request, gpus)
        log_worth, sd = _censored(attempt, broken, best, view)
    works = False if failed is not None else True if answered or amount is not None else None
    return Seen(
        attempt=attempt,
        plan=Plan(attempt.candidate),
        tuned=is_tuned(attempt.candidate, tables),
        log_worth=log_worth,
        sd=sd,
        works=works,
        measured=amount is not None,
        failed=failed,
    )


def _censored(attempt: Attempt, broken: Verdict, best: float | None, view: RunView) -> tuple[float | None, float]:
    """What a candidate that was not worth measuring is worth about: told from how far its screening point missed."""
    if best is None:
        return None, SCREENED_SD
    if broken.failure == FailureClass.BELOW_SLO:
        return math.log(best * BELOW), 0.5
    workload, rules = view.request.workloads[0], view.request.target.measure
    screens = [p for _, rung, p in attempt.points if rung == Rung.SCREEN and p.workload == workload.name and not p.void]
    share = 1.0
    for point in screens[-1:]:
        over = max(1.0, overshoot(point, workload))
        share = min(1.0, SCREEN * min(over ** (-1 / STEEP), kept_up(point, workload, rules)))
    return math.log(best * max(BELOW, share)), SCREENED_SD


def kept_up(point: LoadPoint, workload: Workload, rules: MeasureRules) -> float:
    """The share of an offered rate that a server kept up with; 1 where its queue did not grow.

    Who came after t seconds of load and waited w found a server that had served the arrivals of t - w: the share is
    1 - w / t (first come, first served). What is waited within the limit counts as no queue.
    """
    slo = workload.slo
    if slo.ttft_ms is None or point.rate_rps is None:
        return 1.0
    if point.ttft_ms is None:
        return BELOW  # nobody got a first token
    shown = {50: point.ttft_ms.p50, 95: point.ttft_ms.p95, 99: point.ttft_ms.p99}[slo.ttft_percentile]
    lead_s = open_loop(workload, rules, rate_rps=point.rate_rps, seed=0, content_seed=0).lead_s
    return max(BELOW, 1.0 - max(0.0, shown - slo.ttft_ms) / 1e3 / (lead_s + point.window_s))


def overshoot(point: LoadPoint, workload: Workload) -> float:
    """Time per output token over its limit; 1 where nothing says so."""
    slo = workload.slo
    if slo.tpot_ms is None or point.tpot_ms is None:
        return 1.0
    shown = {50: point.tpot_ms.p50, 95: point.tpot_ms.p95, 99: point.tpot_ms.p99}[slo.tpot_percentile]
    return max(shown / slo.tpot_ms, 1e-6)


def table_layouts(view: RunView) -> dict[str, object]:
    """Table's digest -> the layout whose kernels it was tuned for: that of the first attempt that had it."""
    out: dict[str, object] = {}
    for attempt in sorted(view.attempts, key=lambda a: a.number):
        for digest in attempt.candidate.tables:
            out.setdefault(digest, kernels_of(attempt.candidate))
    return out


def kernels_of(candidate: Candidate) -> tuple[object, ...]:
    """What decides which shapes of experts are multiplied: their split over ranks, and whether the shared one is fused.

    A row's key holds the experts of a rank and their inner width, moe_intermediate / (tp / ep); copies and attention
    data parallelism change neither.
    """
    flags, shape = candidate.flags, shape_of(candidate)
    fused = bool(flags.get("enforce-shared-experts-fusion")), bool(flags.get("disable-shared-experts-fusion"))
    return (shape.tp, shape.ep, *fused)


def is_tuned(candidate: Candidate, tables: dict[str, object]) -> bool:
    """Whether the candidate has a table, and of its own layout."""
    return any(tables.get(digest) == kernels_of(candidate) for digest in candidate.tables)
