"""The noise floor: the baseline booted again, and what stands where nobody measured it.

It is what a gain must stand out of to be kept (`day0.agent.policy.decide.threshold`) and what two pairs of boots are
held against (`day0.tools.judge.compare`). It is measured before the first verdict that hangs on it, and before the
confirmation at the latest: a gain that no node's noise could fake needs none. Price: `floor_boots` of the target, each
a boot, a warm-up and about two load points per workload; where they lie far apart up to `MORE_BOOTS` more, since one
burst of noise may have hit one of them. It is measured per node, engine build, checkpoint and workload, and an earlier
run's serves again for a day, unless the node was started anew since: between days a node's speed jumps further than
from boot to boot.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from functools import partial

from day0.agent import crashpoints, seeing, story
from day0.agent.confirm import around
from day0.agent.gathering import climb_inputs, current_view, hangs_on_noise
from day0.agent.inputs import ClimbInputs
from day0.agent.insist import Perform, insist
from day0.agent.lease import Facts, Lease
from day0.agent.parts import Parts
from day0.agent.steps import tell
from day0.runs.engine_facts import NodeFacts
from day0.runs.errors import CandidateFailed
from day0.runs.facts import Rung
from day0.runs.findings import NoiseFloor
from day0.runs.ledger import utc_now
from day0.runs.schema import FINISHED, Attempt, AttemptStatus, Run, RunRequest
from day0.runs.values import canonical_json, sha256
from day0.runs.workload import Workload
from day0.sandboxes.base import Node
from day0.tools import judge

FRESH = timedelta(hours=24)
REPEATS = 900
"""contents are seeded by the number of a repetition: pairs, replay and the time under load have others"""
LEAST_BOOTS = 3
MORE_BOOTS = 2
LOUD = 3.0
"""Times the prior noise from which the boots are taken to lie far apart."""
NOT_ASKED = "this target asks for no boots for it"


def key_of(baseline: Attempt, workload: Workload, run: Run, node: str) -> str:
    """Under which conditions a floor holds: node, candidate (engine build and checkpoint in it), traffic, rules."""
    rules = run.request.target.measure.model_dump(mode="json", include={"point_s", "min_requests", "p95_multiples"})
    return sha256(canonical_json([node, baseline.candidate.digest(), workload.digest(), rules, run.request.seed]))


def fresh(known: NoiseFloor | None, boot_id: str, now: datetime) -> bool:
    """Whether an earlier run's floor still holds on a node that was started under `boot_id` (empty: nobody knows)."""
    if known is None or not known.at or not boot_id or known.boot_id != boot_id:
        return False
    return timedelta() <= now - datetime.fromisoformat(known.at) <= FRESH


def boot(node: Node, *, baseline: Attempt, inputs: ClimbInputs, number: int) -> Facts:
    """Repetition `number` (from 1): one boot, the knee of each workload once more, on the arrivals of the first time.

    Raises `CandidateFailed` when it has none this time.
    """
    number_now = baseline.boots + 1
    lease = Lease(node, baseline.id, baseline.epoch, baseline.candidate, inputs, number_now, repeat=REPEATS + number)
    try:
        yield lease.begin()
        with lease.open() as booted:
            yield booted.ready()
            for workload in inputs.workloads:
                if (known := baseline.knee(workload.name)) is not None:
                    yield from around(booted, workload, Rung.REPEAT, known.rate_rps, inputs.seed)
    except CandidateFailed:
        yield from lease.end()
        raise
    yield from lease.end()


def price_s(run: Run, attempts: tuple[Attempt, ...]) -> float:
    """Node seconds that all repetitions take, as far as is known by now."""
    loads = seeing.CLOSING_POINTS * seeing.point_s(run.request, attempts) * len(run.request.workloads)
    return run.request.target.measure.floor_boots * (seeing.boot_s(run.request, attempts) + loads)


def repeated(baseline: Attempt, workload: str, lost: Collection[int] = ()) -> tuple[float, ...]:
    """Its knees so far, requests/s: the first one and those of the repetitions, without boots that were lost."""
    known = baseline.knee(workload)
    seen = [(boot, k) for boot, rung, k in baseline.knees if rung == Rung.REPEAT and k.workload == workload]
    again = [k.rate_rps for boot, k in seen if boot not in lost]
    return () if known is None else (known.rate_rps, *again)


def due(parts: Parts, run_id: str) -> bool:
    """Whether the floor is not known yet and what comes next hangs on it: a verdict, or the confirmation."""
    run = parts.ledger.run(run_id)
    seen = parts.ledger.attempts(run_id)
    base = next((a for a in seen if a.id == run.baseline), None)
    if base is None or base.status not in FINISHED or parts.ledger.facts(run_id, "floor"):
        return False
    if story.search_ended(parts.ledger, run_id) is not None:
        return True
    first = next((a for a in sorted(seen, key=lambda a: a.number) if a.status not in FINISHED), None)
    return first is not None and hangs_on_noise(parts, run, first)


