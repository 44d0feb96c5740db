"""Many scores as figures: per policy, per world, and the playbook against the numeric control. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any

from day0.agent.evaluation.scoring import Score

RIVAL = "tpe"


def quantile(values: Sequence[float], share: float) -> float:
    """Linear between order statistics; NaN of nothing."""
    if not values:
        return float("nan")
    ranked = sorted(values)
    at = share * (len(ranked) - 1)
    low = int(at)
    high = min(low + 1, len(ranked) - 1)
    return ranked[low] + (ranked[high] - ranked[low]) * (at - low)


def by_policy(scores: Iterable[Score]) -> dict[str, list[Score]]:
    """Scores of each policy, in the order in which policies first appear."""
    out: dict[str, list[Score]] = {}
    for score in scores:
        out.setdefault(score.policy, []).append(score)
    return out


def summary(scores: Iterable[Score]) -> list[dict[str, Any]]:
    """One row for each policy, over worlds and seeds."""
    return [
        {
            "policy": policy,
            "played": len(rows),
            "solved": sum(r.solved for r in rows),
            "median_share": round(median(r.share for r in rows), 4),
            "p10_share": round(quantile([r.share for r in rows], 0.1), 4),
            "median_hours_to_95": round(median(r.counted_hours for r in rows), 3),
            "broken": sum(r.broken for r in rows),
            "refused": sum(r.refused for r in rows),
            "median_hours": round(median(r.hours for r in rows), 2),
            "tokens": sum(r.tokens for r in rows),
            "usd": round(sum(r.usd for r in rows), 4),
        }
        for policy, rows in by_policy(scores).items()
    ]


def ratios(scores: Iterable[Score], policy: str = "playbook") -> dict[str, float]:
    """World -> node hours of the numeric control (median over its seeds) over those of a policy, to 95 % of the oracle.

    Only worlds that both were played on. A target never reached counts as the whole budget.
    """
    rows = by_policy(scores)
    hours: dict[str, list[float]] = {}
    for score in rows.get(RIVAL, ()):
        hours.setdefault(score.world, []).append(score.counted_hours)
    mine: dict[str, list[float]] = {}
    for score in rows.get(policy, ()):
        mine.setdefault(score.world, []).append(score.counted_hours)
    return {name: median(hours[name]) / max(1e-9, median(mine[name])) for name in mine if name in hours}


def against(scores: Sequence[Score], policy: str = "playbook") -> dict[str, Any] | None:
    """The comparison with the numeric control; None where there is none."""
    found = ratios(scores, policy)
    if not found:
        return None
    return {"policy": policy, "rival": RIVAL, "worlds": len(found), "median_ratio": round(median(found.values()), 2)}


def headline(scores: Sequence[Score]) -> str:
    """The best policy in one line: most solved, then the highest median share."""
    rows = summary(scores)
    if not rows:
        return "nothing was played"
    best = max(rows, key=lambda r: (r["solved"] / r["played"], r["median_share"]))
    broken = f"{best['broken']} broken promotions" if best["broken"] else "no broken promotion"
    text = (
        f"{best['policy']} solves {best['solved']} of {best['played']}: median {best['median_share']:.1%} of the "
        f"oracle, p10 {best['p10_share']:.1%}, {best['median_hours_to_95']:.1f} node-hours to 95 %, {broken}"
    )
    rival = against(scores, best["policy"]) if best["policy"] != RIVAL else None
    if rival is not None:
        text += f"; {rival['median_ratio']:.1f} x fewer node-hours than {RIVAL} over {rival['worlds']} worlds"
    return text


def told(scores: Sequence[Score]) -> dict[str, Any]:
    """Everything with stable keys, for machines; scores in a fixed order."""
    ranked = sorted(scores, key=lambda s: (s.world, s.policy, s.seed))
    return {
        "headline": headline(scores),
        "summary": summary(ranked),
        "against": against(scores),
        "results": [s.model_dump(mode="json") for s in ranked],
    }


def lines(scores: Iterable[Score]) -> list[tuple[str, ...]]:
    """One row for each world and policy; several seeds as their median."""
    groups: dict[tuple[str, str], list[Score]] = {}
    for score in scores:
        groups.setdefault((score.world, score.policy), []).append(score)
    return [_line(world, policy, rows) for (world, policy), rows in sorted(groups.items())]


def _line(world: str, policy: str, rows: Sequence[Score]) -> tuple[str, ...]:
    reached = all(r.hours_to_95 is not None for r in rows)
    hours = f"{median(r.counted_hours for r in rows):.1f}"
    broken = next((r.why_broken or "yes" for r in rows if r.broken), "")
    solved = sum(r.solved for r in rows)
    return (
        world,
        policy + (f" ({len(rows)} seeds)" if len(rows) > 1 else ""),
        ("yes" if solved else "no") if len(rows) == 1 else f"{solved} of {len(rows)}",
        f"{median(r.share for r in rows):.1%}",
        hours if reached else f"never ({hours})",
        str(sum(r.refused for r in rows)),
        broken,
        str(sum(r.tokens for r in rows) or ""),
    )
