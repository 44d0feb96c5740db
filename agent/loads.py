"""What a boot's load points are keyed and told by. Pure."""

from __future__ import annotations

from day0.runs.candidate import Candidate
from day0.runs.facts import Knee, LoadPoint, Rung
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


def alone(point: LoadPoint, workload: Workload, clients: int, *, short: bool) -> Knee:
    """What stands for a knee where a fixed number of clients is all the load there is."""
    rate = point.output_tok_s / workload.output_tokens
    return Knee(
        workload=workload.name,
        rate_rps=rate,
        goodput_tok_s=point.output_tok_s,
        passed_rps=rate,
        failed_rps=None,
        bound_by="one request at a time" if clients == 1 else f"{clients} clients that ask again at once",
        in_flight=float(clients),
        tpot_ms=point.tpot_ms.p50 if clients == 1 and point.tpot_ms else None,
        short=short,
    )
