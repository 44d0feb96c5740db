"""`day0 show`: the best first, why it is faster, what it was held against; then the attempts."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from day0.agent import show_best, show_llm
from day0.agent.policy.untrusted import line
from day0.agent.printing import SIMULATED, number, pct, say, say_json, short, table
from day0.agent.show import summary
from day0.agent.sources import opened
from day0.runs.errors import UserError
from day0.runs.ledger import Ledger


def show(run_id: str, *, as_json: bool, canonical: bool) -> None:
    """One run."""
    with opened() as (_, ledger):
        if canonical:
            if not as_json:
                raise UserError("--canonical is a form of --json: give both")
            from day0.runs.canonical import canonical as canonical_form

            sys.stdout.write(canonical_form(ledger, run_id))
        elif as_json:
            say_json(summary(ledger, run_id))
        else:
            end(ledger, run_id, [])


def end(ledger: Ledger, run_id: str, files: Sequence[Path]) -> None:
    """What a run came to: best, why it is faster, noise, attempts, winners with their interval, replay, recipes."""
    told = summary(ledger, run_id)
    label = SIMULATED * told["simulated"]
    for won in told["winners"]:
        for text in top(won, simulated=told["simulated"]):
            say(line(text, 600))
        why_table(won, simulated=told["simulated"])
    for text in told["noise"]["words"]:
        say(line(text, 300) + label)
    say(f"run {run_id}: {told['status']}{': ' + line(told['reason'], 400) if told['reason'] else ''}")
    say(f"{line(told['model'])} on {told['target']}{label}, policy {told['policy']}, seed {told['seed']}")
    if told["policy_note"]:
        say(told["policy_note"])
    for text in show_llm.words(told["llm"]) if told["llm"] else ():
        say(line(text, 400))
    if told["attempts"]:
        attempts_table(told["attempts"], simulated=told["simulated"])
    for item in told["refused"]:
        say(f"refused in round {item['round']}: {line(str(item['reason']), 300)}")
    if told["search_ended"]:
        say(f"the search ended: {line(str(told['search_ended']['reason']), 300)}")
    for won in told["winners"]:
        ends(won, finished=told["finished_at"] is not None, label=label)
    for patch in told["patches"]:
        say(f"patch {patch['patch'][7:19]}: {line(str(patch['title']), 200)}: {patch['status']}")
    share = told["orchestration"]["share"]
    if share is not None and not told["simulated"]:  # no node call takes wall time there
        say(f"orchestration took {share:.2%} of {told['orchestration']['wall_s']:.0f} s")
    for file in files:
        say(f"recipe: {file}")


def ends(won: Mapping[str, Any], *, finished: bool, label: str) -> None:
    """What else was held against the baseline, and what the workload ended with."""
    for one in won["comparisons"]:
        if one["challenger"] != won["attempt"]:
            who = short(one["challenger"])
            say(f"{won['workload']}: {who} against the baseline: {show_best.gain_words(one)}{label}")
    if won["attempt"] is not None or finished:
        say(show_best.winner_line(won) + label)


def top(won: Mapping[str, Any], *, simulated: bool) -> Iterator[str]:
    """The lines that stand above everything else."""
    if won["best"] is not None:
        yield show_best.best_line(won, simulated=simulated)
        yield from (
            text + SIMULATED * simulated
            for text in (show_best.answers_line(won), show_best.kernels_line(won), show_best.stability_line(won))
            if text
        )


def why_table(won: Mapping[str, Any], *, simulated: bool) -> None:
    """Why the best of a workload is faster, change by change, and what holds it back."""
    if won["waterfall"]:
        table(
            f"why {won['workload']} is faster" + SIMULATED * simulated,
            ("step", "change", "gain", "in all", "tok/s", "without it in the end"),
            (
                (
                    short(w["attempt"]),
                    w["change_words"],
                    pct(w["gain"]),
                    pct(w["total"]),
                    number(w["goodput_tok_s"]),
                    w["ablation_words"],
                )
                for w in won["waterfall"]
            ),
        )
    for found in won["explained"]:
        lift = f": {found['experiment']}" if found["experiment"] else ""
        say(line(f"{won['workload']} is held back by: {found['name']} ({found['evidence']}){lift}", 400))


def attempts(run_id: str, *, as_json: bool) -> None:
    """The attempts of a run."""
    from day0.agent.show import attempt_rows

    with opened() as (_, ledger):
        rows = attempt_rows(ledger, run_id)
        simulated = ledger.run(run_id).request.target.kind == "twin"
    if as_json:
        say_json(rows)
    else:
        attempts_table(rows, simulated=simulated)


def attempts_table(rows: list[dict[str, Any]], *, simulated: bool) -> None:
    """One line per attempt."""
    table(
        "attempts" + SIMULATED * simulated,
        ("attempt", "status", "change", "knee 1/s", "tok/s", "gain", "held back by", "why"),
        (
            (
                short(r["attempt"]),
                r["status"],
                r["change_words"] or r["axis"],
                r["knee_words"],
                number(r["goodput_tok_s"]),
                pct(r["gain"]),
                ", ".join(d["name"] for d in r["explained"]),
                r["reason"],
            )
            for r in rows
        ),
    )
