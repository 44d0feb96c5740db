"""What an LLM did in a run and what it cost, from the ledger: as data, and in two sentences."""

from __future__ import annotations

from collections import Counter
from typing import Any

from day0.agent.llm import spent_of
from day0.agent.policy.turns import STAND_IN
from day0.agent.policy.untrusted import line
from day0.runs.ledger import Ledger

WHY_CHARS = 200


def led(ledger: Ledger, run_id: str) -> dict[str, Any] | None:
    """Calls, tokens, USD, prompts, rounds by who decided, and why the playbook stood in; None: no LLM was asked."""
    calls = ledger.llm_calls(run_id)
    proposals = [dict(e.data["proposal"]) for e in ledger.facts(run_id, "proposed")]
    stood_in = [p for p in proposals if p["proposer"] == STAND_IN]
    if not calls and not stood_in:
        return None
    used = spent_of(calls)
    return {
        "calls": used.calls,
        "prompt_tokens": used.prompt_tokens,
        "completion_tokens": used.completion_tokens,
        "usd": round(used.usd, 6),
        "models": sorted({str(c["model"]) for c in calls}),
        "prompts": sorted({str(c["prompt"]) for c in calls if c.get("prompt")}),
        "failed_calls": sum(1 for c in calls if c.get("error")),
        "rounds": dict(Counter(str(p["proposer"]) for p in proposals)),
        "stood_in": len(stood_in),
        "stood_in_why": line(str(stood_in[-1]["note"]), WHY_CHARS) if stood_in else "",
    }


def words(found: dict[str, Any]) -> list[str]:
    """The same in sentences."""
    tokens = found["prompt_tokens"] + found["completion_tokens"]
    cost = f", {found['usd']:.2f} USD" if found["usd"] else ""
    rounds = ", ".join(f"{who} {count}" for who, count in sorted(found["rounds"].items()))
    told = [f"LLM: {found['calls']} calls, {tokens} tokens{cost}; rounds decided by: {rounds}"]
    if found["stood_in"]:
        told.append(
            f"the playbook stood in for the LLM in {found['stood_in']} rounds, the last time because: "
            f"{found['stood_in_why']}"
        )
    return told
