"""Experiments that lift what holds the leader back: a plateau is named, its cap lifted, and it is measured again (S47).

The diagnosis comes with the boot (`tools/explain.py`). Where it names flags, they are the experiment; where it can only
name ways, those are the axes by which they are tried. A load generator at its limit is nobody's to lift but the
operator's: nothing is proposed, and the attempt says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from day0.agent.policy.axes import Offer, Option
from day0.agent.policy.ideas import Idea

if TYPE_CHECKING:
    from day0.agent.policy.trials import Standing
    from day0.runs.findings import Diagnosis, Limit

PROMISE: dict[Limit, float] = {
    "admission cap": 0.15,
    "kv cap": 0.10,
    "cliff": 0.10,
    "prefill-bound": 0.05,
    "queueing": 0.05,
    "decode-bound": 0.05,
}
"""Guesses, below what is known to pay and above the many small axes: what is shown to hold back comes before them."""
WAYS: dict[Limit, tuple[str, ...]] = {
    "queueing": ("routing", "topology", "replicas"),
    "decode-bound": ("speculation", "kv-dtype", "tuning", "dtype", "attention", "continuous-decode"),
}
SECOND = 0.5
"""of the promise: what comes after the first diagnosis"""


def lifts(now: Standing, offered: Sequence[Offer], *, ways: bool = True) -> Iterator[Idea]:
    """What would lift each of the leader's diagnoses, on top of the leader; nothing that it has already.

    Without `ways` only flags that a diagnosis names: where a search ranks every option of every axis by itself.
    """
    found = now.leader.diagnoses(now.view.request.workloads[0].name)
    for rank, diagnosis in enumerate(found):
        promise = PROMISE.get(diagnosis.name, 0.0) * SECOND**rank
        for axis, option in _experiments(diagnosis, offered):
            if promise and (ways or diagnosis.flags) and not option.set_in(now.leader.candidate):
                why = f"{diagnosis.name}: {diagnosis.evidence}; {diagnosis.experiment}"
                yield Idea(promise, axis, option, why)


def _experiments(diagnosis: Diagnosis, offered: Sequence[Offer]) -> Iterator[tuple[str, Option]]:
    if diagnosis.flags:
        label = ", ".join(f"{name} {value}" for name, value in diagnosis.flags.items())
        (flag, *_) = diagnosis.flags
        axis = next((o.axis.name for o in offered if o.axis.ladder == flag), diagnosis.name)
        yield axis, Option(label, dict(diagnosis.flags))
        return
    for name in WAYS.get(diagnosis.name, ()):
        options = [(o.axis, option) for o in offered if o.axis.name == name for option in o.options]
        yield from ((axis.name, option) for axis, option in options[:1])
