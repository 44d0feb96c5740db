"""How likely a candidate works: each setting may be at fault, and every attempt shifts the blame.

A candidate works when none of its settings is broken (noisy or). A success clears its settings; a failure is shared
out among the settings it has, each by how suspect it was and by how well it fits the class of the failure. So a bundle
that fails leads to its likeliest culprit first, and a lone new setting that fails is not tried again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field

from day0.agent.policy.belief import Belief
from day0.agent.policy.seen import Seen
from day0.agent.policy.settings import DEPTH, SAFE_REDUCE, SPECULATION, TUNED, UNSAFE, Settings, name_of
from day0.runs.facts import FailureClass

PLAIN = 0.02
"""any setting that the engine's own --help offers"""
CLEARED, ANSWERED = 0.003, 0.3
"""what a measured success leaves of a suspicion; the share that an answer without a measurement leaves"""
IMAGE, SLICED = "build=", "ep=1"
"""every candidate of an image has the first; the second is of those whose ranks hold slices of all experts"""
KNOWN: dict[str, float] = {
    SPECULATION: 0.08,  # draft layers are where first days break: exclude lists, headers, NextN classes
    DEPTH: 0.05,
    f"{DEPTH}=4": 0.10,  # beyond three drafts a kernel is compiled that lacked a guard for ROCm (sglang PR 29373)
    f"{DEPTH}=5": 0.10,
    f"{DEPTH}=6": 0.10,
    UNSAFE: 0.35,  # sglang PR 29313: dead-lock in verification from 16 to 32 requests on
    TUNED: 0.05,  # tuned rows have broken accuracy (aiter 2656)
    "tp=1": 0.08,
    "tp=2": 0.06,
    SAFE_REDUCE + "=true": 0.005,  # only falls back to RCCL
    "max-running-requests": 0.01,
    SLICED: 0.01,  # what nearly everybody serves with
    "dsa-prefill-backend=aiter": 0.25,  # decode with an FP8 cache crashes without open patches (38746, 32849)
}
MEMORY, CHUNK = "mem-fraction-static", "chunked-prefill-size"
LIGHT: dict[str, float] = {CHUNK: 8192, MEMORY: 0.8}
"""values that take less memory than any engine's own, and by which one that ran out of it is made to run"""
FREED = 0.4
"""suspicion of a layout that ran out of memory where the candidate takes less of it than all that did: known causes
are the workspace of a chunk, the share that the cache takes, and the layout itself"""
COPIES = "several copies"
"""more than one replica: whatever breaks on every split that does not fill the node"""
NUMBERS = re.compile(r"\d+|\[[^\]]*\]")
LOSSY = 0.08
AGAIN = 0.1
"""of the chance that is left to a candidate that has everything that a failed one had"""
PARALLEL = 0.06
"""expert parallelism and attention data parallelism"""
PUBLISHED = 0.5
"""of the suspicion that stays with a setting of a published recipe of the nearest architecture"""
RISING = (DEPTH, CHUNK, MEMORY, "max-running-requests", "cuda-graph-max-bs-decode")
"""numbers of which a larger one breaks what a smaller one broke"""

_DRAFTS = (SPECULATION, DEPTH)
_REDUCE = (UNSAFE, SPECULATION, "enable-aiter-allreduce-fusion", "ROCM_QUICK_REDUCE", "attention-dp", "ep=")
_SHAPES = ("tp=", "ep=", "attention-dp", "moe-runner", "attention-backend", "dsa-", "SGLANG", "kv-cache-dtype")
_ROOM = ("chunked-prefill", "mem-fraction", "max-running", "cuda-graph", "tp=1", "tp=2", DEPTH, "enable-hier", "ep=")
FITS: dict[FailureClass, tuple[str, ...]] = {
    FailureClass.ACCURACY_WRONG_OUTPUT: (),  # the lossy ones, see `_fit`
    FailureClass.HANG_DEADLOCK: _REDUCE,
    FailureClass.RCCL_COMM: _REDUCE,
    FailureClass.OOM: _ROOM,
    FailureClass.MISSING_KERNEL: _SHAPES,
    FailureClass.MEMORY_FAULT: (*_SHAPES, UNSAFE),
    FailureClass.SPECULATIVE: _DRAFTS,
    FailureClass.SHAPE_MISMATCH_QUANT: _DRAFTS,
    FailureClass.HEADER_COMPILE: _DRAFTS,
    FailureClass.MISSING_MODEL_SUPPORT: _DRAFTS,
    FailureClass.GRAPH_CAPTURE: (*_DRAFTS, UNSAFE, "cuda-graph"),
}
UNFIT = 0.15
"""of the blame that a setting takes for a class of failure that it seldom causes"""