def measure(parts: Parts, run_id: str) -> None:
    """The graph's step before a verdict: done once, when it is due; goes on where a kill left it.

    Other nodes that are still at work are waited for first, by the steps that follow.
    """
    if parts.pool.busy() or not due(parts, run_id):
        return
    run = parts.ledger.run(run_id)
    base = parts.ledger.attempt(str(run.baseline))
    found = _none(run, base) or _earlier(parts, run, base) or _measured(parts, run, base)
    with parts.ledger.write(run_id) as writer:
        for floor in found:
            writer.event("floor", floor, attempt=base.id, key=f"floor:{floor.workload}")
            if floor.rates_rps and not floor.reused:
                workload = next(w for w in run.request.workloads if w.name == floor.workload)
                writer.keep_floor(key_of(base, workload, run, floor.node), floor)
    seen = current_view(parts, run)
    for floor in found:
        tell(parts, run_id, 2, words(floor, seen.noise))
    crashpoints.reached("floor-measured")


def _none(run: Run, base: Attempt) -> tuple[NoiseFloor, ...]:
    """What stands where nothing is to be measured; empty where something is."""
    why = ""
    if run.request.target.measure.floor_boots == 0:
        why = NOT_ASKED
    elif base.status != AttemptStatus.KEPT:
        why = "the baseline does not work"
    return tuple(NoiseFloor(workload=w.name, why_none=why) for w in run.request.workloads) if why else ()


def _earlier(parts: Parts, run: Run, base: Attempt) -> tuple[NoiseFloor, ...]:
    """An earlier run's floors where all are still fresh; else none of them."""
    node = current_view(parts, run).node
    known = [(w, parts.ledger.floor(key_of(base, w, run, node.name))) for w in run.request.workloads]
    good = [floor for _, floor in known if floor is not None and fresh(floor, node.boot_id, utc_now())]
    return tuple(f.model_copy(update={"reused": True}) for f in good) if len(good) == len(known) else ()


def _measured(parts: Parts, run: Run, base: Attempt) -> tuple[NoiseFloor, ...]:
    boots, failed = run.request.target.measure.floor_boots, ""
    done = len({boot for boot, rung, _ in base.knees if rung == Rung.REPEAT} - lost_boots(parts, base))
    if done < boots:
        price = price_s(run, parts.ledger.attempts(run.id))
        share = price / (run.request.budget_hours * 3600)
        text = f"the noise floor: {boots} more boots of the baseline, about {price / 60:.0f} node minutes"
        tell(parts, run.id, 2, f"{text}, {share:.1%} of the budget")
    inputs = climb_inputs(parts, run, base)
    number = done
    while another(number, boots, _rates(parts, base)):
        number += 1

        def again(now: Attempt, number: int = number) -> Perform:
            return partial(boot, baseline=now, inputs=inputs, number=number)

        if (error := insist(parts, run.id, base, again)) is not None:
            failed = f"the baseline had no knee when it booted again: {error.evidence}"
            break
        crashpoints.reached("floor-boot")
    lost = lost_boots(parts, base)
    return found(run.id, run.request, parts.ledger.attempt(base.id), current_view(parts, run).node, failed, lost)


def _rates(parts: Parts, base: Attempt) -> list[tuple[float, ...]]:
    now, lost = parts.ledger.attempt(base.id), lost_boots(parts, base)
    return [repeated(now, w.name, lost) for w in parts.ledger.run(base.run).request.workloads]


def another(done: int, boots: int, rates: Iterable[Sequence[float]]) -> bool:
    """Whether the baseline boots once more after `done` of `boots` boots, whose knees by workload are `rates`."""
    return done < boots or (boots > 0 and done < boots + MORE_BOOTS and any(map(far_apart, rates)))


def far_apart(rates: Sequence[float]) -> bool:
    """Whether boots of one configuration differ by more than a burst of noise in one of them leaves believable."""
    return judge.spread(rates) > LOUD * judge.NOISE_PRIOR and judge.calm(rates) > LOUD * judge.NOISE_PRIOR


def lost_boots(parts: Parts, base: Attempt) -> frozenset[int]:
    """Boots of the baseline that a kill or a dead node cut short: what they told is measured again."""
    boots = parts.ledger.boots(base.run, attempt=base.id)
    return frozenset(b.number for b in boots if b.ended is None or b.ended.reason == "lost")


def found(  # noqa: PLR0917
    run: str, request: RunRequest, base: Attempt, node: NodeFacts, failed: str = "", lost: Collection[int] = ()
) -> tuple[NoiseFloor, ...]:
    """What the repetitions come to, by workload; `failed` is why they ended early, `lost` are boots cut short."""
    out = []
    for workload in request.workloads:
        rates = repeated(base, workload.name, lost)
        if len(rates) < LEAST_BOOTS:
            why = failed or ("too few boots" if rates else "the baseline has no knee")
            out.append(NoiseFloor(workload=workload.name, why_none=why))
            continue
        out.append(NoiseFloor(workload=workload.name, rates_rps=rates, node=node.name, boot_id=node.boot_id, run=run))
    return tuple(out)


def spread(floor: NoiseFloor) -> float:
    """Relative s.d. of the knees alone, without the prior; 0 where there are fewer than two."""
    return judge.calm(floor.rates_rps)


def words(floor: NoiseFloor, noise: float) -> str:
    """The floor of a workload in one line; `noise` is what decides, prior and all repetitions together."""
    if floor.why_none or not floor.rates_rps:
        return f"{floor.workload}: noise floor {noise:.1%}, assumed and not measured: {floor.why_none}"
    whose = f", by run {floor.run}" if floor.reused else ""
    boots = f"{len(floor.rates_rps)} boots of the baseline on {floor.node}{whose}: {spread(floor):.1%}"
    return f"{floor.workload}: noise floor {noise:.1%} ({boots}, with the prior)"
