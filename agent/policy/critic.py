"""A second look at a patch of the LLM's before anything is made of it: one call, at most one objection a step.

Its word is advice to whoever wrote the patch, never a gate: rules, the ladder and a person judge patches. An endpoint
that is away or answers nonsense objects to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from day0.agent.policy.base import LLM, Asked, LLMDown, Message, Usage
from day0.agent.policy.untrusted import fence
from day0.runs.values import Frozen
from pydantic import Field, ValidationError

if TYPE_CHECKING:
    from day0.agent.policy.actions import TryCandidate
    from day0.agent.policy.base import RunView

VERDICT = "judge_patch"
PURPOSE = "critique"
DIFF_CHARS = 12_000


class Objection(Frozen):
    """Say whether the patch is sound, or what is wrong with it in one or two sentences."""

    sound: bool
    reason: str = Field(default="", max_length=1000)


def objection(llm: LLM, prompt: tuple[str, str], action: TryCandidate, view: RunView) -> tuple[str, Usage]:
    """What speaks against a patch, and what asking cost; empty: nothing does. `prompt` is (name, text)."""
    parent = view.attempt(action.parent)
    ended = parent.reason if parent is not None else ""
    text = "\n\n".join(
        (
            f"It shall change attempt {action.parent}, for this reason:",
            fence(action.hypothesis, "hypothesis", 600),
            fence(ended or "it works", "how that attempt ended", 600),
            fence(action.diff, "the patch", DIFF_CHARS),
            f"Answer with one call of {VERDICT}.",
        )
    )
    name, system = prompt
    messages = (Message(role="system", content=system), Message(role="user", content=text))
    try:
        told = llm.ask(Asked(messages=messages, tools=(VERDICT,), purpose=PURPOSE, prompt=name))
    except LLMDown:
        return "", Usage()
    for called, arguments in told.calls:
        if called == VERDICT:
            try:
                found = Objection.model_validate_json(arguments or "{}")
            except ValidationError:
                continue
            return ("" if found.sound else found.reason or "it is not sound"), told.usage
    return "", told.usage
