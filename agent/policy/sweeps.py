"""A numeric subspace handed to a sampler: Optuna's TPE over the attempts that a sweep made so far.

A sweep stands in the ledger as the answer to the action that began it; its trials are attempts whose axis names it.
The study is rebuilt from them at each step, so that nothing but the ledger is remembered.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from day0.agent.policy.actions import Sweep, TryCandidate
from day0.agent.policy.guard import Check, admit
from day0.agent.policy.tpe import WORST, value_of
from day0.runs.errors import Refused
from day0.runs.schema import Attempt, AttemptStatus
from day0.runs.workload import FlagValue

if TYPE_CHECKING:
    from day0.agent.policy.base import RunView
    from optuna import Study
    from optuna.distributions import BaseDistribution

STARTUP = 3
"""points at random before the estimator has anything to estimate from: a sweep has few"""
ASKED = 32
"""points of the study that may turn out tried or not allowed before a sweep is given up"""
TRIED = ("the same candidate", "changes nothing")
"""what the guard says of a corner that was tried: no reason against the space between"""
MOST_FAILED = 3
"""trials in a row that don't work, after which the space is no place to look further"""


def axis_of(round_: int, number: int = 0) -> str:
    """What the attempts of a sweep have as their axis; `number` where one round began several."""
    return f"sweep {round_}" + (f".{number}" if number else "")


def begun(view: RunView) -> Iterator[tuple[str, Sweep]]:
    """Every sweep of the run that was admitted, in order, by the axis of its attempts."""
    seen: dict[int, int] = {}
    for answer in view.answers:
        if isinstance(answer.action, Sweep) and not answer.refused:
            number = seen.get(answer.round, 0)
            seen[answer.round] = number + 1
            yield axis_of(answer.round, number), answer.action


def open_sweep(view: RunView) -> tuple[str, Sweep] | None:
    """The last sweep, if it still has trials to spend; None: there is none."""
    last = next(iter(reversed(list(begun(view)))), None)
    if last is None:
        return None
    made = trials(view, last[0])
    failed = [a.status == AttemptStatus.FAILED for a in made[-MOST_FAILED:]]
    return last if len(made) < last[1].trials and not (len(failed) == MOST_FAILED and all(failed)) else None


def trials(view: RunView, axis: str) -> list[Attempt]:
    """The attempts of a sweep."""
    return [a for a in view.attempts if a.action == axis]


def against(sweep: Sweep, view: RunView, check: Check) -> str:
    """Why a sweep can't begin; empty: it can. Its corners must be candidates that the guard would let climb."""
    if view.attempt(sweep.parent) is None:
        return f"there is no attempt {sweep.parent[:60]!r} to change"
    if sweep.trials > view.attempts_left:
        return f"{view.attempts_left} attempts are left; the sweep wants {sweep.trials}"
    for corner in (0, 1):
        flags: dict[str, FlagValue] = {n: _number(sweep, n, bounds[corner]) for n, bounds in sweep.space.items()}
        found = admit(_action(sweep, flags, ""), view, check=check)
        tried = isinstance(found, Refused) and any(word in found.reason for word in TRIED)
        if isinstance(found, Refused) and not tried:
            return f"its {('lowest', 'highest')[corner]} values are refused: {found.reason}"
    return ""


def following(axis: str, sweep: Sweep, view: RunView, check: Check) -> TryCandidate | None:
    """The next point of a sweep; None: the sampler finds none that may climb."""
    study, space = _study(axis, sweep, view)
    for _ in range(ASKED):
        trial = study.ask(space)
        flags: dict[str, FlagValue] = {name: _number(sweep, name, value) for name, value in trial.params.items()}
        action = _action(sweep, flags, axis)
        if not isinstance(admit(action, view, check=check), Refused):
            return action
        study.tell(trial, WORST)
    return None


def _study(axis: str, sweep: Sweep, view: RunView) -> tuple[Study, dict[str, BaseDistribution]]:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    space = _space(sweep)
    made = trials(view, axis)
    stream = int.from_bytes(hashlib.sha256(f"{view.request.seed}:{axis}:{len(made)}".encode()).digest()[:4], "big")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of features that Optuna calls experimental
        study = optuna.create_study(
            direction="maximize", sampler=optuna.samplers.TPESampler(seed=stream, n_startup_trials=STARTUP)
        )
    for attempt in made:
        params: dict[str, Any] = {n: attempt.candidate.flags.get(n) for n in space}
        if all(isinstance(v, int | float) for v in params.values()):
            study.add_trial(
                optuna.trial.create_trial(params=params, distributions=space, value=value_of(attempt, view))
            )
    return study, space


def _space(sweep: Sweep) -> dict[str, BaseDistribution]:
    from optuna.distributions import FloatDistribution, IntDistribution

    out: dict[str, BaseDistribution] = {}
    for name, (low, high) in sorted(sweep.space.items()):
        wide = low > 0 and high / low >= 8
        if name in sweep.whole:
            out[name] = IntDistribution(int(low), max(int(low), int(high)), log=wide and low >= 1)
        else:
            out[name] = FloatDistribution(low, high, log=wide)
    return out


def _number(sweep: Sweep, name: str, value: float) -> int | float:
    return int(value) if name in sweep.whole else round(float(value), 4)


def _action(sweep: Sweep, flags: Mapping[str, FlagValue], axis: str) -> TryCandidate:
    told = ", ".join(f"{name} {value}" for name, value in sorted(flags.items()))
    return TryCandidate(
        parent=sweep.parent,
        flags=dict(flags),
        axis=axis,
        hypothesis=f"{told}: {sweep.hypothesis}"[:600],
        expected_gain=sweep.expected_gain,
    )
