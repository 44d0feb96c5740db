"""An LLM as the policy: it sees the context, acts through tools, and is told why where an action can't be taken.

Three tries; then, or when the endpoint is away, the playbook takes the step and the note says so. The LLM leads while
the budget also pays for what the playbook may still want (`turns`); else the playbook takes the step and nobody is
asked. Nothing that an LLM writes becomes a number: its expectations are kept as expectations, measurements come from
the ladder alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from day0.agent.policy import critic, sweeps, turns
from day0.agent.policy.actions import Finish, TryCandidate
from day0.agent.policy.base import LLM, Asked, LLMDown, Message, Proposal, Told, Usage
from day0.agent.policy.calls import TOOLS
from day0.agent.policy.context import BUDGET, build
from day0.agent.policy.decide import PATIENCE
from day0.agent.policy.guard import Check, check_flags
from day0.agent.policy.hearing import Heard, Turn, experiments, said
from day0.agent.policy.playbook import Playbook
from day0.agent.policy.turns import STAND_IN
from day0.agent.policy.untrusted import fence, redact

if TYPE_CHECKING:
    from day0.agent.policy.base import RunView

TRIES = 3
QUESTIONS = 3
ADVICE = 3

__all__ = ["QUESTIONS", "STAND_IN", "TRIES", "LLMPolicy"]


@dataclass
class _Talk:
    """A conversation of one step, and what it cost so far."""

    messages: list[Message]
    usage: Usage = field(default_factory=Usage)
    tries: int = 0
    questions: int = 0
    problems: list[str] = field(default_factory=list)
    objected: bool = False


class LLMPolicy:
    """Proposes what an LLM asks for, as far as the guard lets it; the playbook advises it and stands in for it.

    `prompt` is the system prompt and `version` its file's name; `critic` (name, text) that of the second look at its
    patches. `redact` removes secrets that are known by value, after those known by form.
    """

    name = "llm"

    def __init__(
        self,
        llm: LLM,
        prompt: str,
        *,
        version: str = "",
        critic: tuple[str, str] | None = None,
        batch: int = 1,
        patience: int = PATIENCE,
        check: Check = check_flags,
        redact: Callable[[str], str] = redact,
        budget: int = BUDGET,
    ) -> None:
        self.llm, self.prompt, self.version, self.critic = llm, prompt, version, critic
        self.batch, self.patience, self.check, self.redact, self.budget = batch, patience, check, redact, budget
        self.adviser = Playbook(batch=max(ADVICE, batch), patience=patience, check=check)

    def decide(self, view: RunView) -> Proposal:
        """The LLM's actions for this round, or the playbook's. Never raises `LLMDown`."""
        advised = turns.advice(view, self.adviser.decide, self.check)
        if not advised.actions:
            return advised
        first = advised.actions[0]
        finished = not isinstance(first, TryCandidate)
        promise = first.expected_gain if isinstance(first, TryCandidate) else None
        room = turns.room(view, promise=promise, patience=self.patience)
        if room < 1:
            return self._playbooks(advised, turns.why_none(view, self.patience))
        if (swept := self._swept(view)) is not None:
            return swept
        step = advised.actions[: self.batch]
        turn = Turn(view, step, finished, room, self.batch, self.check, self.patience, self.redact)
        return self._asked(turn, advised)

    def _playbooks(self, advised: Proposal, why: str, usage: Usage | None = None, proposer: str = "") -> Proposal:
        """The playbook's own step."""
        told = f"{why}; the playbook took this step"
        change = {"actions": advised.actions[: self.batch], "note": told, "usage": usage or Usage()}
        return advised.model_copy(update={**change, "proposer": proposer or advised.proposer})

    def _swept(self, view: RunView) -> Proposal | None:
        """The next point of a sweep that the LLM began."""
        running = sweeps.open_sweep(view)
        action = sweeps.following(*running, view, self.check) if running is not None else None
        if running is None or action is None:
            return None
        made = len(sweeps.trials(view, running[0]))
        return Proposal(
            proposer=self.name, actions=(action,), note=f"{running[0]}: point {made + 1} of {running[1].trials}"
        )

    def _asked(self, turn: Turn, advised: Proposal) -> Proposal:
        context = build(turn.view, advised.actions, self.budget, room=turn.room)
        talk = _Talk(
            [Message(role="system", content=self.prompt), Message(role="user", content=self.redact(context))],
        )
        while talk.tries < TRIES:
            try:
                told = self.llm.ask(Asked(messages=tuple(talk.messages), tools=tuple(TOOLS), prompt=self.version))
            except LLMDown as down:
                why = f"the LLM is not reachable ({redact(str(down))[:200]})"
                return self._playbooks(advised, why, talk.usage, STAND_IN)
            talk.usage = _sum(talk.usage, told.usage)
            heard = turn.hear(told)
            self._criticised(heard, turn, talk)
            if (made := self._taken(heard, turn, advised, talk)) is not None:
                return made
            self._again(told, heard, talk)
        why = f"the LLM's answer was no use {TRIES} times ({'; '.join(talk.problems)[:400]})"
        return self._playbooks(advised, why, talk.usage, STAND_IN)

    def _taken(self, heard: Heard, turn: Turn, advised: Proposal, talk: _Talk) -> Proposal | None:
        """The proposal that an answer amounts to; None: none."""
        note = "refused beside it: " + "; ".join(heard.problems) if heard.problems else ""
        if heard.actions:
            whose = self.name if heard.own else advised.proposer
            note = note or ("" if heard.own else "the LLM follows the playbook")
            return Proposal(proposer=whose, actions=tuple(heard.actions), note=note[:1000], usage=talk.usage)
        if heard.finish and not turn.finished:
            return self._playbooks(advised, f"the LLM would finish ({heard.finish[:200]})", talk.usage)
        if heard.finish:
            done = Finish(reason=heard.finish[:600])
            return Proposal(proposer=self.name, actions=(done,), note=note[:1000], usage=talk.usage)
        return None

    def _criticised(self, heard: Heard, turn: Turn, talk: _Talk) -> None:
        """A patch that the critic objects to goes back once, with its reason; one patch is looked at in a step."""
        patches = [a for a in experiments(heard.actions) if a.diff]
        if self.critic is None or not patches or talk.objected:
            return
        first, talk.objected = patches[0], True
        against, cost = critic.objection(self.llm, self.critic, first, turn.view)
        talk.usage = _sum(talk.usage, cost)
        if against:
            heard.actions.remove(first)
            heard.own, heard.tried = heard.own - 1, heard.tried - 1
            heard.problems.append(f"a second look at the patch says: {against}; mend it, or send it again as it is")

    def _again(self, told: Told, heard: Heard, talk: _Talk) -> None:
        """Tells what was wrong, or answers what was asked, and counts it."""
        if heard.texts and talk.questions < QUESTIONS:
            talk.questions += 1
        else:
            talk.tries += 1
            if told.cut_off:
                heard.problems.append("the answer was cut off at the limit of tokens: make fewer and shorter calls")
            talk.problems = heard.problems or ["the answer had no tool call"]
        talk.messages += [
            Message(role="assistant", content=self.redact(said(told))),
            Message(role="user", content=self._reply(heard)),
        ]

    def _reply(self, heard: Heard) -> str:
        parts = list(heard.texts)
        if heard.problems:
            parts.append("Refused:\n" + "\n".join(f"- {fence(p, 'reason', 400)}" for p in heard.problems[:6]))
        if not parts:
            parts.append("There was no tool call in this answer.")
        parts.append(f"Call one of the tools now: {', '.join(TOOLS)}.")
        return self.redact("\n\n".join(parts))


def _sum(one: Usage, two: Usage) -> Usage:
    return Usage(
        calls=one.calls + two.calls,
        prompt_tokens=one.prompt_tokens + two.prompt_tokens,
        completion_tokens=one.completion_tokens + two.completion_tokens,
        usd=one.usd + two.usd,
    )
