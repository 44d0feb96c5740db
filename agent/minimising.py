"""The graph's step before a patch goes to review: of a proposed one the smallest set of hunks that still works.

Each hunk is left out once, in a real boot of the winner that must answer as right and be as fast as the winner, within
the noise. What nothing is lost by stays out. Repairs that day0 ships need none of it: they hold nothing else. The
recipe keeps the patch that was measured; what people review, and what is published, is the smallest.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from day0.agent import story
from day0.agent.ablating import affordable, boot
from day0.agent.climb import ask_answers, ask_task, engaged
from day0.agent.craft_checks import over
from day0.agent.crafting import note_made
from day0.agent.gathering import climb_inputs, current_view
from day0.agent.inputs import ClimbInputs
from day0.agent.insist import Perform, insist
from day0.agent.lease import Booted, Facts
from day0.agent.parts import Parts
from day0.agent.policy import decide
from day0.agent.policy.trials import AUTHOR
from day0.agent.printing import short
from day0.agent.reductions import worth_in_the_end
from day0.agent.steps import tell
from day0.runs.candidate import Candidate
from day0.runs.errors import CandidateFailed, Refused
from day0.runs.facts import FailureClass, PatchMade, Rung
from day0.runs.patches import Patch, Table
from day0.runs.schema import Attempt, Run
from day0.runs.values import sha256
from day0.runs.workload import Workload
from day0.sandboxes.base import Node
from day0.sandboxes.spec import SandboxSpec

REPEATS = 970
"""see `day0.agent.floor.REPEATS`"""
MOST = 8
"""hunks of one patch that are left out in boots of their own; the target's `ablations` bound it, too"""
TRIED = "hunk_tried"


def minimise_all(parts: Parts, run_id: str) -> None:
    """Every winner's proposed patches, as far as target, budget and deadline go."""
    run = parts.ledger.run(run_id)
    for workload in run.request.workloads:
        winner = story.winner(parts.ledger, run_id, workload.name)
        if winner is None or winner == run.baseline:
            continue
        attempt = parts.ledger.attempt(winner)
        made, _ = parts.ledger.made(run_id)
        for digest in attempt.candidate.patches:
            if not made[digest].author.startswith(AUTHOR) and digest not in story.minimised(parts.ledger, run_id):
                _minimise(parts, run, attempt, workload, made[digest])


def _minimise(parts: Parts, run: Run, winner: Attempt, workload: Workload, patch: Patch) -> None:
    from day0.tools.patch_minimal import hunks, minimal

    count = len(hunks(patch.diff))
    allowed = min(MOST, run.request.target.measure.ablations)
    boots = 0

    def works(diff: str) -> bool:
        nonlocal boots
        key = f"hunk:{patch.digest()}:{sha256(diff)[7:19]}"
        known = next((e.data for e in parts.ledger.facts(run.id, TRIED) if e.data["key"] == key), None)
        if known is None:
            if boots >= allowed or not affordable(parts, run.id):
                return False
            known = _tried(parts, run, winner, workload, patch, diff, key, boots + 1)
        boots += 1
        return bool(known["works"])

    if count < 2 or not allowed:
        return
    fewer = minimal(patch.diff, works)
    if fewer == patch.diff:
        return
    left = next(e.data for e in parts.ledger.facts(run.id, TRIED) if e.data["diff"] == sha256(fewer))
    told = {"patch": patch.digest(), "smallest": left["smaller"], "hunks": len(hunks(fewer)), "of": count}
    with parts.ledger.write(run.id) as writer:
        writer.event("patch_minimised", told, attempt=winner.id, key=f"minimised:{patch.digest()}")
    tell(parts, run.id, 8, f"{patch.name}: {told['hunks']} of its {count} hunks are needed")


def _tried(  # noqa: PLR0917 - a boot is told by all of these
    parts: Parts, run: Run, winner: Attempt, workload: Workload, patch: Patch, diff: str, key: str, number: int
) -> dict[str, Any]:
    """Whether the winner works with this diff in the patch's place; asked once, and recorded."""
    tell(parts, run.id, 8, f"{patch.name}: {short(winner.id)} with fewer of its hunks, boot {number}")
    told = {"key": key, "patch": patch.digest(), "diff": sha256(diff), "smaller": "", "works": False, "why": ""}
    made = _made(parts, run, winner, patch, diff)
    if isinstance(made, str):
        told["why"] = made
    else:
        told["smaller"] = made.digest()
        told["works"], told["why"] = _boots(parts, run, winner, workload, patch, made, number)
    with parts.ledger.write(run.id) as writer:
        writer.event(TRIED, told, attempt=winner.id, key=key)
    return told


