"""What the policies may know, rebuilt from the ledger."""

from __future__ import annotations

from collections.abc import Mapping

from day0.agent.policy.base import Answer, RunView
from day0.agent.seeing import noise, search_left_s, tried
from day0.runs.errors import Infrastructure
from day0.runs.ledger import Ledger
from day0.runs.schema import AttemptStatus, Run

KEPT = AttemptStatus.KEPT
NO_IMAGES: Mapping[str, str] = {}


def view(ledger: Ledger, run: Run, *, build: str, node: str, images: Mapping[str, str] = NO_IMAGES) -> RunView:
    """The frozen view of a run; `images` are further engine images by digest.

    Raises `Infrastructure` before its survey is in the ledger.
    """
    attempts = ledger.attempts(run.id)
    engine, model = ledger.facts_engine(build), ledger.facts_model(run.request.model, run.request.revision)
    facts = ledger.facts_node(node)
    if engine is None or model is None or facts is None:
        raise Infrastructure(f"run {run.id} was not surveyed")
    boots = {boot.attempt: boot.facts for boot in ledger.boots(run.id) if boot.facts is not None}
    patches, tables = ledger.made(run.id)
    floor = noise(attempts, {a.id: ledger.pairs(a.id) for a in attempts if a.status == KEPT})
    return RunView(
        run=run.id,
        round=run.round,
        request=run.request,
        model=model,
        node=facts,
        engine=engine,
        attempts=attempts,
        baseline=run.baseline,
        leader=run.leader,
        noise=floor,
        budget_left_s=search_left_s(run.request, attempts, run.spent_node_s, floor),
        attempts_left=run.request.max_attempts - tried(attempts),
        answers=tuple(Answer.model_validate(answer) for answer in ledger.answers(run.id)),
        boots=boots,
        patches=patches,
        tables=tables,
        images=dict(images),
    )
