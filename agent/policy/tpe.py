"""A numeric control: Optuna's tree-structured Parzen estimator over the axes that the playbook has.

Each axis is one categorical parameter, `off` among its values. The study is rebuilt from the view on every call, so
that nothing but the ledger is remembered. What fails is told as worth nothing; what the screen turned away, as the
leader's rate times the share of the limit that it kept.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING

from day0.agent.policy.actions import Finish, TryCandidate
from day0.agent.policy.axes import Offer, Option, offers, site_of
from day0.agent.policy.base import Proposal
from day0.agent.policy.decide import worth
from day0.agent.policy.guard import Check, admit, check_flags
from day0.runs.errors import Refused
from day0.runs.facts import FailureClass, LoadPoint, Rung
from day0.runs.schema import FINISHED, Attempt
from day0.runs.workload import Slo

if TYPE_CHECKING:
    from day0.agent.policy.base import RunView
    from optuna import Study
    from optuna.distributions import CategoricalDistribution

OFF = "off"
WORST = 0.0
BETWEEN = " | "
TRIES = 64
STARTUP = 10
"""Random candidates before the estimator has anything to estimate from: Optuna's own default."""
Chosen = dict[str, str]


class Tpe:
    """`batch` candidates a call: the number of free nodes."""

    name = "tpe"

    def __init__(self, seed: int, *, batch: int = 1, check: Check = check_flags) -> None:
        self.seed, self.batch, self.check = seed, batch, check
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)

    def decide(self, view: RunView) -> Proposal:
        """Candidates that were not tried; `Finish` where the estimator finds no new one that may climb."""
        baseline = view.attempt(view.baseline or "")
        if baseline is None or any(a.status not in FINISHED for a in view.attempts):
            return Proposal(proposer=self.name, actions=(), note="waiting for what still climbs")
        options = {o.axis.name: {x.label: x for x in o.options} for o in _usable(view)}
        space = _space(options)
        study = self._study(view, space)
        actions: list[TryCandidate] = []
        seen: set[str] = set()
        for _ in range(TRIES if space else 0):
            trial = study.ask(dict(space))
            action = _action(baseline.id, trial.params, options)
            candidate = admit(action, view, check=self.check)
            if isinstance(candidate, Refused) or candidate.digest() in seen:
                study.tell(trial, WORST)
                continue
            seen.add(candidate.digest())
            actions.append(action)
            if len(actions) == self.batch:
                return Proposal(proposer=self.name, actions=tuple(actions))
        if not actions:
            return Proposal(proposer=self.name, actions=(Finish(reason="the estimator finds nothing new"),))
        return Proposal(proposer=self.name, actions=tuple(actions))

    def _study(self, view: RunView, space: Mapping[str, CategoricalDistribution]) -> Study:
        """Every finished attempt of this policy as a trial, the baseline as the one with everything off."""
        import optuna

        # the sampler's state is not kept either: the same view and seed ask the same
        text = f"{self.seed}:{view.run}:{view.round}:{len(view.attempts)}"
        stream = int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of features that Optuna calls experimental
            sampler = optuna.samplers.TPESampler(seed=stream, n_startup_trials=STARTUP)
            study = optuna.create_study(direction="maximize", sampler=sampler)
        told = []
        for attempt in view.attempts:
            chosen = chosen_in(attempt) if attempt.id != view.baseline else {}
            if attempt.status not in FINISHED or chosen is None:
                continue
            params = {name: chosen.get(name, OFF) for name in space}
            if all(value in space[name].choices for name, value in params.items()):
                value = value_of(attempt, view)
                told.append(optuna.trial.create_trial(params=params, distributions=dict(space), value=value))
        study.add_trials(told)
        return study


def _usable(view: RunView) -> list[Offer]:
    return sorted((o for o in offers(site_of(view)) if o.options), key=lambda o: o.axis.name)


def _space(options: Mapping[str, Mapping[str, Option]]) -> dict[str, CategoricalDistribution]:
    from optuna.distributions import CategoricalDistribution

    return {name: CategoricalDistribution((OFF, *labels)) for name, labels in options.items()}


def _action(parent: str, params: Mapping[str, str], options: Mapping[str, Mapping[str, Option]]) -> TryCandidate:
    chosen = {name: label for name, label in sorted(params.items()) if label != OFF}
    picked = [options[name][label] for name, label in chosen.items()]
    return TryCandidate(
        parent=parent,
        flags={k: v for option in picked for k, v in option.flags.items()},
        env={k: v for option in picked for k, v in option.env.items()},
        axis=BETWEEN.join(f"{name}={label}" for name, label in chosen.items()),
        hypothesis=f"the estimator's choice: {', '.join(chosen) or 'nothing'}"[:600],
        expected_gain=0.0,
    )


def chosen_in(attempt: Attempt) -> Chosen | None:
    """Axis -> option of an attempt that this policy proposed; None: it is somebody else's."""
    if attempt.proposer != Tpe.name:
        return None
    pairs = (part.partition("=") for part in attempt.action.split(BETWEEN) if part)
    return {name: label for name, _, label in pairs}


def value_of(attempt: Attempt, view: RunView) -> float:
    """What an attempt is told to be worth: requests/s at its knee, an estimate from its screen, or nothing."""
    measured = worth(attempt, view.request, view.request.target.gpus or view.node.gpus)
    if measured is not None:
        return measured
    screened = attempt.verdict(Rung.SCREEN)
    if screened is None or screened.failure != FailureClass.NOT_PROMISING:
        return WORST
    points = [p for _, rung, p in attempt.points if rung == Rung.SCREEN and not p.void]
    slo = view.request.workloads[0].slo
    return max((kept_share(p, slo) * (p.rate_rps or 0.0) for p in points), default=WORST)


def kept_share(point: LoadPoint, slo: Slo) -> float:
    """How near a point came to its limits, at most 1: throughput over what was offered, limit over latency."""
    shares = [min(1.0, point.completed / max(1, point.offered))]
    for limit, found, which in (
        (slo.ttft_ms, point.ttft_ms, slo.ttft_percentile),
        (slo.tpot_ms, point.tpot_ms, slo.tpot_percentile),
    ):
        if limit is not None and found is not None:
            shares.append(min(1.0, limit / max(1e-9, float(getattr(found, f"p{which}")))))
    return min(shares)
