"""What a finished attempt is worth: kept or discarded, who leads, when to stop, whether to confirm. All pure.

The value of an attempt is a rate that may be compared between attempts of one run: requests per second at the knee,
per whole node (replicas fill it), or tokens per second of one stream. A gain counts only above the measured noise.
The LLM's opinion has no way in here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import median
from typing import TYPE_CHECKING, Literal

from day0.runs.facts import FailureClass, Rung
from day0.runs.schema import FINISHED, Attempt, AttemptStatus
from day0.runs.values import Frozen
from day0.runs.workload import Objective
from pydantic import Field

if TYPE_CHECKING:
    from day0.agent.policy.base import RunView
    from day0.runs.schema import RunRequest
    from day0.runs.workload import Workload

# One-sided 95 %: of a difference of two measurements, hence the root of two beside it.
Z = 1.645
# Differences below one per cent are not worth a change of configuration, however quiet the node is.
LEAST_GAIN = 0.01
PATIENCE = 8
CERTAIN = 0.15
"""A gain beyond which no noise floor that a node is likely to have turns a verdict round: five times its prior."""

UNCOUNTED = frozenset({"stand-in", "llm"})
"""proposers whose vain experiments are no reason to end the search"""

# The candidate works; it is only not better. Every other failed rung means that it doesn't work.
WORKS_ALL_THE_SAME = frozenset(
    {FailureClass.NOT_PROMISING, FailureClass.BELOW_SLO, FailureClass.NOT_BETTER, FailureClass.NOT_STABLE}
)
MUST_PASS = (Rung.ANSWER, Rung.ACCURACY, Rung.MEASURE)


class Outcome(Frozen):
    """How an attempt ends: its final status, one sentence why, and its gain over the leader where both have one."""

    status: AttemptStatus
    reason: str
    gain: float | None = None


class Stop(Frozen):
    """Why the search ends. `no_improvement` is its own status, apart from an exhausted budget."""

    status: Literal["no_improvement", "budget", "attempts", "nothing_works", "finished"]
    reason: str


class Confirm(Frozen):
    """Whom to confirm against whom."""

    incumbent: str
    challenger: str
    expected: float = Field(description="gain between the two as measured so far")


def threshold(noise: float) -> float:
    """The least gain that counts, for a relative boot-to-boot s.d. `noise` of one measurement."""
    return max(LEAST_GAIN, Z * math.sqrt(2) * max(0.0, noise))


def replicas(attempt: Attempt, gpus: int) -> int:
    """How many copies of the candidate fill a node with that many accelerators; 1 on a CPU."""
    return max(1, gpus // max(1, attempt.candidate.gpus_held)) if gpus > 0 else 1


def value(attempt: Attempt, workload: Workload, objective: Objective, gpus: int = 0) -> float | None:
    """What is compared: higher is better, None = not measured.

    Goodput and USD per million tokens order candidates of one target alike, since the node's price is the same for
    all; both use the knee's rate, which is finer than the tokens/s of its highest passing point.
    """
    if workload.arrival == "single_stream" or objective == Objective.SINGLE_STREAM:
        single = [
            point.output_tok_s
            for _, rung, point in attempt.points
            if rung == Rung.MEASURE and point.workload == workload.name and point.concurrency == 1 and not point.void
        ]
        if single:
            return float(median(single))
    knee = attempt.knee(workload.name)
    if knee is None or knee.rate_rps <= 0:
        return None
    return knee.rate_rps * replicas(attempt, gpus)


def sound(attempt: Attempt) -> bool:
    """Whether the attempt's numbers may count: it answers, its accuracy was checked, it was measured.

    The baseline is the reference of the accuracy rung and may lack that verdict; nobody else may.
    """
    passed = {v.rung for v in attempt.verdicts if v.passed}
    failed = {v.rung for v in attempt.verdicts if not v.passed}
    needed = {rung for rung in MUST_PASS if not (attempt.proposer == "baseline" and rung == Rung.ACCURACY)}
    return needed <= passed and not failed & set(MUST_PASS)


def worth(
    attempt: Attempt | None, request: RunRequest, gpus: int = 0, workload: Workload | None = None
) -> float | None:
    """`value` of a sound attempt for the leading workload; None for everything that doesn't count."""
    if attempt is None or not sound(attempt):
        return None
    return value(attempt, workload or request.workloads[0], request.objective, gpus)


def gain(attempt: Attempt, reference: Attempt | None, request: RunRequest, gpus: int = 0) -> float | None:
    """Relative gain over a reference (0.1 = 10 % more); None where either has no value that counts."""
    mine, theirs = worth(attempt, request, gpus), worth(reference, request, gpus)
    return None if mine is None or theirs is None else mine / theirs - 1


def outcome(attempt: Attempt, attempts: Iterable[Attempt], request: RunRequest, noise: float, gpus: int = 0) -> Outcome:
    """Kept, discarded, failed or void, judged against the leaders among `attempts` (whose order doesn't matter).

    With several workloads an attempt is kept when it beats the leader of any of them.
    """
    if (early := _unmeasured(attempt)) is not None:
        return early
    kept = [a for a in attempts if a.status == AttemptStatus.KEPT and a.id != attempt.id]
    compared = [c for w in request.workloads if (c := _against(attempt, kept, request, gpus, w)) is not None]
    if not compared:
        return Outcome(status=AttemptStatus.DISCARDED, reason="no offered rate met the limits of the workload")
    least = threshold(noise)
    leader, more = next((c for c in compared if c[1] is None or c[1] > least), compared[0])
    if more is None:
        return Outcome(status=AttemptStatus.KEPT, reason="the first configuration that works")
    if more > least:
        text = f"{more:+.1%} over {leader}, above the {least:.1%} that noise can fake"
        return Outcome(status=AttemptStatus.KEPT, reason=text, gain=more)
    text = f"{more:+.1%} against {leader}; only more than {least:.1%} counts"
    return Outcome(status=AttemptStatus.DISCARDED, reason=text, gain=more)


