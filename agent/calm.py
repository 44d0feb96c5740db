"""A load point during which the machine itself was slow is measured again. Pure.

A node's fault is never the candidate's: such a point is void. Twice it is repeated, on the same arrivals with fresh
contents; what is seen the third time counts, since a machine that stays slow is as fast as it is, and the point says
how much of it was slow.
"""

from __future__ import annotations

from day0.runs.facts import LoadPoint
from day0.tools.loadplan import PointPlan
from day0.tools.pace import MOST_SLOW

TRIES = 3
APART = 1_000_003
"""between the contents of a point and those of its repetition: nothing of them is in a cache (S38)"""


def attempt(plan: PointPlan, name: str, number: int) -> tuple[PointPlan, str]:
    """The plan of a point's try `number` (from 0), and what it is called."""
    if not number:
        return plan, name
    return plan.model_copy(update={"content_seed": plan.content_seed + number * APART}), f"{name}-again{number}"


def judged(point: LoadPoint, number: int) -> LoadPoint:
    """The point of try `number`, void when the machine was slow and another try is left; a warm-up counts as it is."""
    share = point.slow_share or 0.0
    if point.warmup or point.void is not None or share <= MOST_SLOW or number + 1 >= TRIES:
        return point
    void = f"machine: {share:.0%} of the sums timed on the serving cores took far longer than at their best"
    return point.model_copy(update={"void": void, "meets_slo": False})


def spoilt(point: LoadPoint) -> bool:
    """Whether `judged` made it void."""
    return (point.void or "").startswith("machine:")
