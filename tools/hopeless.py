"""When a load point can be ended early: what waits can't be served in time any more, and it gets more. Pure.

A point that is ended so is a miss like any other, only cheaper: an overloaded server would keep the node busy for the
whole window and its patience after it.
"""

from __future__ import annotations

from day0.tools.engines.base import Counters
from day0.tools.loadplan import PointPlan

LEAST_SHARE = 0.25
"""Of the window must have passed, after the lead-in: a burst is no overload."""
CATCH_UP = 2.0
"""A server whose queue grows serves less than is offered; twice that is granted to it."""
NO_LIMIT_SHARE = 0.5
"""Without a TTFT limit: half of what the window offers waits."""


class Hopeless:
    """Told of a server's counters, one reading after the other, it says when an open-loop point is lost."""

    def __init__(self, plan: PointPlan) -> None:
        self.plan = plan
        self.began: float | None = None
        self.seen: list[tuple[float, float]] = []

    def after(self, at: float, counters: Counters) -> str:
        """Why the point is lost, empty while it may be not. `at` is node time."""
        plan, queued = self.plan, counters.queued
        if plan.rate_rps is None or queued is None:
            return ""
        if self.began is None:
            if queued + (counters.running or 0.0) <= plan.replicas:  # priming: one request a replica
                return ""
            self.began = at
        self.seen.append((at, queued))
        loaded = at - self.began
        if loaded < plan.lead_s + LEAST_SHARE * plan.window_s or queued <= self._too_many() or not self._grows():
            return ""
        return f"stopped after {loaded:.0f} s of load: {queued:.0f} requests waited, and ever more"

    def _too_many(self) -> float:
        """The queue beyond which the limit is missed for sure.

        Whoever waits behind as many as the server can begin within the TTFT limit is late; when these are more than
        the percentile leaves, nothing that follows can mend it.
        """
        plan, slo = self.plan, self.plan.workload.slo
        if slo.ttft_ms is None:
            return NO_LIMIT_SHARE * plan.offered
        in_time = CATCH_UP * (plan.rate_rps or 0.0) * slo.ttft_ms / 1e3
        return in_time + (1 - slo.ttft_percentile / 100) * plan.offered

    def _grows(self) -> bool:
        """The queue is longer than in the middle of the load so far, and was longer there than at its beginning."""
        (begin, first), (end, last) = self.seen[0], self.seen[-1]
        middle = next(queued for at, queued in self.seen if at >= (begin + end) / 2)
        return first < middle < last