def _made(parts: Parts, run: Run, winner: Attempt, patch: Patch, diff: str) -> Patch | str:
    """The patch of fewer hunks, or why there is none."""
    inputs, made = climb_inputs(parts, run, winner), list[Patch | Table]()

    def again(now: Attempt) -> Perform:
        return partial(fewer_of, winner=now, patch=patch, diff=diff, inputs=inputs)

    try:
        failed = insist(parts, run.id, winner, again, also=partial(note_made, made=made))
    except Refused as refused:
        return str(refused)[:300]
    if failed is not None:
        return f"{failed.failure}: {failed.evidence}"[:300]
    found = made[-1]
    assert isinstance(found, Patch)
    return found


def fewer_of(node: Node, *, winner: Attempt, patch: Patch, diff: str, inputs: ClimbInputs) -> Facts:
    """`PatchMade` for the same patch with this diff, on the source as the winner's image has it.

    Raises `Refused`, `CandidateFailed`: it does not fit, is no Python, or the patches after it do not fit any more.
    """
    from day0.tools import patch as patches
    from day0.tools.workspace import source_of

    candidate = winner.candidate
    spec = SandboxSpec(
        role="job", environment=inputs.environments.folder(candidate.build), attempt=winner.id, epoch=winner.epoch
    )
    every = inputs.patches_of(candidate)
    at = every.index(patch)
    with node.open(spec) as sandbox:
        base = source_of(sandbox)
        made = patches.from_diff(
            diff, over(base, every[:at]), build=patch.build, name=patch.name, title=patch.title, why=patch.why,
            author=patch.author,
        )  # fmt: skip
        patches.applied([*every[:at], made, *every[at + 1 :]], base)
    yield PatchMade(patch=made)


def _boots(  # noqa: PLR0917
    parts: Parts, run: Run, winner: Attempt, workload: Workload, patch: Patch, made: Patch, number: int
) -> tuple[bool, str]:
    """Whether it works, and why not."""
    inputs, noise = climb_inputs(parts, run, winner), current_view(parts, run).noise
    digests = tuple(made.digest() if d == patch.digest() else d for d in winner.candidate.patches)
    candidate = winner.candidate.model_copy(update={"patches": digests})

    def again(now: Attempt) -> Perform:
        return partial(
            boot, winner=now, candidate=candidate, workload=workload, inputs=inputs, repeat=REPEATS + number,
            asked=proved(candidate),
        )  # fmt: skip

    failed = insist(parts, run.id, winner, again)
    if failed is not None:
        return False, f"{failed.failure}: {failed.evidence}"[:300]
    return as_fast(parts.ledger.attempt(winner.id), workload, noise)


def as_fast(winner: Attempt, workload: Workload, noise: float) -> tuple[bool, str]:
    """Whether the knee of the boot that just ended is the winner's own, within what noise can fake."""
    knees = [k for _, rung, k in winner.knees if rung == Rung.REPEAT and k.workload == workload.name]
    own = winner.knee(workload.name)
    if own is None or not knees:
        return bool(knees), "" if knees else "it was not measured"
    lost, least = worth_in_the_end(own, knees[-1], noise)[0], decide.threshold(noise)
    return lost <= least, f"the winner serves {lost:+.1%} more than it; more than {least:.1%} counts"


def proved(candidate: Candidate) -> Callable[[Booted], None]:
    """What a boot with fewer hunks is asked before it is measured: it must be engaged, answer and be right."""

    def ask(booted: Booted) -> None:
        inputs = booted.lease.inputs
        engaged(booted, inputs, candidate)
        for rung in (ask_answers, ask_task):
            verdict = rung(booted, inputs).verdict()
            if not verdict.passed:
                raise CandidateFailed(verdict.failure or FailureClass.UNKNOWN, verdict.evidence)

    return ask


__all__ = ["as_fast", "fewer_of", "minimise_all", "proved"]
