"""Was a load point what its workload says? Lengths, share of the cache, priming on every replica (S45). Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from day0.tools.loadplan import Expected, PointPlan, expected, prefix_tokens
from day0.tools.rawpoint import RawPoint

if TYPE_CHECKING:
    from day0.tools.columns import Columns, Marks

LENGTH_SLACK = 0.02
CACHE_SLACK = 0.05
TOOK = 0.5
"""Of a prefix' tokens must be found when it is asked for again: a page at its end may not be."""
NOTHING, FULL, ENOUGH = 0.1, 0.9, 20
"""So many requests find less than this share of what they repeat, in caches never this full: nothing was shared."""


def wrong_lengths(plan: PointPlan, raw: RawPoint, good: Marks) -> str | None:
    """Prompts or answers of other lengths than the workload's, by the server's own count."""
    if not good.any():
        return None
    asked, want = raw.requests, expected(plan)
    lengths = [("output", asked.output_tokens, want.output_tokens), ("input", asked.prompt, want.input_tokens)]
    if _part(plan, raw):
        lengths = [("input", asked.prompt, float(asked.asked_tokens[good].mean()))]
    for name, column, tokens in lengths:
        if abs((got := float(column[good].mean())) - tokens) > max(LENGTH_SLACK * tokens, 2.0):
            return f"lengths: {got:.1f} {name} tokens a request, the workload says {tokens:g}"
    return None


def wrong_cache(plan: PointPlan, raw: RawPoint, rows: Marks) -> str | None:
    """More hits than the workload has: the contents were not fresh. Fewer, and priming never took: a wrong set-up.

    Fewer hits after a priming that was seen to work on every replica are evictions, and those are the candidate's own.
    """
    cached, prompt = cached_tokens(raw.requests, rows), float(raw.requests.prompt[rows].sum())
    if cached is None or not prompt or _part(plan, raw):
        return None
    meant = expected(plan)
    got, want = cached / prompt, meant.cached_share
    if got > want + CACHE_SLACK:
        return f"cache: {got:.0%} of the input came from the cache, the workload shares {want:.0%}"
    if got >= want - CACHE_SLACK or not raw.cache_on:
        return None
    why = _never_shared(raw, meant, got / want) if plan.calls else unprimed(plan, raw)
    return f"cache: {got:.0%} of the input came from the cache instead of {want:.0%}, and {why}" if why else None


def _part(plan: PointPlan, raw: RawPoint) -> bool:
    """Which requests of a trace came to their end is not known beforehand: a closed loop, or a point ended early."""
    return bool(plan.calls) and (plan.rate_rps is None or bool(raw.stopped))


def cached_tokens(asked: Columns, rows: Marks) -> float | None:
    """Tokens of these requests that came from the cache; None = the server does not say."""
    values = asked.cached_tokens[rows]
    known = values[values >= 0]  # NaN is not
    return float(known.sum()) if len(known) else None


def _never_shared(raw: RawPoint, meant: Expected, share: float) -> str:
    """A few requests may find nothing by chance: the one that they share with was still on its way."""
    if meant.sharing < ENOUGH:
        return ""
    fullest = max((s.kv_use for s in raw.samples if s.kv_use is not None), default=1.0)
    return "the cache was never full: nothing was shared" if share < NOTHING and fullest < FULL else ""


def unprimed(plan: PointPlan, raw: RawPoint) -> str:
    """On which replicas the shared prefixes were not in place before the load began; empty = on none.

    By the answers themselves (tokens found, and which replica answered where the server says), and by each replica's
    own counter of tokens found, where it has one.
    """
    shared = prefix_tokens(plan.workload)
    if not raw.primes:
        return "priming did not take"
    again = {(p.prefix, p.replica): p for p in raw.primes}
    lost: dict[int, int] = {}
    for (_, replica), prime in again.items():
        if (prime.cached_tokens or 0) < TOOK * shared or prime.rank not in (None, replica):
            lost[replica] = lost.get(replica, 0) + 1
    least = TOOK * shared * plan.workload.prefixes
    for replica, found in enumerate(raw.primed):
        if found < least and replica < plan.replicas:
            lost.setdefault(replica, plan.workload.prefixes)
    if not lost:
        return ""
    where = ", ".join(
        f"{count} of {plan.workload.prefixes} prefixes on replica {at}" for at, count in sorted(lost.items())
    )
    return f"priming did not take: {where}"
