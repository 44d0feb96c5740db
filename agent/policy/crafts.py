"""Ideas that need something made first: a shipped repair of engine source for a failure that a known issue names."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from day0.agent.policy.actions import TryCandidate
from day0.agent.policy.axes import Option
from day0.agent.policy.brought import name_of
from day0.agent.policy.ideas import Idea
from day0.agent.policy.trials import AUTHOR
from day0.runs.errors import Refused
from day0.runs.schema import AttemptStatus
from day0.tools import patch_rules

if TYPE_CHECKING:
    from day0.agent.policy.base import RunView
    from day0.runs.candidate import Candidate
    from day0.runs.facts import Verdict
    from day0.runs.schema import Attempt
    from day0.tools.known import Remedy

DIFFS = frozenset({"llm", "auto"})
"""policies under which a diff may be proposed: those that may ask an LLM"""
UNBLOCKS = 0.05
"""promise of a repair whose attempt stated none"""


@lru_cache(maxsize=1)
def codemod_names() -> frozenset[str]:
    """Names of the repairs that day0 ships."""
    from day0.tools.codemods import CODEMODS

    return frozenset(CODEMODS)


@lru_cache(maxsize=256)
def remedies_for(issue: str) -> tuple[Remedy, ...]:
    """The remedies of a known issue that day0 can try alone, in the document's order."""
    from day0.tools.known import known_issue

    found = known_issue(issue)
    return tuple(r for r in (found.remedies if found else ()) if r.flags or r.env or codemod_in(r))


def codemod_in(remedy: Remedy) -> str:
    """The shipped repair that a remedy names, with which its text begins; empty: it names none."""
    name = remedy.text.split(maxsplit=1)[0].rstrip(":,") if remedy.kind == "codemod" else ""
    return name if name in codemod_names() else ""


def codemods_for(issue: str) -> tuple[str, ...]:
    """The shipped repairs among the remedies of a known issue."""
    return tuple(name for remedy in remedies_for(issue) if (name := codemod_in(remedy)))


def applied(candidate: Candidate, view: RunView) -> frozenset[str]:
    """Names of the shipped repairs that a candidate has."""
    made = (view.patches.get(digest) for digest in candidate.patches)
    return frozenset(p.author.removeprefix(AUTHOR) for p in made if p is not None and p.author.startswith(AUTHOR))


def repairs(view: RunView) -> Iterator[Idea]:
    """For each failed attempt, latest first, the same candidate with what its known issue asks for.

    Remedies that day0 can try alone, in the document's order: a shipped repair of the cause, or settings that lead
    around it. What was tried for the same issue of another attempt is not tried again.
    """
    tried: set[tuple[str, str]] = set()
    for attempt in sorted(view.attempts, key=lambda a: -a.number):
        if attempt.status != AttemptStatus.FAILED:
            continue
        failed = next((v for v in attempt.verdicts if not v.passed), None)
        if failed is None or not failed.issue:
            continue
        for remedy in _remedies(failed.issue, view):
            name = codemod_in(remedy)
            done = (failed.issue, name or remedy.text)
            if done in tried or (name and name in applied(attempt.candidate, view)):
                continue
            option = Option(f"repair {name}") if name else around(remedy)
            if not name and (option.on(attempt.candidate) == attempt.candidate or _went_around(remedy, failed, view)):
                continue
            tried.add(done)
            yield Idea(
                promise=max(attempt.expected_gain or 0.0, UNBLOCKS),
                axis="repair",
                option=option,
                why=f"{attempt.id} failed as the known issue {failed.issue} says; this mends its cause"
                if name
                else f"{attempt.id} failed as the known issue {failed.issue} says; this leads around it",
                parent=attempt.id,
                codemods=(name,) if name else (),
            )
            break


def _remedies(issue: str, view: RunView) -> tuple[Remedy, ...]:
    """Those of a shipped issue, or of one that runs on this build learned."""
    own = next((i.remedies for i in view.learned if i.id == issue), None)
    return remedies_for(issue) if own is None else tuple(r for r in own if r.typed)


def around(remedy: Remedy) -> Option:
    """A remedy of settings as an option."""
    return Option(f"remedy {remedy.text}"[:160], dict(remedy.flags), dict(remedy.env))


def _went_around(remedy: Remedy, failed: Verdict, view: RunView) -> bool:
    """Whether some attempt that failed of the same issue has a child with the remedy's settings, or has them itself."""
    option = around(remedy)
    ill = {a.id: a for a in view.attempts if any(not v.passed and v.issue == failed.issue for v in a.verdicts)}
    return any(option.on(a.candidate) == a.candidate and (a.id in ill or a.parent in ill) for a in view.attempts)


def against(action: TryCandidate, candidate: Candidate, parent: Attempt, view: RunView) -> str:
    """Why an action's craft is not made; empty where nothing speaks against it. `candidate` lacks what is made yet."""
    unknown = [name for name in action.codemods if name not in codemod_names()]
    held = [name for name in action.codemods if name in applied(candidate, view)]
    if unknown:
        return f"there is no repair {unknown[0]!r}; day0 ships {', '.join(sorted(codemod_names()))}"
    if held or len(set(action.codemods)) < len(action.codemods):
        return f"{parent.id} has the repair {held[0]} already" if held else "the same repair twice"
    if action.diff and view.request.policy not in DIFFS and not name_of(action.diff, view.request):
        return "only an LLM may propose a diff"
    if action.diff and (reason := _not_a_patch(action.diff)):
        return reason
    return _again(action, candidate, parent, view)


def _not_a_patch(diff: str) -> str:
    """Why a diff may not be a patch, by its text alone; whether it fits the source is known where that is."""
    try:
        patch_rules.read(diff if diff.endswith("\n") else diff + "\n")
    except Refused as refused:
        return refused.reason
    return ""


def _again(action: TryCandidate, candidate: Candidate, parent: Attempt, view: RunView) -> str:
    for answer in view.answers:
        if answer.refused and isinstance(answer.action, TryCandidate) and _alike(answer.action, action):
            return f"the same was asked for and could not be made: {answer.text}"[:400]
    for attempt in view.attempts:
        if attempt.parent == parent.id and is_made(attempt, action, candidate, view):
            return f"the same was made for {attempt.id}, {attempt.status.value}: {attempt.reason}".rstrip(": ")
    return ""


def _alike(one: TryCandidate, other: TryCandidate) -> bool:
    keys = ("parent", "flags", "env", "image", "codemods", "diff", "tune")
    return all(getattr(one, key) == getattr(other, key) for key in keys)


def is_made(attempt: Attempt, action: TryCandidate, candidate: Candidate, view: RunView) -> bool:
    """Whether an attempt is what the action would make: the same settings with the same repairs, diff or tuning."""
    mine = attempt.candidate
    if (mine.flags, mine.env, mine.build) != (candidate.flags, candidate.env, candidate.build):
        return False
    more = [d for d in mine.patches if d not in candidate.patches]
    made = [view.patches[d] for d in more if d in view.patches]
    repaired = {p.author.removeprefix(AUTHOR) for p in made if p.author.startswith(AUTHOR)} == set(action.codemods)
    changed = any(not p.author.startswith(AUTHOR) and p.diff.strip() == action.diff.strip() for p in made)
    plain = not any(not p.author.startswith(AUTHOR) for p in made)
    return repaired and (changed if action.diff else plain) and (mine.tables != candidate.tables) == action.tune