def hangs_on_noise(attempt: Attempt, attempts: Iterable[Attempt], request: RunRequest, gpus: int = 0) -> bool:
    """Whether the verdict about a climbed attempt depends on how noisy the node is: it gained, but not by much."""
    if _unmeasured(attempt) is not None:
        return False
    kept = [a for a in attempts if a.status == AttemptStatus.KEPT and a.id != attempt.id]
    found = [c for w in request.workloads if (c := _against(attempt, kept, request, gpus, w)) is not None]
    return any(more is not None and LEAST_GAIN < more <= CERTAIN for _, more in found)


def _unmeasured(attempt: Attempt) -> Outcome | None:
    """How an attempt ends that has no number worth comparing."""
    broken = next((v for v in attempt.verdicts if not v.passed), None)
    if broken is not None and broken.failure not in WORKS_ALL_THE_SAME:
        what = broken.failure.value if broken.failure else "unknown"
        return Outcome(status=AttemptStatus.FAILED, reason=f"{broken.rung}: {what}: {broken.evidence}".rstrip(": "))
    if broken is not None:
        text = broken.detail or broken.evidence or str(broken.failure)
        return Outcome(status=AttemptStatus.DISCARDED, reason=f"{broken.rung}: {text}")
    if not sound(attempt):
        missing = ", ".join(r.value for r in MUST_PASS if attempt.verdict(r) is None)
        return Outcome(status=AttemptStatus.VOID, reason=f"never judged on {missing}; its numbers don't count")
    return None


def _against(
    attempt: Attempt, kept: Sequence[Attempt], request: RunRequest, gpus: int, workload: Workload
) -> tuple[str, float | None] | None:
    """Leader's ID and the gain over it; a gain of None = nothing worked before; None = the attempt itself doesn't."""
    mine = worth(attempt, request, gpus, workload)
    if mine is None:
        return None
    leader = leader_of(kept, request, gpus, workload)
    best = worth(leader, request, gpus, workload)
    return ("", None) if leader is None or best is None else (leader.id, mine / best - 1)


def leader_of(
    attempts: Iterable[Attempt], request: RunRequest, gpus: int = 0, workload: Workload | None = None
) -> Attempt | None:
    """The best kept attempt for a workload (default: the leading one); the earlier of equals. Order doesn't matter."""
    ranked = [
        (amount, -a.number, a)
        for a in attempts
        if a.status == AttemptStatus.KEPT and (amount := worth(a, request, gpus, workload)) is not None
    ]
    return max(ranked, key=lambda row: row[:2])[2] if ranked else None


def fruitless(attempts: Sequence[Attempt]) -> int:
    """Finished experiments since the last one that was kept; two that never bore load count as one.

    Counts what was measured or failed by its own fault. Refused and cancelled attempts cost nothing, void ones
    say nothing. What a stand-in tried while the LLM was away is never held against the search, nor are an LLM's own
    ideas, which have a patience of their own (`day0.agent.policy.turns`): else they would end the playbook's search.
    A boot that fails takes minutes where a measurement takes most of an hour: four in a row are no reason to give up.
    """
    halves = 0
    for attempt in sorted(attempts, key=lambda a: a.number):
        if attempt.status == AttemptStatus.KEPT:
            halves = 0
        elif attempt.status in {AttemptStatus.DISCARDED, AttemptStatus.FAILED} and attempt.proposer not in UNCOUNTED:
            halves += 2 if attempt.verdict(Rung.ANSWER) is not None else 1
    return halves // 2


def cost(attempts: Iterable[Attempt]) -> float | None:
    """Node seconds that a measured attempt takes: the median so far; None while nothing was measured."""
    spent = [
        a.node_s - a.beside_s for a in attempts if a.status in FINISHED and a.node_s > 0 and a.verdict(Rung.MEASURE)
    ]
    return float(median(spent)) if spent else None


def stop(view: RunView, patience: int = PATIENCE) -> Stop | None:
    """Whether the search ends here; None = go on. Attempts still queued or running are waited for."""
    if any(a.status not in FINISHED for a in view.attempts):
        return None
    if view.attempts_left <= 0:
        return Stop(status="attempts", reason=f"{len(view.attempts)} attempts were allowed and made")
    typical = cost(view.attempts)
    if view.budget_left_s <= 0 or (typical is not None and view.budget_left_s < typical):
        left = max(0.0, view.budget_left_s)
        return Stop(status="budget", reason=f"{left:.0f} node seconds are left; one attempt takes {typical or 0:.0f}")
    tries = fruitless(view.attempts)
    if tries >= patience:
        return Stop(status="no_improvement", reason=f"{tries} experiments in a row brought no improvement")
    return None


def confirm(view: RunView, against: str | None = None) -> Confirm | None:
    """Whom to confirm: the leader against the incumbent (default: the baseline); None when nothing beats it.

    Where the baseline itself has no knee there is nothing to pair the leader with: None, and it goes straight to
    replay.
    """
    best = leader_of(view.attempts, view.request, view.request.target.gpus or view.node.gpus)
    incumbent = view.attempt(against or view.baseline or "")
    if best is None or incumbent is None or best.id == incumbent.id:
        return None
    more = gain(best, incumbent, view.request, view.request.target.gpus or view.node.gpus)
    return None if more is None else Confirm(incumbent=incumbent.id, challenger=best.id, expected=more)
