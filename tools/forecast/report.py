"""All that `day0 forecast MODEL` says, as one frozen value."""

from __future__ import annotations

from day0.runs import documents
from day0.runs.errors import UserError
from day0.runs.geometry import Precision
from day0.runs.values import Frozen
from day0.runs.workload import Workload
from day0.tools.forecast.breaks import Omen, omens
from day0.tools.forecast.coefficients import shipped
from day0.tools.forecast.estimate import Forecaster
from day0.tools.forecast.hardware import Hardware, catalogue, hardware
from day0.tools.forecast.layouts import Layout, points, ranked
from day0.tools.forecast.prices import Cost, cost
from day0.tools.forecast.source import Source, find

REFERENCE = "b200"
NODE_GPUS = 8
WORKLOAD = "agentic-20k1k"
PRICE = "retail"


class Report(Frozen):
    """The forecast of a model on a class of node."""

    model: str
    found: str
    target: str
    accelerator: str
    gpus: int
    workload: str
    engine: str
    parameters: float
    active_parameters: float
    assumes: str
    trust: str
    layouts: tuple[Layout, ...]
    omens: tuple[Omen, ...]
    cost: Cost | None = None
    reference_layout: str = ""


def report(model: str, target: str, workload: str | None = None, forecaster: Forecaster | None = None) -> Report:
    """Layouts, cost and expected problems. Raises UserError, one sentence, for what is no model, target or workload."""
    source = find(model)
    silicon, gpus, engine, default = node(target)
    traffic = documents.workload(workload or default)
    oracle = forecaster or Forecaster()
    made = _layouts(source, silicon, gpus, engine, traffic, oracle)
    other, price = hardware(REFERENCE), None
    best = next((layout for layout in made if layout.fits), None)
    there = next((x for x in _layouts(source, other, NODE_GPUS, engine, traffic, oracle) if x.fits), None)
    if best is not None and there is not None and silicon.name != other.name:
        price = cost(silicon, best.node_output_tok_s / gpus, other, there.node_output_tok_s / NODE_GPUS)
    known = shipped()
    error = known.zero_shot
    return Report(
        model=model, found=source.found, target=target, accelerator=silicon.name, gpus=gpus, workload=traffic.name,
        engine=engine, parameters=source.geometry.total_parameters, active_parameters=source.geometry.active_parameters,
        assumes=best.knee.estimate.assumes if best and best.knee else "nothing was predicted",
        trust=f"models never seen: median error {error['median']:.0%}, p90 {error['p90']:.0%} of "
        f"{known.provenance.rows} published points",
        layouts=made, omens=omens(source.geometry, source.facts, silicon, source.precisions,
                                  architecture=source.architecture),
        cost=price, reference_layout=there.name if there else "",
    )  # fmt: skip


def _layouts(  # noqa: PLR0917
    source: Source, silicon: Hardware, gpus: int, engine: str, traffic: Workload, oracle: Forecaster
) -> tuple[Layout, ...]:
    wanted: tuple[Precision, ...] = source.precisions
    candidates = list(points(source.geometry, silicon, gpus, wanted, engine=engine, family=source.family))
    return ranked(candidates, traffic, oracle, silicon.usd_per_hour.get(PRICE))


def node(target: str) -> tuple[Hardware, int, str, str]:
    """Accelerator, their number, engine and default workload of a shipped target, target file or accelerator name."""
    if target.lower() in catalogue() and target not in documents.names("target"):
        return hardware(target), NODE_GPUS, "sglang", WORKLOAD
    found = documents.target(target)
    if found.accelerator not in catalogue():
        raise UserError(
            f"target {target} has no accelerator with published figures; take one of {', '.join(catalogue())}"
        )
    return hardware(found.accelerator), found.gpus or NODE_GPUS, found.engine, found.workload
