"""A work outside the ladder (a pair, a replay, a repeated boot), tried again while the fault is nobody's."""

from __future__ import annotations

from collections.abc import Callable

from day0.agent.lease import Facts
from day0.agent.nodes import Work
from day0.agent.parts import Parts
from day0.agent.pump import Also
from day0.runs.errors import CandidateFailed, Infrastructure
from day0.runs.schema import Attempt
from day0.sandboxes.base import Node

Perform = Callable[[Node], Facts]
MOST_INTERRUPTIONS = 3


def insist(
    parts: Parts, run_id: str, attempt: Attempt, make: Callable[[Attempt], Perform], *, also: Also | None = None
) -> CandidateFailed | None:
    """Runs a work; what it told is in the ledger when this returns. The candidate's own failure, or None.

    `make` gets the attempt as the ledger has it now: each try boots under a number of its own. `Infrastructure` is
    tried three times and then raised; everything else is raised at once.
    """
    for number in range(1, MOST_INTERRUPTIONS + 1):
        perform = make(parts.ledger.attempt(attempt.id))
        parts.pump.start(Work(attempt.id, attempt.epoch, perform))
        ended = parts.pump.until_ended(also=also)
        with parts.ledger.write(run_id) as writer:
            writer.spend(ended.node_s)
            if isinstance(ended.error, Infrastructure):
                writer.event("infrastructure", {"error": str(ended.error)}, attempt=attempt.id)
        if ended.error is None or isinstance(ended.error, CandidateFailed):
            return ended.error
        if not isinstance(ended.error, Infrastructure) or number == MOST_INTERRUPTIONS:
            raise ended.error
    return None
