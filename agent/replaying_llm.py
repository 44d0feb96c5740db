"""`day0 replay-llm`: a run's LLM policy once more on the recorded answers, round by round. Nothing is asked or started.

The view of each round is taken from the ledger as it stood before that round's proposal; the answers are those that
were recorded. So a changed policy, guard or prompt shows what it would have made of the same conversation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from day0.agent import view as view_
from day0.agent.policy.actions import Action, TryCandidate
from day0.agent.policy.base import Asked, LLMDown, Proposal, RunView, Told, Usage
from day0.agent.policy.context_facts import briefly
from day0.agent.printing import say, say_json, short, table
from day0.agent.settings import Settings
from day0.agent.sources import opened
from day0.runs.errors import UserError
from day0.runs.gained import Taught
from day0.runs.ledger import Ledger
from day0.runs.schema import Attempt, Event, Run


class RecordedLLM:
    """Answers as they were recorded, in order; what is asked beyond them, or failed then, is an `LLMDown`."""

    def __init__(self, calls: Iterable[Mapping[str, Any]]) -> None:
        self._left = list(calls)
        self.asked: list[tuple[Asked, Mapping[str, Any] | None]] = []

    def ask(self, asked: Asked) -> Told:
        """The next recorded answer."""
        call = self._left.pop(0) if self._left else None
        self.asked.append((asked, call))
        if call is None:
            raise LLMDown("no further answer was recorded in this round")
        if call.get("error"):
            raise LLMDown(str(call["error"]))
        return Told(
            text=call["text"],
            calls=tuple((str(name), str(text)) for name, text in call["calls"]),
            usage=Usage.model_validate(call["usage"]),
            model=call["model"],
        )

    @property
    def same(self) -> bool:
        """Whether everything was asked as it was then."""
        return not self._left and all(c is not None and _alike(asked, c) for asked, c in self.asked)


def _alike(asked: Asked, call: Mapping[str, Any]) -> bool:
    from day0.agent.llm import KEPT_CHARS
    from day0.agent.policy.untrusted import cut, redact

    now = [[m.role, cut(redact(m.content), KEPT_CHARS)] for m in asked.messages]
    return now == [list(m) for m in call["messages"]]


def replay(run_id: str, prompt: str, *, as_json: bool) -> None:
    """Prints each round as it was and as it would be now. Raises `UserError` for a run without recorded answers."""
    with opened() as (settings, ledger):
        rows = list(rounds(ledger, ledger.run(run_id), settings, prompt))
    if not rows:
        raise UserError(f"run {run_id} asked no LLM: there is nothing to replay")
    differ = sum(1 for row in rows if row["then"] != row["now"])
    if as_json:
        say_json({"run": run_id, "prompt": prompt, "rounds": rows, "differ": differ})
        return
    columns = ("round", "calls", "prompt", "asked the same", "then", "now")
    cells = (
        (
            r["round"], r["calls"], r["prompt"], "yes" if r["same_question"] else "no", r["then"],
            "the same" if r["now"] == r["then"] else r["now"],
        )
        for r in rows
    )  # fmt: skip
    table("recorded answers, once more", columns, cells)
    say(f"{differ} of {len(rows)} rounds would be decided otherwise now")


def rounds(ledger: Ledger, run: Run, settings: Settings, prompt: str = "") -> Iterable[dict[str, Any]]:
    """Each round in which the LLM was asked: what was proposed then, and what is now."""
    from day0.agent import compose, prompts
    from day0.agent.policy.llm_policy import LLMPolicy
    from day0.sandboxes.redact import Redactor

    calls: dict[int, list[dict[str, Any]]] = {}
    for call in ledger.llm_calls(run.id):
        calls.setdefault(int(call["round"]), []).append(call)
    if not calls:
        return
    check, story = compose.engine(run.request.target.engine).check, _Story.of(ledger, run, settings)
    for event in ledger.facts(run.id, "proposed"):
        number = int(event.data["round"])
        if number not in calls:
            continue
        recorded = calls[number]
        named = prompt or str(recorded[0].get("prompt") or prompts.PLAN)
        critic = (prompts.CRITIC, prompts.load(prompts.CRITIC))
        llm = RecordedLLM(recorded)
        seen = story.before(event)
        policy = LLMPolicy(
            llm, prompts.load(named), version=named, critic=critic, batch=int(event.data.get("batch", 1)), check=check,
            redact=Redactor(settings.secrets),
        )  # fmt: skip
        now = policy.decide(seen)
        then = Proposal.model_validate(event.data["proposal"])
        yield {
            "round": number,
            "calls": len(recorded),
            "prompt": named,
            "same_question": llm.same,
            "then": told(then),
            "now": told(now),
            "note": now.note,
        }


def told(proposal: Proposal) -> str:
    """A proposal in one line."""
    return f"{proposal.proposer}: " + "; ".join(_told(a) for a in proposal.actions)


def _told(action: Action) -> str:
    if not isinstance(action, TryCandidate):
        return briefly(action)
    changes = {**action.flags, **action.env}
    made = [*action.codemods, *["a diff"] * bool(action.diff), *["tuned kernels"] * action.tune]
    return f"{short(action.parent)}: " + ", ".join([*(f"{k}={v}" for k, v in changes.items()), *made])


@dataclass(frozen=True)
class _Story:
    """A run as the ledger has it, read once."""

    now: RunView
    attempts: tuple[Attempt, ...]
    events: tuple[Event, ...]

    @classmethod
    def of(cls, ledger: Ledger, run: Run, settings: Settings) -> _Story:
        """Raises `Infrastructure` before the run's survey is in the ledger."""
        attempts = ledger.attempts(run.id)
        base = next(a for a in attempts if a.id == run.baseline)
        node = next(a.node for a in attempts if a.node)
        now = view_.view(ledger, run, build=base.candidate.build, node=str(node), images=_images(run, settings))
        return cls(now, attempts, tuple(ledger.events(run.id, limit=1_000_000)))

    def before(self, event: Event) -> RunView:
        """The view of the run as it was just before an event."""
        earlier = [e for e in self.events if e.number < event.number]
        known = {e.attempt for e in earlier if e.attempt}
        made = {str(d) for e in earlier if e.kind == "crafted" for d in e.data.get("made", ())}
        leaders = [str(e.data["attempt"]) for e in earlier if e.kind == "leader"]
        seen, now = event.data.get("seen", {}), self.now
        return now.model_copy(
            update={
                "round": int(event.data["round"]) - 1,
                "attempts": tuple(a for a in self.attempts if a.id in known),
                "leader": leaders[-1] if leaders else None,
                "answers": now.answers[: sum(e.kind == "answer" for e in earlier)],
                "boots": {k: v for k, v in now.boots.items() if k in known},
                "patches": {k: v for k, v in now.patches.items() if k in made},
                "tables": {k: v for k, v in now.tables.items() if k in made},
                "experience": tuple(Taught.model_validate(one) for one in seen.get("experience", ())),
                **{key: seen[key] for key in ("noise", "budget_left_s", "attempts_left") if key in seen},
            }
        )


def _images(run: Run, settings: Settings) -> Mapping[str, str]:
    from day0.agent import compose
    from day0.runs.errors import Day0Error

    try:
        return compose.environments_of(run.request.target, settings).images
    except Day0Error:
        return {}  # another machine: what was there then is not known here


__all__ = ["RecordedLLM", "replay", "rounds", "told"]
