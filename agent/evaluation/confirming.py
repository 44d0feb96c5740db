"""The closing half in the arena: the best candidate against the baseline in pairs of boots, then held under load."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from day0.agent import accuracies, confirm, seeing
from day0.agent.evaluation.arena import Arena
from day0.agent.policy import decide
from day0.agent.stability import stability
from day0.runs.errors import CandidateFailed
from day0.runs.facts import Rung
from day0.runs.schema import Attempt, AttemptStatus, Comparison
from day0.runs.workload import Workload
from day0.tools import judge


@dataclass(frozen=True)
class Winner:
    """The confirmed attempt of the leading workload; None: no configuration works."""

    attempt: Attempt | None
    reason: str


def winner(arena: Arena) -> Winner:
    """Confirms the best candidate, else the next best, else the baseline if it works. Raises `Infrastructure`."""
    arena.floor()
    workload, vain = arena.request.workloads[0], set[str]()
    while (challenger := _challenger(arena, workload, vain)) is not None:
        good, reason = confirmed(arena, challenger, workload)
        if good:
            return Winner(arena.book.attempt(challenger.id), reason)
        vain.add(challenger.id)
    base = arena.book.attempt(arena.book.baseline or "")
    if decide.worth(base, arena.request, arena.gpus, workload) is None:
        return Winner(None, "no configuration works")
    return Winner(base, "nothing better than the defaults was found")


def _challenger(arena: Arena, workload: Workload, vain: set[str]) -> Attempt | None:
    """The best kept candidate that beats the baseline as measured and was not confirmed in vain."""
    book, request = arena.book, arena.request
    floor = decide.worth(book.attempt(book.baseline or ""), request, arena.gpus, workload) or 0.0
    ranked = [
        (value, -a.number, a)
        for a in book.attempts()
        if a.status == AttemptStatus.KEPT and a.id not in vain and a.id != book.baseline
        if (value := decide.worth(a, request, arena.gpus, workload) or 0.0) > floor
    ]
    spent_up = book.spent_s >= request.budget_hours * 3600
    return None if not ranked or (vain and spent_up) else max(ranked, key=lambda row: row[:2])[2]


def confirmed(arena: Arena, challenger: Attempt, workload: Workload) -> tuple[bool, str]:
    """Whether it is confirmed, and what was found."""
    if lost := accuracies.lossy_of(arena.book.judged.get(challenger.id, ())):
        return False, lost
    base = arena.book.attempt(arena.book.baseline or "")
    rules, gain = arena.request.target.measure, "the defaults do not work"
    if base.knee(workload.name) is not None:
        comparison: Comparison | None = None
        pairs = arena.book.pairs.setdefault(challenger.id, [])
        most = seeing.pairs_allowed(arena.request, arena.book.attempts(), arena.book.spent_s)
        while not confirm.enough(pairs, comparison, most):
            try:
                _pair(arena, challenger, base, workload, len(pairs) + 1)
            except CandidateFailed as failed:
                return False, f"it failed while it was confirmed: {failed.evidence}"
            noise = arena.book.view().noise
            comparison = judge.compare(pairs, incumbent=base.id, challenger=challenger.id, noise=noise, most=most)
        assert comparison is not None
        arena.compared.append(comparison)
        gain = confirm.told(comparison)
        if not comparison.better:
            return False, gain
    if rules.stability_s > 0 and (why := _unstable(arena, challenger, workload)):
        return False, f"not stable: {why}"
    return True, gain


def _pair(arena: Arena, challenger: Attempt, base: Attempt, workload: Workload, number: int) -> None:
    now = arena.book.attempt(challenger.id)
    make = partial(
        confirm.pair,
        challenger=now,
        incumbent=base,
        number=number,
        workload=workload,
        inputs=arena.inputs(now),
    )
    arena.insist(challenger.id, make)


def _unstable(arena: Arena, challenger: Attempt, workload: Workload) -> str:
    """Why it did not hold under load for long; empty when it did."""
    now = arena.book.attempt(challenger.id)
    arena.insist(challenger.id, partial(stability, challenger=now, workload=workload, inputs=arena.inputs(now)))
    verdict = arena.book.attempt(challenger.id).verdict(Rung.CONFIRM)
    return "" if verdict is not None and verdict.passed else (verdict.evidence if verdict else "it failed")
