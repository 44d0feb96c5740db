"""What a boot's load points are keyed and told by. Pure."""

from __future__ import annotations

from day0.runs.candidate import Candidate
from day0.runs.facts import Rung
from day0.runs.values import canonical_json, sha256
from day0.runs.workload import Workload
from day0.tools.loadplan import PointPlan


def content_seed(seed: int, candidate: Candidate, repeat: int, workload: Workload, rung: Rung, what: str) -> int:  # noqa: PLR0917
    """Fresh contents for each phase of each candidate's boot, the same in every repetition of the run (S38)."""
    text = canonical_json([seed, candidate.digest(), repeat, workload.name, rung, what])
    return int(sha256(text)[7:19], 16)


def told(plan: PointPlan) -> str:
    """The load of a plan in words."""
    if plan.rate_rps is not None:
        return f"{plan.rate_rps:.3g} requests/s"
    return "a single stream" if plan.concurrency == 1 else f"{plan.concurrency} clients"
