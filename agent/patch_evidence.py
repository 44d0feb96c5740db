"""What the ledger knows for a patch, run by run: the failure without it, what ran with it, whether it took effect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from day0.agent import story
from day0.runs.evidence import Evidence, Row
from day0.runs.facts import Rung
from day0.runs.ledger import Ledger
from day0.runs.patches import Review
from day0.runs.schema import Attempt, AttemptStatus, Run


def evidence(ledger: Ledger, reviews: Sequence[Review]) -> tuple[Evidence, ...]:
    """One value for each run that has the patch, oldest first."""
    found = []
    for review in reviews:
        attempts = ledger.attempts(review.run)
        digest = review.patch.digest()
        less = next((d for d in story.minimised(ledger, review.run).values() if d["smallest"] == digest), None)
        measured = digest if less is None else str(less["patch"])
        having = [a for a in attempts if measured in a.candidate.patches]
        if having:
            known = _of_run(ledger.run(review.run), attempts, having, review)
            found.append(known if less is None else known.model_copy(update={"rows": (*known.rows, _hunks(less))}))
    return tuple(found)


def _hunks(less: Mapping[str, Any]) -> Row:
    """That what was measured had more hunks, and why these are what is asked for."""
    after = f"{less['hunks']}: each other one was left out in a boot of its own, which was as right and as fast"
    return Row(what="its hunks", before=f"{less['of']}, as measured", after=after)


def _of_run(run: Run, attempts: Sequence[Attempt], having: Sequence[Attempt], review: Review) -> Evidence:
    best = _best(run, having)
    by_id = {a.id: a for a in attempts}
    without = by_id.get(having[0].parent or "")
    base = by_id.get(run.baseline or "")
    rows = [Row(what="a server with this configuration", before=_ended(without), after=_ended(best))]
    for workload in run.request.workloads:
        old, new = (a.knee(workload.name) if a else None for a in (base, best))
        if new is not None:
            rows.append(
                Row(
                    what=f"goodput, {workload.name}",
                    before=f"{old.goodput_tok_s:.0f} tok/s (the defaults)" if old else "",
                    after=f"{new.goodput_tok_s:.0f} tok/s ({best.id}, with all its changes)",
                )
            )
    if (verdict := best.verdict(Rung.ACCURACY)) is not None:
        before = base.verdict(Rung.ACCURACY) if base else None
        rows.append(
            Row(
                what="accuracy", before=before.detail if before else "", after=verdict.detail or _passed(verdict.passed)
            )
        )
    booted = any((v := a.verdict(Rung.BOOT)) is not None and v.passed for a in having)
    return Evidence(
        model=f"{run.request.model}, revision {run.request.revision[:19]}",
        target=run.request.target.name,
        simulated=run.request.target.kind == "twin",
        attempts=tuple(a.id for a in having),
        rows=tuple(rows),
        engaged=review.patch.gone if booted else (),
    )


def _best(run: Run, having: Sequence[Attempt]) -> Attempt:
    """The run's winner if it has the patch, else the best that was kept, else the last."""
    winner = next((a for a in having if a.id == run.incumbent), None)
    kept = [a for a in having if a.status == AttemptStatus.KEPT]
    return winner or (kept[-1] if kept else having[-1])


def _ended(attempt: Attempt | None) -> str:
    if attempt is None:
        return ""
    failed = next((v for v in attempt.verdicts if not v.passed), None)
    if failed is not None and attempt.status == AttemptStatus.FAILED:
        return f"fails at {failed.rung.value}: {failed.evidence}"
    return f"{attempt.status.value}{f', {attempt.reason}' if attempt.reason else ''}"


def _passed(passed: bool) -> str:
    return "passed" if passed else "failed"


__all__ = ["evidence"]
