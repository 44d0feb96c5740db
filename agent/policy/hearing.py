"""What one answer of an LLM amounts to: actions that may be taken, texts to give back at once, and what is wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from day0.agent.policy import sweeps, turns
from day0.agent.policy.actions import Action, Finish, Question, SearchUpstream, Sweep, TryCandidate
from day0.agent.policy.calls import actions_of, parse
from day0.agent.policy.context import help_text
from day0.agent.policy.guard import Check, admit
from day0.agent.policy.known_text import known_text
from day0.agent.policy.tools import AtOnce, ReadHelp
from day0.agent.policy.untrusted import cut
from day0.runs.errors import Refused

if TYPE_CHECKING:
    from day0.agent.policy.base import RunView, Told
    from day0.runs.candidate import Candidate

MOST_CALLS = 16
MADE_IN_VAIN = 2
"""rounds in a row that asked for something which could not be made, after which something else is due"""
ROUNDS_OF_QUESTIONS = 6
"""in a row, after which an experiment is due"""


@dataclass
class Heard:
    """What one answer amounts to. `own` counts what the playbook would not do now, `tried` the experiments of them."""

    actions: list[Action] = field(default_factory=list)
    own: int = 0
    tried: int = 0
    finish: str = ""
    problems: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Turn:
    """One step: what is seen, what the playbook would do now, how many own ideas there is room for."""

    view: RunView
    step: tuple[Action, ...]
    finished: bool
    room: int
    batch: int
    check: Check
    patience: int
    hide: Callable[[str], str]

    def hear(self, told: Told) -> Heard:
        """Every call of an answer, the first of them first."""
        heard, seen = Heard(), set[str]()
        followed = {key for a in self.step if (key := self._key(a))}
        for name, arguments in told.calls[:MOST_CALLS]:
            try:
                call = parse(name, arguments)
                if isinstance(call, AtOnce):
                    text = help_text(self.view, call.word) if isinstance(call, ReadHelp) else ""
                    heard.texts.append(text or known_text(self.view, str(getattr(call, "text", ""))))
                    continue
                for action in actions_of(call, self.view):
                    self._take(action, heard, seen, followed)
            except Refused as refused:
                heard.problems.append(refused.reason)
        return heard

    def _take(self, action: Action, heard: Heard, seen: set[str], followed: set[str]) -> None:
        """Raises `Refused` with the reason against it."""
        if isinstance(action, Finish):
            if len(self.view.attempts) <= 1 and self.view.attempts_left > 0:
                raise Refused("nothing beside the baseline was tried; finish is for when nothing promises a gain")
            heard.finish = self.hide(action.reason)
            return
        if isinstance(action, Question):
            self._askable(action)
            heard.actions.append(action)
            heard.own += 1
            return
        key = self._key(action)
        if key in seen:
            raise Refused("the same candidate twice in one answer")
        seen.add(key)
        own = key not in followed
        experiments = [a for a in heard.actions if isinstance(a, TryCandidate | Sweep)]
        if len(experiments) >= self.batch:
            return
        if own:
            self._affordable(action, heard.tried)
        heard.own, heard.tried = heard.own + own, heard.tried + own
        heard.actions.append(_plain(action, self.hide))

    def _key(self, action: Action) -> str:
        """What makes two experiments the same. Raises `Refused` where it may not climb."""
        if isinstance(action, Sweep):
            if reason := sweeps.against(action, self.view, self.check):
                raise Refused(f"sweep: {reason}")
            return action.digest()
        if not isinstance(action, TryCandidate):
            return ""
        found: Candidate | Refused = admit(action, self.view, check=self.check)
        if isinstance(found, Refused):
            raise found
        return found.digest() + (f"{action.codemods} {action.diff} {action.tune}" if action.crafted else "")

    def _affordable(self, action: TryCandidate | Sweep, others: int) -> None:
        if others >= self.room:
            reason = turns.why_none(self.view, self.patience)
            raise Refused(f"no room for an idea of your own: {reason}; follow the first advice")
        if isinstance(action, TryCandidate) and action.crafted and (row := _in_vain(self.view)) >= MADE_IN_VAIN:
            raise Refused(f"{row} rounds in a row asked for what could not be made; try something that exists first")
        if isinstance(action, TryCandidate) and action.tune and not self.finished:
            needs = turns.needed(self.view, self.patience)
            if turns.spare_s(self.view, needs) < turns.TUNE_S:
                raise Refused(
                    "tuning may take three hours; the budget does not pay for that beside the playbook's plan"
                )

    def _askable(self, action: Question) -> None:
        if not isinstance(action, SearchUpstream) and self.view.attempt(action.attempt) is None:
            raise Refused(f"there is no attempt {action.attempt[:60]!r}")
        known = next((a for a in self.view.answers if a.action == action and not a.refused), None)
        if known is not None:
            raise Refused(f"that was answered in round {known.round}: look there, or ask for something else")
        row = _row({a.round for a in self.view.answers if isinstance(a.action, Question)}, self.view)
        if row >= ROUNDS_OF_QUESTIONS:
            raise Refused(f"{row} rounds in a row only asked; try something now")


def _row(rounds: set[int], view: RunView) -> int:
    """How many of these rounds are the last ones, without a gap."""
    row = 0
    while view.round - row in rounds:
        row += 1
    return row


def _in_vain(view: RunView) -> int:
    """Rounds in a row whose patch, image or table could not be made."""
    made = [a for a in view.answers if a.refused and isinstance(a.action, TryCandidate) and a.action.crafted]
    return _row({a.round for a in made}, view)


def _plain(action: TryCandidate | Sweep, hide: Callable[[str], str]) -> Action:
    """The action with its free text stripped of secrets."""
    if isinstance(action, TryCandidate):
        return action.model_copy(update={"hypothesis": hide(action.hypothesis), "axis": hide(action.axis)[:80]})
    return action.model_copy(update={"hypothesis": hide(action.hypothesis)})


def said(told: Told) -> str:
    """What the LLM answered, as it is put back before it."""
    calls = "\n".join(f"{name}({cut(arguments, 1000)})" for name, arguments in told.calls[:8])
    return cut("\n".join(part for part in (told.text, calls) if part) or "(nothing)", 4000)


def experiments(actions: Sequence[Action]) -> list[TryCandidate]:
    """The actions that would climb."""
    return [a for a in actions if isinstance(a, TryCandidate)]
