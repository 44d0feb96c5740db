"""A winner without one of its changes, booted on a simulated node: what matters is told from the idle change."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from day0.agent import ablating
from day0.agent.climb import climb
from day0.agent.evaluation.arena import Arena
from day0.agent.evaluation.playing import Job, request_of
from day0.agent.reductions import reductions, worth_in_the_end
from day0.runs.facts import Rung
from day0.runs.schema import Attempt, AttemptStatus, Run, RunStatus
from day0.runs.workload import MeasureRules, Slo, Workload
from day0.sandboxes.twin.world import world

RULES = MeasureRules(
    point_s=20.0, min_requests=30, p95_multiples=0.0, max_points=3, max_pairs=2, stability_s=0.0, floor_boots=2
)
TRAFFIC = Workload(
    name="short", input_tokens=4000, output_tokens=120, prefixes=4, cached_share=0.5,
    slo=Slo(ttft_ms=3000.0, tpot_ms=30.0),
)  # fmt: skip
CHAIN: tuple[dict[str, object], ...] = ({"log-level": "warning"}, {"max-running-requests": 4})


@pytest.fixture
def arena(tmp_path: Path) -> Arena:
    base = world("llama-3.1-70b-leftover")
    found = base.model_copy(update={"name": "ablated", "story": (), "node": type(base.node)(), "faults": ()})
    asked = request_of(Job(world="llama-3.1-70b-leftover", policy="default", rules=RULES, hours=1000.0), found)
    made = Arena(found, asked.model_copy(update={"workloads": (TRAFFIC,)}), tmp_path)
    made.survey()
    made.floor()
    return made


def kept(arena: Arena, parent: Attempt, flags: dict[str, object]) -> Attempt:
    changed = parent.candidate.model_copy(update={"flags": {**parent.candidate.flags, **flags}})
    made = arena.book.add(changed, "playbook", parent=parent.id)
    arena.book.move(made.id, AttemptStatus.RUNNING, epoch=0)
    now = arena.book.attempt(made.id)
    arena.perform(made.id, partial(climb, now, inputs=arena.inputs(arena.book.attempts()[0])))
    arena.book.move(made.id, AttemptStatus.KEPT)
    return arena.book.attempt(made.id)


def test_delete_one_boots_tell_which_change_matters(arena: Arena) -> None:
    (floor,) = arena.book.floors
    assert len(floor.rates_rps) == 3 and 0.0 < arena.book.view().noise < 0.05, "the arena measures it as a run does"
    last = arena.book.attempts()[0]
    for flags in CHAIN:
        last = kept(arena, last, flags)
    run = Run(
        id=arena.book.run, key="k", request=arena.request, status=RunStatus.DONE, baseline=arena.book.baseline,
        created_at="2026-01-01T00:00:00Z",
    )  # fmt: skip
    idle, felt = reductions(run, last, arena.book.attempts())
    assert idle.candidate is not None and idle.same is None, "the cap without the idle flag was never measured"
    assert felt.same is not None and felt.same.number == 2, "without the cap it is the attempt before"
    boot = partial(
        ablating.boot, winner=last, candidate=idle.candidate, workload=TRAFFIC, inputs=arena.inputs(last), repeat=951
    )
    arena.perform(last.id, boot)
    now = arena.book.attempt(last.id)
    (reduced,) = [k for _, rung, k in now.knees if rung == Rung.REPEAT]
    own, before = now.knee(TRAFFIC.name), felt.same.knee(TRAFFIC.name)
    assert own is not None and before is not None
    noise = arena.book.view().noise
    gain, lower, upper = worth_in_the_end(own, reduced, noise)
    assert lower < 0.05 and upper > -0.05 and abs(gain) < 0.15, "a log level is worth nothing"
    assert worth_in_the_end(own, before, noise)[2] < -0.1, "a cap of four costs"
