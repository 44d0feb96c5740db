"""What an LLM gets to see of forecasts, of its own expectations beside what was measured, and of earlier runs."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from day0.agent.policy.actions import Action, GrepSource, ReadLog, ReadSource, SearchUpstream, Sweep
from day0.agent.policy.axes import site_of
from day0.agent.policy.decide import gain
from day0.agent.policy.untrusted import line
from day0.runs.schema import FINISHED

if TYPE_CHECKING:
    from day0.agent.policy.base import RunView
    from day0.runs.engine_facts import ModelFacts
    from day0.runs.workload import Workload


SHOWN = 15
"""rows of what earlier runs measured, at most"""


def foretold(view: RunView, most: int) -> str:
    """The forecast of the node's layouts with what the silicon allows at most; empty where nothing is forecast."""
    site = site_of(view)
    rows = _layouts(site.model, site.workload, site.target.accelerator, site.target.engine, site.gpus) if most else ()
    if not rows:
        return ""
    told = [
        "# Forecast of layouts (output tok/s of the node at the knee, 80 % interval; roofline: what the silicon allows)"
    ]
    left = len(rows) - most
    return "\n".join([*told, *rows[:most], *([f"({left} more are not shown)"] if left > 0 else [])])


@lru_cache(maxsize=64)
def _layouts(model: ModelFacts, workload: Workload, accelerator: str, engine: str, gpus: int) -> tuple[str, ...]:
    from day0.tools.forecast.bound import requests_bound
    from day0.tools.forecast.estimate import Forecaster
    from day0.tools.forecast.hardware import catalogue, hardware
    from day0.tools.forecast.knee import point_under
    from day0.tools.forecast.layouts import points, ranked
    from day0.tools.forecast.of_facts import geometry_of, precision_of

    known = geometry_of(model)
    if accelerator not in catalogue() or known is None or not gpus:
        return ()
    geometry, family = known
    every = list(points(geometry, hardware(accelerator), gpus, [precision_of(model)], engine=engine, family=family))
    shapes = {(p.tp, p.dp, p.ep, p.attention_dp, p.speculation): p for p in every}
    rows = []
    for layout in ranked(every, workload, Forecaster()):
        if not layout.fits or layout.knee is None:
            rows.append(f"- {layout.name}: {line(layout.why, 120)}")
            continue
        point = shapes[layout.tp, layout.dp, layout.ep, layout.attention_dp, layout.speculation]
        top = requests_bound(point_under(workload, point, layout.knee.clients)) * workload.output_tokens
        rows.append(
            f"- {layout.name}: {layout.node_output_tok_s:.0f} ({layout.low:.0f} to {layout.high:.0f}), "
            f"{layout.knee.bound_by}; roofline {top:.0f}"
        )
    return tuple(rows)


def beside(view: RunView, most: int) -> str:
    """What was expected of finished experiments beside what was measured, the latest last."""
    done = [a for a in view.attempts if a.status in FINISHED and a.expected_gain is not None and a.parent]
    rows = []
    for attempt in done[-most:] if most else ():
        more = gain(attempt, view.attempt(attempt.parent or ""), view.request, view.node.gpus)
        measured = f"{more:+.1%}" if more is not None else f"none ({attempt.status.value})"
        rows.append(
            f"- {attempt.id} by {line(attempt.proposer, 20)}, {line(attempt.action or 'a change', 60)}: "
            f"expected {attempt.expected_gain:+.1%}, measured {measured}"
        )
    return "\n".join(["# Expected against measured, over the parent", *rows]) if rows else ""


def taught(view: RunView, most: int) -> str:
    """What earlier runs on this build found of each kind of change."""
    rows = [f"- {line(one.told(), 300)}" for one in view.experience[: min(SHOWN, most)]]
    return "\n".join(["# What earlier runs on this engine build measured", *rows]) if rows else ""


def briefly(action: Action) -> str:
    """Which action an answer is about, in a few words."""
    match action:
        case ReadLog():
            return f"read_log {action.attempt}" + (f" with {action.grep}" if action.grep else "")
        case ReadSource():
            return f"read_source {action.attempt} {action.path}:{action.first}"
        case GrepSource():
            return f"grep_source {action.attempt} for {action.text}"
        case SearchUpstream():
            return f"search_upstream {' '.join(action.words)}"
        case Sweep():
            return f"sweep of {', '.join(sorted(action.space))}"
        case _:
            return action.kind
