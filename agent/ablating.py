"""The graph's step between replay and report: each winner once more without one of its changes, a boot each.

Nothing is reserved for it: it takes what the search and the closing left of the budget, the change that brought most
first. What is not measured is called `not ablated`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from day0.agent import reductions, seeing, story
from day0.agent.gathering import climb_inputs, current_view
from day0.agent.inputs import ClimbInputs
from day0.agent.insist import Perform, insist
from day0.agent.lease import Booted, Facts, Lease
from day0.agent.parts import Parts
from day0.agent.printing import short
from day0.agent.reductions import Reduction
from day0.agent.steps import tell
from day0.agent.view import time_left_s
from day0.agent.waterfalls import waterfall
from day0.runs.candidate import Candidate
from day0.runs.errors import CandidateFailed, Refused
from day0.runs.facts import Rung
from day0.runs.findings import Ablated
from day0.runs.schema import Attempt, Run
from day0.runs.values import FrozenMap
from day0.runs.workload import Workload
from day0.sandboxes.base import Node
from day0.tools.knee import start_rate

REPEATS = 950
"""see `day0.agent.floor.REPEATS`"""
POINTS = 3
"""around a knee that is only guessed; the search may add two to find a missing side"""


def boot(
    node: Node,
    *,
    winner: Attempt,
    candidate: Candidate,
    workload: Workload,
    inputs: ClimbInputs,
    repeat: int,
    asked: Callable[[Booted], None] = lambda _: None,
) -> Facts:
    """One boot of the reduced candidate under the winner's name, on the arrivals of the winner's own measurement.

    `asked` is what it is asked before it is measured. Raises `CandidateFailed` when it does not work.
    """
    lease = Lease(node, winner.id, winner.epoch, candidate, inputs, winner.boots + 1, repeat=repeat)
    rules = inputs.target.measure.model_copy(update={"max_points": POINTS})
    try:
        yield lease.begin()
        with lease.open() as booted:
            yield booted.ready()
            asked(booted)
            probe = yield from booted.warm(workload, Rung.REPEAT, inputs.seed)
            yield from booted.bracket(workload, Rung.REPEAT, start_rate(probe, workload), rules, inputs.seed)
    except CandidateFailed:
        yield from lease.end()
        raise
    yield from lease.end()


def ablate_all(parts: Parts, run_id: str) -> None:
    """Every winner's changes, as far as target and budget go."""
    run = parts.ledger.run(run_id)
    for workload in run.request.workloads:
        winner = story.winner(parts.ledger, run_id, workload.name)
        if winner is not None and winner != run.baseline:
            for number, one in due(parts, run, parts.ledger.attempt(winner), workload):
                if not affordable(parts, run_id):
                    tell(parts, run_id, 8, "no further change is ablated: budget or deadline holds no further boot")
                    return
                _ablate(parts, run, winner, workload, one, number)


def due(parts: Parts, run: Run, winner: Attempt, workload: Workload) -> list[tuple[int, Reduction]]:
    """What is still to be booted, the change with the largest gain first, and the number of each."""
    attempts = parts.ledger.attempts(run.id)
    booted = story.ablated(parts.ledger, run.id)
    gains = {row["attempt"]: row["gain"] for row in waterfall(run, winner, attempts, workload, {})}
    every = [r for r in reductions.reductions(run, winner, attempts) if r.candidate is not None and r.same is None]
    every.sort(key=lambda r: -(gains.get(r.step.id) or 0.0))
    done = {(a.winner, a.step, a.workload) for a in booted}
    allowed = list(enumerate(every, start=1))[: run.request.target.measure.ablations]
    return [(n, r) for n, r in allowed if (winner.id, r.step.id, workload.name) not in done]


def affordable(parts: Parts, run_id: str) -> bool:
    """Whether budget and deadline still hold one boot with its points."""
    run, attempts = parts.ledger.run(run_id), parts.ledger.attempts(run_id)
    price = seeing.boot_s(run.request, attempts) + POINTS * seeing.point_s(run.request, attempts)
    left = run.request.budget_hours * 3600 - run.spent_node_s
    return price <= min(left, time_left_s(parts.ledger, run, parts.pool.count()))


def _ablate(  # noqa: PLR0917
    parts: Parts, run: Run, winner: str, workload: Workload, one: Reduction, number: int
) -> None:
    attempt, candidate = parts.ledger.attempt(winner), one.candidate
    assert candidate is not None
    tell(parts, run.id, 8, f"{workload.name}: {short(winner)} without the change of {short(one.step.id)}")
    inputs, seen = climb_inputs(parts, run, attempt), current_view(parts, run)
    told = {"workload": workload.name, "winner": winner, "step": one.step.id}

    def again(now: Attempt) -> Perform:
        return partial(boot, winner=now, candidate=candidate, workload=workload, inputs=inputs, repeat=REPEATS + number)

    try:
        parts.engine.check(own_of(candidate, run), inputs.engine_facts, inputs.model_facts)
        failed = insist(parts, run.id, attempt, again)
    except Refused as refused:
        result = Ablated(**told, why_none=f"it is refused without it: {refused}")
    else:
        if failed is not None:
            result = Ablated(**told, why_none=f"it does not work without it: {failed.failure}: {failed.evidence}"[:300])
        else:
            result = _measured(parts, attempt, workload, seen.noise, told)
    with parts.ledger.write(run.id) as writer:
        writer.event("ablated", result, attempt=winner, key=f"ablated:{winner}:{one.step.id}:{workload.name}")
    tell(parts, run.id, 8, f"{workload.name}: the change of {short(one.step.id)}: {reductions.words(result)}")


def own_of(candidate: Candidate, run: Run) -> Candidate:
    """Without the variables that the target itself sets: those are not the candidate's doing."""
    base = run.request.target.base_env
    return candidate.model_copy(update={"env": FrozenMap((k, v) for k, v in candidate.env.items() if base.get(k) != v)})


def _measured(parts: Parts, winner: Attempt, workload: Workload, noise: float, told: dict[str, str]) -> Ablated:
    """From the knee of the boot that just ended, the last of that kind."""
    knees = parts.ledger.attempt(winner.id).knees
    knee = [k for _, rung, k in knees if rung == Rung.REPEAT and k.workload == workload.name][-1]
    own = winner.knee(workload.name)
    assert own is not None
    gain, lower, upper = reductions.worth_in_the_end(own, knee, noise)
    return Ablated(**told, without_rps=knee.rate_rps, gain=gain, lower=lower, upper=upper, how="a boot without it")