@dataclass
class Risk:
    """Suspicions after what was seen; one table for each set of patches, since a patch may have mended the cause."""

    belief: Belief
    seen: Sequence[Seen]
    lossy: frozenset[str]
    published: frozenset[str]
    _tables: dict[frozenset[str], dict[str, float]] = field(default_factory=dict)
    _sets: dict[frozenset[str], tuple[frozenset[str], ...]] = field(default_factory=dict)

    def works(self, settings: Settings, tuned: bool) -> float:
        """The probability that a candidate boots and answers rightly under load."""
        patches = settings.patches
        if patches not in self._tables:
            self._tables[patches] = self._blamed(patches)
        table, chance, names = self._tables[patches], 1.0, self.suspects(settings, tuned)
        for name in names:
            suspicion = self._of(name, table)
            if suspicion > FREED and name.startswith("tp=") and self._lighter(settings):
                suspicion = FREED
            chance *= 1.0 - suspicion
        holds_a_failure = any(failed.issubset(names) for failed in self._failures(patches))
        return chance * (AGAIN if holds_a_failure else 1.0)

    def full(self, settings: Settings) -> tuple[Settings, ...]:
        """Candidates as narrow as this one that ran out of memory."""
        ill = [s for s in self.seen if s.failed is not None and s.failed.failure == FailureClass.OOM]
        found = [self.belief.settings(s.plan) for s in ill]
        return tuple(other for other in found if other.shape.tp == settings.shape.tp)

    def _lighter(self, settings: Settings) -> bool:
        """Whether it has a smaller chunk or leaves more memory than each of those; an engine's own value is larger."""
        found = self.full(settings)
        return bool(found) and any(all(_less(settings, other, key) for other in found) for key in LIGHT)

    def suspects(self, settings: Settings, tuned: bool) -> tuple[str, ...]:
        """What could be at fault. An image is no suspect where there is no other: everything has it."""
        names, site = suspects(settings, tuned), self.belief.site
        if site.model.experts > 0 and settings.shape.ep == 1:
            names = (*names, SLICED)
        return names if site.images else tuple(n for n in names if not n.startswith(IMAGE))

    def _failures(self, patches: frozenset[str]) -> tuple[frozenset[str], ...]:
        """Whole failed sets of settings: one of each is broken, whichever it is."""
        if patches not in self._sets:
            kept = [(self.belief.settings(s.plan), s) for s in self.seen if s.failed is not None]
            self._sets[patches] = tuple(
                frozenset(self.suspects(settings, s.tuned)) for settings, s in kept if not patches - settings.patches
            )
        return self._sets[patches]

    def _of(self, name: str, table: Mapping[str, float]) -> float:
        """A setting's own suspicion, or that of a smaller number of its kind (of a wider split for a narrow one)."""
        found = table.get(name)
        if found is None:
            found = self._prior(name)
        key, _, value = name.partition("=")
        if key in RISING or key == "tp":
            for other, suspicion in table.items():
                if suspicion > found and other.startswith(key) and _beyond(key, value, other.partition("=")[2]):
                    found = suspicion
        return found

    def _prior(self, name: str) -> float:
        key = name.partition("=")[0]
        base = KNOWN.get(name, KNOWN.get(key))
        if base is None:
            parallel = key in ("ep", "attention-dp")
            base = LOSSY if name in self.lossy else PARALLEL if parallel else PLAIN
        return base * (PUBLISHED if name in self.published else 1.0)

    def _blamed(self, patches: frozenset[str]) -> dict[str, float]:
        """Successes clear first, whenever they came: what worked once is the less likely culprit of any failure."""
        table: dict[str, float] = {}
        for one in self.seen:
            if one.works:
                for name in self.suspects(self.belief.settings(one.plan), one.tuned):
                    left = table.get(name, self._prior(name))
                    table[name] = min(left, CLEARED) if one.measured else left * ANSWERED
        for names, failure in self._alike(patches, cleared=table.get(SLICED, 1.0) <= CLEARED):
            _clear_lesser(table, names)
            self._share(table, names, failure)
        return table

    def _alike(self, patches: frozenset[str], *, cleared: bool) -> list[tuple[tuple[str, ...], FailureClass]]:
        """Failures with what may be at fault: of those that end in the same words only what they have in common."""
        groups: dict[tuple[str, str], list[frozenset[str]]] = {}
        classes: dict[tuple[str, str], FailureClass] = {}
        for one in self.seen:
            settings = self.belief.settings(one.plan)
            if one.failed is not None and not patches - settings.patches:
                failure = one.failed.failure or FailureClass.UNKNOWN
                sign = failure.value, one.failed.issue or NUMBERS.sub("", one.failed.evidence)
                groups.setdefault(sign, []).append(frozenset(self.suspects(settings, one.tuned)))
                classes[sign] = failure
        out = []
        for sign, found in groups.items():
            out += [(tuple(sorted(names)), classes[sign]) for names in _common(found, {SLICED} if cleared else set())]
        return out

    def _share(self, table: dict[str, float], names: Iterable[str], failure: FailureClass) -> None:
        """Bayes: P(broken | failed) = suspicion x fit / P(at least one is broken)."""
        weights = {name: table.get(name, self._prior(name)) * self._fit(name, failure) for name in names}
        none = 1.0
        for weight in weights.values():
            none *= 1.0 - weight
        some = max(1.0 - none, 1e-9)
        for name, weight in weights.items():
            table[name] = min(0.999, max(table.get(name, 0.0), weight / some))

    def _fit(self, name: str, failure: FailureClass) -> float:
        if failure == FailureClass.ACCURACY_WRONG_OUTPUT:
            return 1.0 if name in self.lossy else UNFIT
        fitting = FITS.get(failure)
        return 1.0 if fitting is None or name.startswith(fitting) else UNFIT


