"""What the known issues, shipped and learned, say about words or a line of a log; for a prompt, as fenced data."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from day0.agent.policy.untrusted import fence

if TYPE_CHECKING:
    from day0.agent.policy.base import RunView
    from day0.tools.known import KnownIssue

SHOWN = 5
_WORD = re.compile(r"[A-Za-z0-9_]{3,}")


def known_text(view: RunView, text: str, limit: int = 4000) -> str:
    """The issues whose signature meets the text, then those that share most of its words, that this build may have."""
    words = {w.lower() for w in _WORD.findall(text)}
    ranked = []
    for number, issue in enumerate((*view.learned, *_shipped())):
        if not issue.may_apply(view.engine):
            continue
        met = any(re.search(pattern, text) for pattern in issue.signatures)
        shared = len(words & _words(issue))
        if met or shared:
            ranked.append((not met, -shared, number, issue))
    rows = [_told(issue) for *_, issue in sorted(ranked, key=lambda row: row[:3])[:SHOWN]]
    return fence("\n".join(rows) or "no known issue is about it", f"known issues about {text[:60]}", limit)


@lru_cache(maxsize=1)
def _shipped() -> tuple[KnownIssue, ...]:
    from day0.tools.known import known_issues

    return tuple(i for i in known_issues() if not i.general)


@lru_cache(maxsize=2048)
def _words(issue: KnownIssue) -> frozenset[str]:
    told = " ".join((issue.id, issue.cause, issue.seen_on, issue.shows, *issue.signatures, *issue.examples))
    return frozenset(w.lower() for w in _WORD.findall(told))


def _told(issue: KnownIssue) -> str:
    remedies = "; ".join(f"{r.kind}: {r.text}" for r in issue.remedies)
    where = ", ".join(u.link for u in issue.upstream)
    return f"{issue.id} ({issue.failure.value}): {issue.cause} Remedies: {remedies}." + (
        f" See {where}" if where else ""
    )
