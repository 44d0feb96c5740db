"""The best of a workload, its gain and what stands around it, in words: made from what `day0.agent.show` tells."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any

from day0.agent import seeing, story
from day0.agent.floor import words as floor_words
from day0.agent.printing import short
from day0.runs.accuracy import Judgement
from day0.runs.findings import Kernels, Stability
from day0.runs.ledger import Ledger
from day0.runs.schema import Attempt, AttemptStatus, Comparison
from day0.tools import health, kernels

REPLAYED = {None: "", True: "; the recipe replays", False: "; the recipe does NOT replay"}


def best_of(attempt: Attempt | None, workload: str) -> dict[str, Any] | None:
    """The figures of the attempt that leads, throughput per node and per accelerator held (S50); None: none leads."""
    knee = attempt.knee(workload) if attempt is not None else None
    if attempt is None or knee is None:
        return None
    held, seeds = attempt.candidate.gpus_held, knee.low_rps is not None
    return {
        "attempt": attempt.id,
        "goodput_tok_s": knee.goodput_tok_s,
        "held": held,
        "goodput_tok_s_held": knee.goodput_tok_s / held if held > 1 else None,
        "knee_rps": knee.rate_rps,
        "low_rps": knee.low_rps if seeds else knee.passed_rps,
        "high_rps": knee.high_rps if seeds else knee.failed_rps,
        "interval": "90 % over arrivals" if seeds else "between what passed and what failed",
        "short": knee.short,
    }


def compared(one: Comparison) -> dict[str, Any]:
    """A comparison as plain data; an open bound is None."""
    return {
        "challenger": one.challenger,
        "incumbent": one.incumbent,
        "verdict": one.verdict or ("better" if one.better else "not shown"),
        "gain": one.gain,
        "lower": one.lower if one.lower > -1.0 else None,
        "upper": one.upper if one.upper != inf else None,
        "pairs": len(one.pairs),
        "method": one.method,
    }


def gain_words(one: Mapping[str, Any]) -> str:
    """A comparison in words: gain, bounds, pairs, verdict."""
    low, high = ("open" if one[side] is None else f"{one[side]:+.1%}" for side in ("lower", "upper"))
    return f"{one['gain']:+.1%} (95 % bounds {low} to {high}; {one['pairs']} pairs; verdict: {one['verdict']})"


def best_line(won: Mapping[str, Any], *, simulated: bool) -> str:
    """The best of a workload in one line: goodput, knee with its interval, gain with its own and verdict, labels."""
    best = won["best"]
    if best is None:
        return f"{won['workload']}: nothing works yet"
    labels = ", ".join(["simulated"] * simulated + ["short"] * best["short"] + ["not confirmed"] * (not won["attempt"]))
    mark = f" [{labels}]" if labels else ""
    each = "" if best["goodput_tok_s_held"] is None else f", {best['goodput_tok_s_held']:.4g} per accelerator held"
    low, high = (("open" if v is None else f"{v:.3g}") for v in (best["low_rps"], best["high_rps"]))
    text = f"{won['workload']}: best is {short(best['attempt'])}: {best['goodput_tok_s']:.4g} tok/s a node{each}{mark}"
    text += f"; knee {best['knee_rps']:.3g}/s ({low} to {high}, {best['interval']})"
    return text if won["compared"] is None else f"{text}; over the baseline {gain_words(won['compared'])}"


def winner_line(won: Mapping[str, Any]) -> str:
    """What a workload ended with, in one line."""
    if won["attempt"] is None:
        return f"{won['workload']}: no winner"
    text = f"{won['workload']}: {won['attempt']}"
    if won["goodput_tok_s"] is not None:
        text += f": {won['goodput_tok_s']:.4g} tok/s a node"
    one = won["compared"]
    text += ", the defaults" if one is None else f", over the baseline {gain_words(one)}"
    return text + REPLAYED[won["replayed"]]


def answers_line(won: Mapping[str, Any]) -> str:
    """What is known of the best one's answers, in one line; empty where none leads."""
    found = won["accuracy"]
    if found is None:
        return ""
    tasks = "; ".join(Judgement.model_validate(task).told() for task in found["tasks"] if task["tier"] == 2)
    off = ", ".join(f"{c['name']} {c['state']}" for c in found["canaries"] if c["state"] != "passed")
    text = f"{won['workload']}: answers of the best: {found['label']}" + (f" ({tasks})" if tasks else "")
    good = sum(c["state"] == "passed" for c in found["canaries"])
    return text + (f"; {good} canaries passed" if good else "") + (f", {off}" if off else "")


def stability_line(won: Mapping[str, Any]) -> str:
    """What became of the time under load, in one line; empty where there was none."""
    if won["stability"] is None:
        return ""
    found = Stability.model_validate(won["stability"])
    text = f"{won['workload']}: under load for {found.seconds / 60:.0f} min at {found.rate_rps:.3g}/s, 0.9 x the knee"
    return f"{text}: {found.failed} of {found.requests} requests failed; {health.words(found)}"


def kernels_line(won: Mapping[str, Any]) -> str:
    """What the best one's log told of slow paths, in one line; empty where nothing."""
    if won["kernels"] is None:
        return ""
    told = kernels.words(Kernels.model_validate({k: v for k, v in won["kernels"].items() if k != "coverage"}))
    return f"{won['workload']}: kernels of the best: {told}" if told else ""


def noise(ledger: Ledger, run_id: str) -> dict[str, Any]:
    """The noise floor that decides in a run now, and per workload where it comes from."""
    attempts, floors = ledger.attempts(run_id), story.floors(ledger, run_id)
    kept = (a for a in attempts if a.status == AttemptStatus.KEPT)
    value = seeing.noise(attempts, {a.id: ledger.pairs(a.id) for a in kept}, floors)
    return {
        "sd": value,
        "floors": [f.model_dump(mode="json", exclude={"boot_id", "at"}) for f in floors],
        "words": [floor_words(f, value) for f in floors],
    }
