"""Where a run stands, read from its story in the ledger."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from day0.agent.policy.actions import TryCandidate
from day0.agent.policy.turns import LLM
from day0.runs.findings import Ablated, NoiseFloor
from day0.runs.ledger import Ledger
from day0.runs.schema import RUN_FINISHED, Event
from day0.runs.values import sha256


def newest(ledger: Ledger, run_id: str, kind: str) -> Event | None:
    """The last event of a kind."""
    found = ledger.facts(run_id, kind)
    return found[-1] if found else None


def search_ended(ledger: Ledger, run_id: str) -> Event | None:
    """The end of the search, unless the run was taken up again since: retried, or given more (S12).

    An interruption alone does not open it: what was confirmed goes on being confirmed.
    """
    ended = newest(ledger, run_id, "search_ended")
    if ended is None:
        return None
    again = [e.number for e in ledger.facts(run_id, "run_moved") if e.data.get("from") in RUN_FINISHED]
    again += [e.number for e in ledger.facts(run_id, "limits")]
    return ended if not again or max(again) < ended.number else None


def open_proposal(ledger: Ledger, run_id: str) -> dict[str, Any] | None:
    """The last proposal, unless it was already put before the guard."""
    proposed, admitted = newest(ledger, run_id, "proposed"), newest(ledger, run_id, "admitted")
    if proposed is None or (admitted is not None and admitted.number > proposed.number):
        return None
    return dict(proposed.data)


def open_crafts(ledger: Ledger, run_id: str) -> tuple[tuple[str, TryCandidate], ...]:
    """Admitted actions for which something must still be made, as (key, action)."""
    done = {e.data["craft"] for e in ledger.facts(run_id, "crafted")}
    wanted = [e for e in ledger.facts(run_id, "craft_wanted") if e.data["craft"] not in done]
    return tuple((str(e.data["craft"]), TryCandidate.model_validate(e.data["action"])) for e in wanted)


def proposer(ledger: Ledger, run_id: str, craft: str) -> str:
    """Who asked for a craft."""
    found = [e for e in ledger.facts(run_id, "craft_wanted") if e.data["craft"] == craft]
    return str(found[-1].data["proposer"])


def idle_rounds(ledger: Ledger, run_id: str) -> int:
    """Rounds at the end of the story that admitted nothing and asked nothing; an LLM's own count for nothing.

    What it asks to be made may fail as often as it likes: the playbook's search must not end with that.
    """
    led = {e.data["round"] for e in ledger.facts(run_id, "proposed") if e.data["proposal"]["proposer"] == LLM}
    answered = {e.data.get("round") for e in ledger.facts(run_id, "answer") if not e.data.get("refused")}
    crafted = {e.data["craft"] for e in ledger.facts(run_id, "crafted") if not e.data.get("refused")}
    count = 0
    for event in reversed(ledger.facts(run_id, "admitted")):
        if (
            event.data.get("attempts")
            or crafted & set(event.data.get("crafts", ()))
            or event.data.get("round") in answered
        ):
            break
        count += event.data.get("round") not in led
    return count


def admitted_after(ledger: Ledger, attempt_id: str) -> frozenset[str] | None:
    """Attempts that were decided when this one was admitted; None: nobody noted it (the baseline)."""
    found = ledger.facts(attempt_id.rpartition(".")[0], "admitted_after", attempt=attempt_id)
    return frozenset(found[0].data["decided"]) if found else None


def artifact(ledger: Ledger, attempt_id: str, name: str) -> str | None:
    """The digest of the newest artifact of that name; None = none is kept."""
    kept = ledger.facts(attempt_id.rpartition(".")[0], "artifact", attempt=attempt_id)
    return next((str(e.data["stored"]) for e in reversed(kept) if e.data.get("name") == name), None)


def confirmed(ledger: Ledger, run_id: str, workload: str) -> Event | None:
    """The confirmation of a workload's winner since the search ended; an earlier one is settled again by its pairs."""
    ended = search_ended(ledger, run_id)
    found = [e for e in ledger.facts(run_id, "confirmed") if e.data["workload"] == workload and e.data["ok"]]
    return found[-1] if found and ended is not None and found[-1].number > ended.number else None


def winner(ledger: Ledger, run_id: str, workload: str) -> str | None:
    """The confirmed attempt of a workload."""
    event = confirmed(ledger, run_id, workload)
    return None if event is None else event.attempt


def floors(ledger: Ledger, run_id: str) -> tuple[NoiseFloor, ...]:
    """The noise floor of each workload; empty before the baseline was measured."""
    return tuple(NoiseFloor.model_validate(e.data) for e in ledger.facts(run_id, "floor"))


def minimised(ledger: Ledger, run_id: str) -> dict[str, Mapping[str, Any]]:
    """Digest of a patch that was measured -> its smallest set of hunks: `smallest` (a digest), `hunks`, `of`."""
    return {str(e.data["patch"]): e.data for e in ledger.facts(run_id, "patch_minimised")}


def ablated(ledger: Ledger, run_id: str) -> tuple[Ablated, ...]:
    """Winners without one of their changes, as far as that was booted."""
    return tuple(Ablated.model_validate(e.data) for e in ledger.facts(run_id, "ablated"))


def held(ledger: Ledger, run_id: str, attempt: str, workload: str) -> Event | None:
    """What came of an attempt's stability run on a workload."""
    found = [e for e in ledger.facts(run_id, "stable", attempt=attempt) if e.data["workload"] == workload]
    return found[-1] if found else None


def recipe(ledger: Ledger, run_id: str, workload: str) -> str | None:
    """The text of the recipe of a workload's winner; None while none was rendered after its confirmation."""
    found = [e for e in ledger.facts(run_id, "recipe") if e.data["workload"] == workload]
    told = confirmed(ledger, run_id, workload)
    return str(found[-1].data["text"]) if found and told is not None and found[-1].number > told.number else None


def replayed(ledger: Ledger, run_id: str, workload: str, text: str | None = None) -> Event | None:
    """What came of replaying a recipe (default: the workload's newest)."""
    if text is None:
        stored = [r for r in ledger.recipes(run_id) if r.workload == workload]
        text = stored[-1].text if stored else ""
    found = [e for e in ledger.facts(run_id, "replayed") if e.data.get("recipe") == sha256(text)]
    return found[-1] if found else None
