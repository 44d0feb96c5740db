"""Which facts an attempt takes in which state, and the key under which a fact is written once. Pure."""

from __future__ import annotations

from day0.runs.facts import (
    ArtifactKept,
    BootEnded,
    BootReady,
    BootStarted,
    Fact,
    KneeFound,
    PairMeasured,
    Progress,
    Rung,
    RungStarted,
    Verdict,
)
from day0.runs.findings import Explained, Held
from day0.runs.schema import AttemptStatus

AFTER_KEPT = (Rung.CONFIRM, Rung.REPLAY)


def key_of(attempt: str, fact: Fact) -> str | None:
    """The idempotency key: one verdict per rung, one start, ready and end per boot, one knee, one pair."""
    match fact:
        case Verdict():
            return f"verdict:{attempt}:{fact.rung}"
        case BootStarted() | BootReady() | BootEnded():
            return f"{fact.kind}:{attempt}:{fact.boot}"
        case KneeFound():
            return f"knee:{attempt}:{fact.boot}:{fact.rung}:{fact.knee.workload}"
        case Explained() | Held():
            return f"{fact.kind}:{attempt}:{fact.boot}:{fact.workload}"
        case PairMeasured():
            return f"pair:{attempt}:{fact.pair.number}"
        case _:
            return None


def key_of_boot(attempt: str, boot: int) -> str:
    """The key of a boot's start."""
    return f"boot_started:{attempt}:{boot}"


def admissible(status: AttemptStatus, fact: Fact) -> str:
    """Why an attempt in this state does not take the fact; "" when it does.

    A queued attempt takes its admission; a running one everything; a kept one what confirm and replay find;
    any other finished one only what its clean-up leaves: the end of a boot, raw output, progress.
    """
    if isinstance(fact, ArtifactKept) and not fact.stored:
        return f"`{fact.name}` must be in the artifact store before its fact is recorded"
    if status == AttemptStatus.RUNNING or isinstance(fact, (BootEnded, ArtifactKept, Progress)):
        return ""
    rung = fact.rung if isinstance(fact, (Verdict, RungStarted)) else None
    if status == AttemptStatus.QUEUED:
        return "" if rung == Rung.ADMIT else f"it is queued and takes no {fact.kind}"
    if status == AttemptStatus.KEPT:
        return "" if rung is None or rung in AFTER_KEPT else f"it is kept, its {rung} rung is over"
    return f"it ended as {status} and takes no {fact.kind}"


def model_key(model: str, revision: str) -> str:
    """The key of a model's facts."""
    return f"{model}@{revision}"
