"""Why a winner is faster: the accepted changes from the baseline to it, each with what it brought. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from day0.agent.policy import decide
from day0.runs.schema import Attempt, Run
from day0.runs.workload import Workload


def path(run: Run, winner: Attempt, attempts: Sequence[Attempt]) -> tuple[Attempt, ...]:
    """The attempts from the baseline (left out) to the winner, each a change of the one before."""
    by_id = {a.id: a for a in attempts}
    out: list[Attempt] = []
    here: Attempt | None = winner
    while here is not None and here.id != run.baseline and here not in out:
        out.append(here)
        here = by_id.get(here.parent or "")
    return tuple(reversed(out))


def waterfall(
    run: Run, winner: Attempt, attempts: Sequence[Attempt], workload: Workload, words: Mapping[str, str]
) -> list[dict[str, Any]]:
    """One row per step, as measured: `gain` over the step before, `total` over the baseline; None where one had none.

    `words` name each attempt's change.
    """
    base = next((a for a in attempts if a.id == run.baseline), None)
    worth = {a.id: decide.worth(a, run.request, workload=workload) for a in (*attempts, winner)}
    first = before = worth[base.id] if base is not None else None
    rows = []
    for attempt in path(run, winner, attempts):
        now, knee = worth[attempt.id], attempt.knee(workload.name)
        rows.append(
            {
                "attempt": attempt.id,
                "change_words": words.get(attempt.id, ""),
                "goodput_tok_s": knee.goodput_tok_s if knee else None,
                "gain": now / before - 1 if now and before else None,
                "total": now / first - 1 if now and first else None,
                "hypothesis": attempt.hypothesis,
            }
        )
        before = now or before
    return rows
