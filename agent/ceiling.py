"""What no measurement may exceed: the peak of the accelerators that a candidate holds (S36)."""

from __future__ import annotations

from day0.agent.policy.expectation import shape_of
from day0.runs.candidate import Candidate
from day0.runs.engine_facts import ModelFacts
from day0.runs.facts import LoadPoint
from day0.runs.workload import Target, Workload

KIND = "roofline"
"""first word of why such a point is void"""


def checked(point: LoadPoint, workload: Workload, candidate: Candidate, model: ModelFacts, target: Target) -> LoadPoint:
    """The point, void where it gave more than the hardware can; as it is where no peak is known."""
    if point.void is not None:
        return point
    most = ceiling_rps(point, workload, candidate, model, target)
    given = point.output_tok_s / workload.output_tokens
    if most is None or given <= most:
        return point
    why = (
        f"{KIND}: {given:.3g} requests/s were answered, and {candidate.gpus_held} x {target.accelerator} at full peak, "
        f"with what came from the cache and was accepted from drafts left out, give {most:.3g} at most"
    )
    return point.model_copy(update={"void": why, "meets_slo": False})


def ceiling_rps(
    point: LoadPoint, workload: Workload, candidate: Candidate, model: ModelFacts, target: Target
) -> float | None:
    """Requests/s at full peak without any overhead; None where accelerator or model are not known to the forecast.

    Counts uncached prefill and verified steps: the measured share of hits and the measured acceptance, else the most
    that the candidate's drafts could bring.
    """
    from day0.tools.forecast.bound import requests_bound
    from day0.tools.forecast.hardware import catalogue, hardware
    from day0.tools.forecast.of_facts import geometry_of, precision_of
    from day0.tools.forecast.point import Point

    shape, known = shape_of(candidate), geometry_of(model)
    if target.accelerator not in catalogue() or known is None or shape.tp % shape.attention_dp:
        return None
    grouped = shape.attention_dp > 1
    drafts = candidate.flags.get("speculative-num-draft-tokens", 1)
    length = workload.cached_share if point.cached_share is None else point.cached_share
    return requests_bound(
        Point(
            geometry=known[0],
            hardware=hardware(target.accelerator),
            precision=precision_of(model),
            engine=target.engine,
            tp=shape.tp,
            dp=shape.attention_dp if grouped else shape.dp,
            ep=shape.ep,
            attention_dp=grouped,
            speculation=shape.speculation,
            acceptance=point.acceptance_length or (float(drafts) if shape.speculation else None),
            input_tokens=float(workload.input_tokens),
            output_tokens=float(workload.output_tokens),
            cached=length,
            load="open",
            concurrency=None,
            family=known[1],
        )
    )
