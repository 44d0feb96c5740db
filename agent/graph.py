"""The loop as a LangGraph graph: wiring only.

Its state is the run and the round. Every node reads the ledger first and ends with a transaction; edges decide from
the ledger; so the checkpoints only spare a resumed run the nodes that are already behind it, and a run whose
checkpoints are lost ends the same.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypedDict

from day0.agent import ablating, closing, crafting, floor, minimising, steps, story
from day0.agent.parts import Parts

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.graph.state import CompiledStateGraph

Body = Callable[[Parts, str], None]
BODIES: dict[str, Body] = {
    "survey": steps.survey,
    "propose": steps.propose,
    "admit": steps.admit,
    "craft": crafting.craft_some,
    "climb": steps.climb_some,
    "floor": floor.measure,
    "decide": steps.decide_some,
    "confirm": closing.confirm_all,
    "replay": closing.replay_all,
    "minimise": minimising.minimise_all,
    "ablate": ablating.ablate_all,
    "report": closing.report,
}
CLOSING = frozenset({"confirm", "replay", "minimise", "ablate", "report"})
MOST_STEPS = 100_000


class State(TypedDict):
    """All that a checkpoint holds."""

    run_id: str
    round: int


def build(parts: Parts | None, saver: BaseCheckpointSaver[str] | None = None) -> CompiledStateGraph[Any, Any, Any, Any]:
    """The compiled graph; without `parts` it can only be drawn."""
    from langgraph.graph import END, START, StateGraph

    def node(body: Body) -> Any:
        def run(state: State) -> State:
            assert parts is not None
            body(parts, state["run_id"])
            return {"run_id": state["run_id"], "round": parts.ledger.run(state["run_id"]).round}

        return run

    def more(state: State) -> str:
        assert parts is not None
        if not story.search_ended(parts.ledger, state["run_id"]):
            return "propose"
        return "floor" if floor.due(parts, state["run_id"]) else "confirm"

    graph = StateGraph(State)
    for name, body in BODIES.items():
        graph.add_node(name, node(body))
    graph.add_edge(START, "survey")
    for before, after in itertools.pairwise(("survey", "propose", "admit", "craft", "climb", "floor", "decide")):
        graph.add_edge(before, after)
    graph.add_conditional_edges("decide", more, ["propose", "floor", "confirm"])
    for before, after in itertools.pairwise(("confirm", "replay", "minimise", "ablate", "report", END)):
        graph.add_edge(before, after)
    return graph.compile(checkpointer=saver)


def drive(parts: Parts, run_id: str, saver: BaseCheckpointSaver[str]) -> None:
    """Runs the graph to its end, from the last checkpoint where there is an unfinished one.

    A checkpoint that is ahead of the ledger (which was replaced, or was told to search on) is not believed.
    """
    graph = build(parts, saver)
    config: Any = {"configurable": {"thread_id": run_id}, "recursion_limit": MOST_STEPS}
    ahead = set(graph.get_state(config).next)
    surveyed = parts.ledger.run(run_id).baseline is not None
    closing_ = story.search_ended(parts.ledger, run_id) is not None
    believed = surveyed and (closing_ or not ahead & CLOSING)
    start = None if ahead and believed else State(run_id=run_id, round=0)
    graph.invoke(start, config, durability="sync")


def graph_picture() -> str:
    """The graph as Mermaid text, drawn from the graph that runs."""
    return build(None).get_graph().draw_mermaid()
