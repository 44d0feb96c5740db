"""What is shown of a run, as plain data with stable keys: tables and JSON are made from the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from day0.agent import overhead, reductions, show_llm, story
from day0.agent.accuracies import accuracy
from day0.agent.show_best import best_of, compared, noise
from day0.agent.waterfalls import waterfall
from day0.runs.facts import Rung
from day0.runs.ledger import Ledger
from day0.runs.schema import Attempt, Run
from day0.runs.workload import Workload

NO_NAMES: Mapping[str, str] = {}
LADDER = (Rung.PREPARE, Rung.BOOT, Rung.ANSWER, Rung.SCREEN, Rung.ACCURACY, Rung.MEASURE, Rung.CONFIRM, Rung.REPLAY)


def run_row(run: Run) -> dict[str, Any]:
    """One line of `day0 queue`."""
    return {
        "run": run.id,
        "status": str(run.status),
        "model": run.request.model,
        "target": run.request.target.name,
        "simulated": run.request.target.kind == "twin",
        "workloads": [w.name for w in run.request.workloads],
        "policy": run.request.policy,
        "round": run.round,
        "spent_node_s": round(run.spent_node_s, 1),
        "budget_hours": run.request.budget_hours,
        "created_at": run.created_at.isoformat().replace("+00:00", "Z"),
        "finished_at": run.finished_at.isoformat().replace("+00:00", "Z") if run.finished_at else None,
        "reason": run.reason,
    }


def attempt_row(
    attempt: Attempt,
    parent: Attempt | None,
    workload: str,
    baseline: Attempt | None,
    names: Mapping[str, str] = NO_NAMES,
) -> dict[str, Any]:
    """One line of `day0 attempts`; `gain` is over the baseline as measured, 0.1 = 10 % more. `names` of digests."""
    knee, base = attempt.knee(workload), baseline.knee(workload) if baseline else None
    climbed = [str(r) for r in LADDER if (v := attempt.verdict(r)) is not None and v.passed]
    failed = next((v for v in attempt.verdicts if not v.passed), None)
    change = attempt.candidate.changed(parent.candidate) if parent else {}
    return {
        "attempt": attempt.id,
        "status": str(attempt.status),
        "proposer": attempt.proposer,
        "axis": attempt.action,
        "parent": attempt.parent,
        "change": {key: new for key, (_, new) in change.items()},
        "change_words": words(change, names),
        "hypothesis": attempt.hypothesis,
        "expected_gain": attempt.expected_gain,
        "passed": climbed,
        "failed": None if failed is None else str(failed.rung),
        "failure": None if failed is None else str(failed.failure),
        "evidence": None if failed is None else failed.evidence,
        "issue": None if failed is None else failed.issue,
        "knee_rps": None if knee is None else knee.rate_rps,
        "knee_low_rps": None if knee is None else knee.low_rps,
        "knee_high_rps": None if knee is None else knee.high_rps,
        "knee_words": "" if knee is None else knee.told(),
        "goodput_tok_s": None if knee is None else knee.goodput_tok_s,
        "gain": knee.rate_rps / base.rate_rps - 1 if knee and base and base.rate_rps > 0 else None,
        "explained": [d.model_dump(mode="json") for d in attempt.diagnoses(workload)],
        "node_s": round(attempt.node_s, 1),
        "reason": attempt.reason,
    }


def attempt_rows(ledger: Ledger, run_id: str) -> list[dict[str, Any]]:
    """All lines of `day0 attempts`."""
    run, attempts = ledger.run(run_id), ledger.attempts(run_id)
    by_id = {a.id: a for a in attempts}
    name, base = run.request.workloads[0].name, by_id.get(run.baseline or "")
    patches, tables = ledger.made(run_id)
    names = {digest: patch.name for digest, patch in patches.items()} | {digest: "tuned kernels" for digest in tables}
    return [attempt_row(a, by_id.get(a.parent or ""), name, base, names) for a in attempts]


def words(change: Mapping[str, tuple[Any, Any]], names: Mapping[str, str]) -> str:
    """A change in words: what was made by its name, flags and variables by their values."""
    out = []
    for key, (old, new) in change.items():
        if key in {"patches", "tables"}:
            out += [f"+ {names.get(digest, digest[:19])}" for digest in new if digest not in old]
            out += [f"- {names.get(digest, digest[:19])}" for digest in old if digest not in new and key == "patches"]
        else:
            out.append(f"{key}={new}")
    return ", ".join(out)


def summary(ledger: Ledger, run_id: str) -> dict[str, Any]:
    """`day0 show --json`."""
    run = ledger.run(run_id)
    refused = [a for a in ledger.answers(run_id) if a.get("refused")]
    stand_in = story.newest(ledger, run_id, "stand_in")
    ended = story.newest(ledger, run_id, "search_ended")
    return {
        **run_row(run),
        "seed": run.request.seed,
        "baseline": run.baseline,
        "leader": run.leader,
        "policy_note": stand_in.data["reason"] if stand_in else "",
        "search_ended": dict(ended.data) if ended else None,
        "winners": [winner(ledger, run, w) for w in run.request.workloads],
        "noise": noise(ledger, run_id),
        "attempts": attempt_rows(ledger, run_id),
        "patches": [
            {"patch": r.patch.digest(), "title": r.patch.title, "status": r.status} for r in ledger.patches(run_id)
        ],
        "refused": [{"round": a["round"], "action": a["action"], "reason": a["text"]} for a in refused],
        "llm_calls": len(ledger.llm_calls(run_id)),
        "llm": show_llm.led(ledger, run_id),
        "facts_dropped": ledger.dropped(run_id),
        "orchestration": orchestration(ledger, run_id),
    }


def winner(ledger: Ledger, run: Run, of: Workload) -> dict[str, Any]:
    """What a workload ended with, or who leads it; `best` is that attempt."""
    workload = of.name
    found, again = story.winner(ledger, run.id, workload), story.replayed(ledger, run.id, workload)
    every = [c for c in ledger.comparisons(run.id) if _is_on(c.pairs, workload)]
    last = next((c for c in reversed(every) if c.challenger == found), None)
    stored = [r for r in ledger.recipes(run.id) if r.workload == workload]
    knee = ledger.attempt(found).knee(workload) if found else None
    figures = [dict(e.data) for e in ledger.facts(run.id, "figure", attempt=found)] if found else []
    attempts, best = ledger.attempts(run.id), found or run.leader
    leads = next((a for a in attempts if a.id == best), None)
    told = {row["attempt"]: row["change_words"] for row in attempt_rows(ledger, run.id)}
    held = [e.data for e in ledger.facts(run.id, "held", attempt=found)] if found else []
    return {
        "workload": workload,
        "attempt": found,
        "best": best_of(leads, workload),
        "waterfall": why(ledger, run, leads, of, told) if leads is not None else [],
        "explained": [d.model_dump(mode="json") for d in leads.diagnoses(workload)] if leads is not None else [],
        "accuracy": accuracy(ledger, best).model_dump(mode="json") if leads is not None and best else None,
        "kernels": kernels_of(ledger, run.id, best),
        "stability": next((dict(d["found"]) for d in reversed(held) if d["workload"] == workload), None),
        "goodput_tok_s": knee.goodput_tok_s if knee else None,
        "gain": last.gain if last else None,
        "gain_lower": last.lower if last else None,
        "gain_upper": last.upper if last and last.upper != float("inf") else None,
        "pairs": len(last.pairs) if last else 0,
        "method": last.method if last else "",
        "verdict": last.verdict if last else "",
        "compared": compared(last) if last else None,
        "comparisons": [compared(c) for c in every],
        "recipe": stored[-1].digest if stored and found else None,
        "replayed": None if again is None or found is None else bool(again.data["ok"]),
        "figures": figures,
    }


def kernels_of(ledger: Ledger, run_id: str, attempt: str | None) -> dict[str, Any] | None:
    """What the log of an attempt's newest boot told of slow paths; None: no boot of it ended yet."""
    ended = [b.ended for b in ledger.boots(run_id, attempt=attempt) if b.ended is not None] if attempt else []
    told = [e.kernels for e in ended if e.kernels is not None]
    return told[-1].model_dump(mode="json") | {"coverage": told[-1].coverage} if told else None


