"""What the ledger knows of an attempt's answers, with one label; the recipe and every view tell the same."""

from __future__ import annotations

from collections.abc import Sequence

from day0.runs.accuracy import UNVERIFIED, Canary, Judgement, label
from day0.runs.ledger import Ledger
from day0.runs.recipe import Accuracy

ITSELF = "nothing: it is the reference itself"


def judgements(ledger: Ledger, attempt_id: str) -> tuple[Judgement, ...]:
    """The newest comparison of each task and tier."""
    told = ledger.facts(attempt_id.rpartition(".")[0], "judged", attempt=attempt_id)
    found = [Judgement.model_validate(e.data["found"]) for e in told]
    return tuple({(j.task, j.tier): j for j in found}.values())


def canaries(ledger: Ledger, attempt_id: str) -> tuple[Canary, ...]:
    """Those of the newest boot that was asked."""
    told = ledger.facts(attempt_id.rpartition(".")[0], "canaries", attempt=attempt_id)
    return tuple(Canary.model_validate(c) for c in told[-1].data["found"]) if told else ()


def accuracy(ledger: Ledger, attempt_id: str) -> Accuracy:
    """For the recipe. Without any comparison it is `accuracy unverified`."""
    found, seen = judgements(ledger, attempt_id), canaries(ledger, attempt_id)
    against = "; ".join(dict.fromkeys(j.against for j in found)) or (ITSELF if seen else "")
    return Accuracy(label=label(found), reference=against, tasks=found, canaries=seen)


def lossy(ledger: Ledger, attempt_id: str) -> str:
    """Why it may not win: a loss beyond the margin was shown. Empty: none was."""
    return lossy_of(judgements(ledger, attempt_id))


def lossy_of(found: Sequence[Judgement]) -> str:
    """The same of judgements at hand."""
    return next((j.told() for j in found if j.tier == 2 and j.verdict == "lossy"), "")


__all__ = ["UNVERIFIED", "accuracy", "canaries", "judgements", "lossy", "lossy_of"]
