"""Controls that a policy has to beat: nothing at all, and chance over the same axes."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from day0.agent.policy.actions import Finish, TryCandidate
from day0.agent.policy.axes import Offer, Option, offers, site_of
from day0.agent.policy.base import Proposal
from day0.agent.policy.guard import Check, admit, check_flags
from day0.runs.errors import Refused
from day0.runs.schema import FINISHED

if TYPE_CHECKING:
    from day0.agent.policy.base import RunView

TRIES = 64


class Default:
    """The engine's defaults and nothing else."""

    name = "default"

    def decide(self, view: RunView) -> Proposal:
        """Finishes at once."""
        if any(a.status not in FINISHED for a in view.attempts):
            return Proposal(proposer=self.name, actions=(), note="waiting for the baseline")
        return Proposal(proposer=self.name, actions=(Finish(reason="the engine's defaults were asked for"),))


class Random:
    """One to four axes drawn at random on top of the baseline; keeps drawing until the budget is spent."""

    name = "random"

    def __init__(self, seed: int, *, batch: int = 1, check: Check = check_flags) -> None:
        self.seed, self.batch, self.check = seed, batch, check

    def decide(self, view: RunView) -> Proposal:
        """Candidates that were not tried; `Finish` where chance finds no new one."""
        if view.baseline is None:
            return Proposal(proposer=self.name, actions=(), note="waiting for the baseline")
        # the state of the run is the stream: the same view and seed draw the same
        dice = random.Random(f"{self.seed}:{view.run}:{view.round}:{len(view.attempts)}")
        usable = [o for o in offers(site_of(view)) if o.options]
        actions: list[TryCandidate] = []
        seen: set[str] = set()
        for _ in range(TRIES if usable else 0):
            action = self._draw(dice, usable, view.baseline)
            candidate = admit(action, view, check=self.check)
            if isinstance(candidate, Refused) or candidate.digest() in seen:
                continue
            seen.add(candidate.digest())
            actions.append(action)
            if len(actions) == self.batch:
                break
        if not actions:
            return Proposal(proposer=self.name, actions=(Finish(reason="chance finds nothing new"),))
        return Proposal(proposer=self.name, actions=tuple(actions))

    def _draw(self, dice: random.Random, usable: list[Offer], parent: str) -> TryCandidate:
        chosen = sorted(dice.sample(usable, k=dice.randint(1, min(4, len(usable)))), key=lambda o: o.axis.name)
        options: list[Option] = [dice.choice(one.options) for one in chosen]
        return TryCandidate(
            parent=parent,
            flags={k: v for option in options for k, v in option.flags.items()},
            env={k: v for option in options for k, v in option.env.items()},
            axis="+".join(one.axis.name for one in chosen),
            hypothesis="drawn at random: " + " + ".join(option.label for option in options),
            expected_gain=0.0,
        )
