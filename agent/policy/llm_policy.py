"""An LLM as the policy: it sees the context, acts through tools, and is told why where an action can't be taken.

Three tries; then, or when the endpoint is away, the playbook takes the step and the note says so. Nothing that an
LLM writes becomes a number: its expectations are kept as expectations, measurements come from the ladder alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from day0.agent.policy.actions import Action, Finish, TryCandidate
from day0.agent.policy.base import LLM, Asked, LLMDown, Message, Proposal, Told, Usage
from day0.agent.policy.calls import TOOLS, ReadHelp, parse
from day0.agent.policy.context import BUDGET, build, help_text
from day0.agent.policy.decide import PATIENCE
from day0.agent.policy.guard import Check, admit, check_flags
from day0.agent.policy.playbook import Playbook
from day0.agent.policy.untrusted import cut, fence, redact
from day0.runs.errors import Refused

if TYPE_CHECKING:
    from day0.agent.policy.base import RunView

TRIES = 3
QUESTIONS = 3
STAND_IN = "stand-in"
"""Proposer of what the playbook tried in the LLM's place; such attempts never count as "no improvement"."""


@dataclass
class _Heard:
    """What one answer amounts to."""

    actions: list[Action] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    help: list[str] = field(default_factory=list)


class LLMPolicy:
    """Proposes what an LLM asks for, as far as the guard lets it; the playbook advises it and stands in for it.

    `prompt` is the system prompt; `redact` removes secrets that are known by value, after those known by form.
    """

    name = "llm"

    def __init__(
        self,
        llm: LLM,
        prompt: str,
        *,
        batch: int = 1,
        patience: int = PATIENCE,
        check: Check = check_flags,
        redact: Callable[[str], str] = redact,
        budget: int = BUDGET,
    ) -> None:
        self.llm, self.prompt, self.batch, self.check, self.redact, self.budget = (
            llm,
            prompt,
            batch,
            check,
            redact,
            budget,
        )
        self.adviser = Playbook(batch=max(3, batch), patience=patience, check=check)
        self.stand_in = Playbook(batch=batch, patience=patience, check=check)

    def decide(self, view: RunView) -> Proposal:
        """The LLM's actions for this round. Never raises `LLMDown`."""
        advised = self.adviser.decide(view)
        if not advised.actions:
            return advised
        messages = [
            Message(role="system", content=self.prompt),
            Message(role="user", content=self.redact(build(view, advised.actions, self.budget))),
        ]
        usage, tries, questions = Usage(), 0, 0
        problems: list[str] = []
        while tries < TRIES:
            try:
                told = self.llm.ask(Asked(messages=tuple(messages), tools=tuple(TOOLS)))
            except LLMDown as down:
                return self._stand_in(view, usage, f"the LLM is not reachable ({redact(str(down))[:200]})")
            usage = _sum(usage, told.usage)
            heard = self._hear(told, view)
            if heard.actions:
                note = "refused beside it: " + "; ".join(heard.problems) if heard.problems else ""
                return Proposal(proposer=self.name, actions=tuple(heard.actions), note=note[:1000], usage=usage)
            if heard.help and questions < QUESTIONS:
                questions += 1
            else:
                tries += 1
                problems = heard.problems or ["the answer had no tool call"]
            messages += [
                Message(role="assistant", content=_said(told)),
                Message(role="user", content=self._reply(heard)),
            ]
        return self._stand_in(view, usage, f"the LLM's answer was no use {TRIES} times ({'; '.join(problems)[:400]})")

    def _hear(self, told: Told, view: RunView) -> _Heard:
        heard, seen = _Heard(), set[str]()
        for name, arguments in told.calls[:16]:
            try:
                call = parse(name, arguments)
            except Refused as refused:
                heard.problems.append(refused.reason)
                continue
            if isinstance(call, ReadHelp):
                heard.help.append(help_text(view, call.word))
            elif reason := self._against(call, view, seen):
                heard.problems.append(reason)
            elif len(heard.actions) < self.batch:
                heard.actions.append(_plain(call, self.redact))
        return heard

    def _against(self, call: Action, view: RunView, seen: set[str]) -> str:
        if isinstance(call, Finish):
            measured = len(view.attempts) > 1 or view.attempts_left <= 0
            return (
                "" if measured else "nothing beside the baseline was tried; finish is for when nothing promises a gain"
            )
        if not isinstance(call, TryCandidate):
            return "" if view.attempt(call.attempt) else f"there is no attempt {call.attempt[:60]!r}"
        candidate = admit(call, view, check=self.check)
        if isinstance(candidate, Refused):
            return candidate.reason
        crafted = f"{call.codemods} {call.diff} {call.tune}" if call.crafted else ""
        if candidate.digest() + crafted in seen:
            return "the same candidate twice in one answer"
        seen.add(candidate.digest() + crafted)
        return ""

    def _reply(self, heard: _Heard) -> str:
        parts = list(heard.help)
        if heard.problems:
            parts.append("Refused:\n" + "\n".join(f"- {fence(p, 'reason', 400)}" for p in heard.problems[:6]))
        if not parts:
            parts.append("There was no tool call in this answer.")
        parts.append(f"Call one of the tools now: {', '.join(TOOLS)}.")
        return self.redact("\n\n".join(parts))

    def _stand_in(self, view: RunView, usage: Usage, why: str) -> Proposal:
        proposal = self.stand_in.decide(view)
        note = f"{why}; the playbook took this step"
        return proposal.model_copy(update={"proposer": STAND_IN, "note": note, "usage": usage})


def _plain(action: Action, hide: Callable[[str], str]) -> Action:
    """The action with its free text stripped of secrets."""
    if isinstance(action, TryCandidate):
        return action.model_copy(update={"hypothesis": hide(action.hypothesis), "axis": hide(action.axis)[:80]})
    if isinstance(action, Finish):
        return action.model_copy(update={"reason": hide(action.reason)})
    return action


def _said(told: Told) -> str:
    """What the LLM answered, as it is put back before it."""
    calls = "\n".join(f"{name}({cut(arguments, 1000)})" for name, arguments in told.calls[:8])
    return cut("\n".join(part for part in (told.text, calls) if part) or "(nothing)", 4000)


def _sum(one: Usage, two: Usage) -> Usage:
    return Usage(
        calls=one.calls + two.calls,
        prompt_tokens=one.prompt_tokens + two.prompt_tokens,
        completion_tokens=one.completion_tokens + two.completion_tokens,
        usd=one.usd + two.usd,
    )
