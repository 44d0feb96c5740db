"""What the forecast expects of a candidate under the run's workload: its knee, or why it does not fit.

Only what the forecast knows counts: tensor, data and expert parallelism, attention data parallelism, speculation and
the running cap, the model's shapes and precision, the accelerator. All else a candidate sets is the axes' business.
Pure and remembered: one prediction per (model, workload, accelerator, layout), however often a policy asks.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from day0.agent.policy.fit import whole
from day0.runs.candidate import Candidate
from day0.runs.engine_facts import ModelFacts
from day0.runs.workload import Workload

if TYPE_CHECKING:
    from day0.agent.policy.axes import Site
    from day0.tools.forecast.point import Point


FAR_OFF, HALVINGS = 3.0, 7
"""Published rows of one configuration lie up to 3.6 times apart between software stacks; halvings leave under 2 %."""


class Shape(NamedTuple):
    """How a candidate divides the model, as far as the forecast tells candidates apart."""

    tp: int
    dp: int
    ep: int
    attention_dp: int
    speculation: bool
    cap: int
    kv_byte: bool


class Expected(NamedTuple):
    """`tok_s`: output tok/s of the whole node at the knee, None where nothing is predicted; `why_not`: can't run."""

    tok_s: float | None
    why_not: str = ""


def shape_of(candidate: Candidate) -> Shape:
    """The shape that a candidate's flags ask for. Older builds write attention DP as a switch and `dp-size`."""
    flags = candidate.flags
    tp, dp, groups = whole(candidate, "tp-size"), whole(candidate, "dp-size"), whole(candidate, "attn-dp-size")
    if flags.get("enable-dp-attention") and groups == 1:
        groups, dp = dp, 1
    return Shape(
        tp=tp,
        dp=dp,
        ep=whole(candidate, "ep-size"),
        attention_dp=groups,
        speculation=bool(flags.get("speculative-algorithm")),
        cap=whole(candidate, "max-running-requests", 0),
        kv_byte=str(flags.get("kv-cache-dtype", "")).startswith("fp8"),
    )


def expected(shape: Shape, site: Site, pace: float = 1.0) -> Expected:
    """The forecast of a shape on a site; nothing where no accelerator, model or shape is known to it.

    `pace` multiplies every time that the forecast foretells: what a measured layout took beside what was foretold.
    """
    work = site.workload
    slo = work.slo.model_copy(
        update={k: v / pace for k in ("ttft_ms", "tpot_ms") if (v := getattr(work.slo, k)) is not None}
    )
    # all times longer by one factor are the same as limits and rates smaller by it
    work = work.model_copy(update={"slo": slo}) if pace != 1.0 else work
    found = _expected(site.model, work, site.target.accelerator, site.target.engine, site.gpus, shape)
    return found if found.tok_s is None else found._replace(tok_s=found.tok_s / pace)


def pace_of(shape: Shape, tok_s: float, site: Site) -> float:
    """The factor on all foretold times with which the forecast of a shape is what was measured of it, output tok/s.

    A knee under limits falls much faster than a server's pace where one request alone comes near a limit, and with it
    the ratio between layouts: so the pace is anchored, not the knee. At most `FAR_OFF` either way.
    """
    if site.workload.arrival == "single_stream" or expected(shape, site).tok_s is None or tok_s <= 0:
        return 1.0
    low, high = -math.log(FAR_OFF), math.log(FAR_OFF)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if (expected(shape, site, math.exp(middle)).tok_s or 0.0) > tok_s:
            low = middle
        else:
            high = middle
    return math.exp((low + high) / 2)


@lru_cache(maxsize=4096)
def _expected(  # noqa: PLR0917
    model: ModelFacts, workload: Workload, accelerator: str, engine: str, gpus: int, shape: Shape
) -> Expected:
    from day0.tools.forecast.hardware import catalogue
    from day0.tools.forecast.layouts import misfit

    if accelerator not in catalogue() or shape.tp % shape.attention_dp:
        return Expected(None)
    point = _point(model, accelerator, engine, shape)
    if point is None:
        return Expected(None)
    if why := misfit(point, workload):
        return Expected(None, why)
    copies = max(1, gpus // max(1, point.gpus))
    return Expected(_tok_s(point, workload) * copies)


def _tok_s(point: Point, workload: Workload) -> float:
    """Output tok/s at the knee, or of one stream.

    Where one request alone is expected to miss a limit: half of what one request a replica gets, since the limit may
    lie just beyond.
    """
    from day0.tools.forecast.estimate import Forecaster
    from day0.tools.forecast.knee import knee, point_under

    forecaster = Forecaster()
    found = knee(point, workload, forecaster)
    if found is not None and workload.arrival != "single_stream":
        return found.output_tok_s
    alone = forecaster.predict([point_under(workload, point, float(point.replicas))])[0]
    if workload.arrival == "single_stream":
        return 1e3 / alone.tpot_ms
    return 0.5 * alone.requests_s * workload.output_tokens


def _point(model: ModelFacts, accelerator: str, engine: str, shape: Shape) -> Point | None:
    from day0.tools.forecast.hardware import hardware
    from day0.tools.forecast.of_facts import geometry_of, precision_of
    from day0.tools.forecast.point import Point

    known = geometry_of(model)
    if known is None:
        return None
    geometry, family = known
    replicas = 1 if shape.attention_dp > 1 else shape.dp
    return Point(
        geometry=geometry,
        hardware=hardware(accelerator),
        precision=precision_of(model),
        engine=engine,
        tp=shape.tp,
        dp=shape.attention_dp if shape.attention_dp > 1 else shape.dp,
        ep=shape.ep,
        attention_dp=shape.attention_dp > 1,
        speculation=shape.speculation,
        max_running=shape.cap * replicas if shape.cap else None,
        family=family,
    )
