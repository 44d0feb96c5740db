"""What the policies may know, rebuilt from the ledger."""

from __future__ import annotations

from collections.abc import Mapping

from day0.agent import story
from day0.agent.policy.base import Answer, RunView
from day0.agent.seeing import deadline_left_s, noise, search_left_s, tried
from day0.runs.errors import Infrastructure
from day0.runs.ledger import Ledger
from day0.runs.schema import AttemptStatus, Run
from day0.tools.learned import issues_of

KEPT = AttemptStatus.KEPT
NO_IMAGES: Mapping[str, str] = {}


def view(
    ledger: Ledger, run: Run, *, build: str, node: str, images: Mapping[str, str] = NO_IMAGES, nodes: int = 1
) -> RunView:
    """The frozen view of a run; `images` are further engine images by digest, `nodes` how many work on it.

    Raises `Infrastructure` before its survey is in the ledger.
    """
    attempts = ledger.attempts(run.id)
    engine, model = ledger.facts_engine(build), ledger.facts_model(run.request.model, run.request.revision)
    facts = ledger.facts_node(node)
    if engine is None or model is None or facts is None:
        raise Infrastructure(f"run {run.id} was not surveyed")
    boots = {boot.attempt: boot.facts for boot in ledger.boots(run.id) if boot.facts is not None}
    patches, tables = ledger.made(run.id)
    pairs = {a.id: ledger.pairs(a.id) for a in attempts if a.status == KEPT}
    floor = noise(attempts, pairs, story.floors(ledger, run.id))
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
        budget_left_s=search_left_s(run.request, attempts, run.spent_node_s, floor, time_left_s(ledger, run, nodes)),
        attempts_left=run.request.max_attempts - tried(attempts),
        answers=tuple(Answer.model_validate(answer) for answer in ledger.answers(run.id)),
        boots=boots,
        patches=patches,
        tables=tables,
        images=dict(images),
        learned=issues_of(ledger.learned(), engine),
    )


def time_left_s(ledger: Ledger, run: Run, nodes: int) -> float:
    """Seconds until the run's deadline; endless where it has none."""
    return deadline_left_s(run.request, run.spent_node_s, ledger.age_s(run), nodes)
