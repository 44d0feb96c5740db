"""Answers to a policy's questions in the arena, as `day0.agent.answering` gives them in a run: from the book."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from day0.agent import answering
from day0.agent.inputs import SERVER_LOG
from day0.agent.lease import Facts
from day0.agent.policy import sweeps
from day0.agent.policy.actions import GrepSource, Question, ReadLog, ReadSource, SearchUpstream, Sweep
from day0.agent.policy.base import RunView
from day0.runs.errors import CandidateFailed, Refused
from day0.runs.facts import ArtifactKept
from day0.sandboxes.twin.node import TwinNode

if TYPE_CHECKING:
    from day0.agent.evaluation.arena import Arena


def answer(arena: Arena, action: Question | Sweep, seen: RunView) -> str | Refused:
    """The text of an answer, or why there is none. Raises `Infrastructure`."""
    match action:
        case Sweep():
            reason = sweeps.against(action, seen, partial(arena.engine.check, model=seen.model))
            return Refused(reason) if reason else answering.BEGUN
        case ReadLog():
            data = arena.book.files.get((action.attempt, SERVER_LOG))
            return f"no log of {action.attempt} is kept" if data is None else answering.excerpt(data, action)
        case SearchUpstream():
            return "upstream is not asked about a simulated node"
        case _:
            return _source(arena, action)


def _source(arena: Arena, action: ReadSource | GrepSource) -> str | Refused:
    attempt = next((a for a in arena.book.attempts() if a.id == action.attempt), None)
    if attempt is None:
        return Refused(f"there is no attempt {action.attempt!r}")
    made: list[bytes] = []

    def look(node: TwinNode) -> Facts:
        for fact in answering.look_up(
            node, action=action, candidate=attempt.candidate, patches=arena.book.patches, at=arena.at, key="look"
        ):
            if isinstance(fact, ArtifactKept):
                made.append(fact.data)
            yield fact

    try:
        arena.insist("look", look)
    except (Refused, CandidateFailed) as error:
        return Refused(str(error))
    return made[-1].decode()
