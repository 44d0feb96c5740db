"""Taking away: the leader without what it took over in a bundle and that was never measured alone.

Public logs tell of +72 % by removing one wrong inherited flag. Removing such flags is not believed to pay, so it comes
last: first all of the small ones together, which costs one experiment and shows whether any of them hurts, then one by
one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from day0.agent.policy.axes import Option
from day0.agent.policy.settings import DEPTH, LAYOUT, SAFE_REDUCE, TIED

if TYPE_CHECKING:
    from day0.agent.policy.base import RunView
    from day0.runs.candidate import Candidate

PRUNE = "prune"
"""the axis that such experiments name"""
LARGE = frozenset({*LAYOUT, *TIED, DEPTH, SAFE_REDUCE, "kv-cache-dtype", "max-running-requests"}) - {
    "dsa-decode-backend"
}
"""what a bundle stands on: layout, speculation with what belongs to it, the cache's element"""
SPECULATIVE = ("speculative-algorithm", "speculative-eagle-topk", "speculative-num-draft-tokens", DEPTH)


def ablations(leader: Candidate, view: RunView) -> Iterator[Option]:
    """Each removal, the small ones together first. What was tried alone before is left out."""
    target = view.request.target
    alone = set(_alone(view))
    flags = [k for k in sorted(set(leader.flags) - set(target.base_flags)) if f"--{k}" not in alone]
    env = [k for k in sorted(set(leader.env) - set(target.base_env)) if k not in alone]
    small = [k for k in flags if k not in LARGE]
    if len(small) + len(env) > 1 and not _together(view):
        yield Option("without what was never measured alone", dict.fromkeys(small), dict.fromkeys(env))
    if leader.flags.get("speculative-algorithm") is not None:
        yield Option("without speculation", {k: None for k in SPECULATIVE if k in leader.flags})
    for key in flags:
        if key not in SPECULATIVE and key not in LAYOUT:
            yield Option(f"without {key}", {key: None})
    for key in env:
        yield Option(f"without {key}", {}, {key: None})


def _together(view: RunView) -> bool:
    """Whether small ones were taken away together before."""
    for attempt in view.attempts:
        parent = view.attempt(attempt.parent or "")
        changed = attempt.candidate.changed(parent.candidate) if parent is not None else {}
        if len(changed) > len(SPECULATIVE) and all(new is None for _, new in changed.values()):
            return True
    return False


def _alone(view: RunView) -> Iterator[str]:
    """Keys that alone tell an attempt from its parent."""
    for attempt in view.attempts:
        parent = view.attempt(attempt.parent or "")
        if parent is not None and len(changed := attempt.candidate.changed(parent.candidate)) == 1:
            yield from changed