def _common(found: Sequence[frozenset[str]], innocent: Set[str]) -> list[frozenset[str]]:
    """Of each failure what all of them have: the same setting, or a value of the same number that may be too large.

    As they are where that is nothing but the image: everything that was tried on it has that. `innocent` is what most
    candidates have and what worked.
    """
    same = frozenset.intersection(*found) - innocent
    numbers = frozenset(RISING).intersection(*({n.partition("=")[0] for n in names} for names in found))
    out = [frozenset(n for n in names if n in same or n.partition("=")[0] in numbers) for names in found]
    return out if all(any(not n.startswith(IMAGE) for n in names) for names in out) else list(found)


def suspects(settings: Settings, tuned: bool) -> tuple[str, ...]:
    """What could be at fault, in a fixed order. The engine's own chunk and share of memory are settings like others."""
    more = [TUNED] * tuned + [COPIES] * (settings.shape.dp > 1)
    more += [f"{key}=default" for key in LIGHT if settings.value(key) is None]
    return tuple(sorted({*settings.names, *more}))


def _clear_lesser(table: dict[str, float], names: Iterable[str]) -> None:
    """A number that worked clears every smaller one of its kind, a narrow split every wider one."""
    for name in names:
        key, _, value = name.partition("=")
        if key not in RISING and key != "tp":
            continue
        for other, suspicion in tuple(table.items()):
            if suspicion <= CLEARED and other.startswith(f"{key}=") and _beyond(key, other.partition("=")[2], value):
                table[name] = min(table.get(name, CLEARED), CLEARED)


def _less(settings: Settings, other: Settings, key: str) -> bool:
    mine, theirs = settings.value(key), other.value(key)
    if mine is None:
        return False
    return float(mine) <= LIGHT[key] if theirs is None else float(mine) < float(theirs)


def _beyond(key: str, value: str, bound: str) -> bool:
    """Whether a value lies beyond another that broke: a larger number, or a narrower split."""
    try:
        mine, theirs = float(value), float(bound)
    except ValueError:
        return False
    return mine < theirs if key == "tp" else mine > theirs


def lossy_names(offered: Sequence[object]) -> frozenset[str]:
    """Settings of lossy axes: those that may change what the model answers."""
    from day0.agent.policy.axes import Offer
    from day0.agent.policy.belief import own_key

    out = set()
    for one in offered:
        if isinstance(one, Offer) and one.axis.lossy:
            for option in one.options:
                if key := own_key(option):
                    value = option.flags[key] if key in option.flags else option.env[key]
                    out.add(SPECULATION if key == DEPTH else name_of(key, value))
    return frozenset(out)


__all__ = ["Risk", "lossy_names", "suspects"]