def why(ledger: Ledger, run: Run, best: Attempt, workload: Workload, told: Mapping[str, str]) -> list[dict[str, Any]]:
    """The waterfall of accepted changes, each with what is known of the best one without it."""
    attempts, booted = ledger.attempts(run.id), story.ablated(ledger, run.id)
    sd = float(noise(ledger, run.id)["sd"])
    known = {r.step.id: r for r in reductions.reductions(run, best, attempts)}
    rows = waterfall(run, best, attempts, workload, told)
    for row in rows:
        one = reductions.found(known[row["attempt"]], best, workload, booted, sd) if row["attempt"] in known else None
        row["ablation"] = None if one is None else one.model_dump(mode="json", exclude={"winner", "step", "workload"})
        row["ablation_words"] = "not ablated" if one is None else reductions.words(one)
    return rows


def _is_on(pairs: tuple[Any, ...], workload: str) -> bool:
    return any(p.challenger.workload == workload for p in pairs)


def orchestration(ledger: Ledger, run_id: str) -> dict[str, Any]:
    """(wall - time inside calls to nodes) / wall over all processes that worked on the run."""
    told = [e.data for e in ledger.facts(run_id, "overhead")]
    wall = sum(float(d["wall_s"]) * int(d["nodes"]) for d in told)
    inside = sum(float(d["inside_s"]) for d in told)
    return {"wall_s": round(wall, 2), "node_calls_s": round(inside, 2), "share": overhead.share(wall, inside)}
