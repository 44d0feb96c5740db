"""`patches` and `patch show|approve|reject`: tables and a coloured diff for people, JSON for programs.

A patch's text comes from a model or a log: it is shown as data, without terminal escapes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from day0.agent.looking import say, say_json, table
from day0.agent.patch_evidence import evidence
from day0.agent.policy.untrusted import clean, line
from day0.agent.settings import redacted
from day0.agent.sources import opened
from day0.runs.errors import Conflict, UserError
from day0.runs.ledger import Ledger
from day0.runs.ledger_patches import Outcome
from day0.runs.patches import Patch, Review

STYLES = (("+++", "bold"), ("---", "bold"), ("diff ", "bold"), ("@@", "cyan"), ("+", "green"), ("-", "red"))


def row(review: Review) -> dict[str, Any]:
    """A review as JSON, without the diff."""
    patch = review.patch
    added, removed = counted(patch.diff)
    return {
        "patch": patch.short,
        "digest": patch.digest(),
        "run": review.run,
        "status": review.status,
        "reason": review.reason,
        "name": patch.name,
        "title": patch.title,
        "author": patch.author,
        "build": patch.build,
        "files": sorted(patch.after),
        "added": added,
        "removed": removed,
        "why": patch.why,
        "issue": patch.issue,
        "upstream": patch.upstream,
    }


def counted(diff: str) -> tuple[int, int]:
    """Added and removed lines of a diff."""
    lines = [text for text in diff.splitlines() if not text.startswith(("+++", "---"))]
    return sum(text.startswith("+") for text in lines), sum(text.startswith("-") for text in lines)


def patches(run_id: str, *, as_json: bool) -> None:
    """A run's patches. Raises `UserError` for an unknown run."""
    with opened() as (_, ledger):
        rows = [row(review) for review in ledger.patches(run_id)]
    if as_json:
        say_json(rows)
    elif not rows:
        say(f"run {run_id} has no patches for review")
    else:
        columns = ("patch", "status", "title", "files", "lines", "upstream", "by")
        cells = (
            (
                r["patch"],
                r["status"],
                r["title"],
                ", ".join(path.rpartition("/")[2] for path in r["files"]),
                f"+{r['added']} -{r['removed']}",
                r["upstream"],
                r["author"],
            )
            for r in rows
        )
        table("patches", columns, cells)


def show(patch_id: str, *, as_json: bool) -> None:
    """One patch with its diff. Raises `UserError` for an unknown ID."""
    with opened() as (_, ledger):
        found = ledger.reviews(patch_id)
        told = row(found[-1]) | {
            "diff": found[-1].patch.diff,
            "before": dict(found[-1].patch.before),
            "after": dict(found[-1].patch.after),
            "gone": list(found[-1].patch.gone),
            "reviews": [{"run": r.run, "status": r.status, "reason": r.reason} for r in found],
            "attempts": attempts_with(ledger, found),
            "evidence": [told.model_dump(mode="json") for told in evidence(ledger, found)],
        }
    if as_json:
        say_json(told)
        return
    say(f"patch {told['patch']}: {line(told['title'])}")
    for review in told["reviews"]:
        say(f"{review['run']}: {review['status']}{': ' + line(review['reason'], 400) if review['reason'] else ''}")
    for name in ("digest", "author", "build", "issue", "upstream", "why"):
        if told[name]:
            say(f"{name + ':':10} {line(str(told[name]), 400)}")
    for ran in told["attempts"]:
        say(
            f"{'attempt:':10} {ran['attempt']} {ran['status']}{' ' + line(ran['reason'], 200) if ran['reason'] else ''}"
        )
    for told_of in told["evidence"]:
        label = " [simulated]" if told_of["simulated"] else ""
        say(f"{'evidence:':10} {line(told_of['model'], 120)} on {line(told_of['target'])}{label}")
        for seen in told_of["rows"]:
            before, after = (line(seen[side], 200) or "nothing" for side in ("before", "after"))
            say(f"{'':10} {line(seen['what'], 80)}: {before} -> {after}")
        for text in told_of["engaged"]:
            say(f"{'':10} gone from the log of a boot with it: {line(text, 200)}")
    say()
    print_diff(found[-1].patch)


def attempts_with(ledger: Ledger, found: Sequence[Review]) -> list[dict[str, str]]:
    """The attempts whose candidates had the patch, in order."""
    digest = found[-1].patch.digest()
    every = [a for review in found for a in ledger.attempts(review.run) if digest in a.candidate.patches]
    return [{"attempt": a.id, "status": a.status.value, "reason": a.reason} for a in every]


def print_diff(patch: Patch) -> None:
    """The diff, coloured where the terminal has colours."""
    from rich.console import Console
    from rich.text import Text

    console = Console(soft_wrap=True)
    for text in clean(patch.diff).splitlines():
        style = next((style for begins, style in STYLES if text.startswith(begins)), "")
        console.print(Text(text, style=style))


def review(patch_id: str, outcome: Outcome, reason: str, *, as_json: bool) -> None:
    """Records a review in every run that has this content.

    Raises `UserError`: unknown ID, already reviewed otherwise.
    """
    said = redacted(line(reason, 1000))
    with opened() as (_, ledger):
        found = ledger.reviews(patch_id)
        digest = found[-1].patch.digest()
        other = next((r for r in found if r.status not in {"waiting", outcome}), None)
        if other is not None:
            raise UserError(f"patch {other.patch.short} is {other.status} in run {other.run}: a review is final")
        for waiting in found:
            if waiting.status == "waiting":
                _record(ledger, waiting, digest, outcome, said)
        rows = [row(r) for r in ledger.reviews(digest)]
    if as_json:
        say_json(rows)
        return
    say(f"{outcome}: patch {found[-1].patch.short}, {line(found[-1].patch.title)} ({digest})")
    if outcome == "approved":
        say("recorded: exactly this content may go upstream; nothing was sent")


def _record(ledger: Ledger, waiting: Review, digest: str, outcome: Outcome, reason: str) -> None:
    try:
        with ledger.write(waiting.run) as writer:
            writer.review(digest, outcome, reason)
    except Conflict as error:
        raise UserError(f"somebody else reviewed it meanwhile: {error}") from None
