"""The search on accelerators: every candidate within reach, ranked by the improvement it is expected to bring.

Within reach of the leader are: each option of each axis; each layout that the forecast holds possible; whole bundles
of what is believed to pay, on each layout and on the nearest published recipe; neighbours of numbers; the leader
without one of its changes; tuned kernels for its layout. The promise of each is

    P(works) x E[gain; gain > least] / (P(works) + FAILED x (1 - P(works)))

the improvement that stands out of the noise, per cost of trying in units of a full measurement: one that fails ends
early. Gain and its spread come from `belief`, the probability from `risk`. So the first proposal is a bundle of
everything that promises more than it risks, a failed bundle comes back without its likeliest culprit, and the search
ends when no promise is left.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from day0.agent.policy import fit
from day0.agent.policy.ablate import PRUNE, ablations
from day0.agent.policy.axes import Axis, Offer, Option, site_of
from day0.agent.policy.belief import Belief, believed, priors_of
from day0.agent.policy.decide import threshold, worth
from day0.agent.policy.expectation import expected
from day0.agent.policy.ideas import Idea
from day0.agent.policy.published import settings_of_nearest
from day0.agent.policy.risk import LIGHT, Risk, lossy_names
from day0.agent.policy.seen import is_tuned, kernels_of, seen_of, table_layouts
from day0.agent.policy.settings import Plan
from day0.agent.policy.trials import Standing
from day0.runs.candidate import Candidate

if TYPE_CHECKING:
    from day0.agent.policy.base import RunView

FAILED = 0.5
"""cost of an attempt that fails, in full measurements: its boot, and the one that the rest of a bundle takes again"""
UNHELPFUL = 0.35
"""of an axis' prior where it helps against something else than what limits the leader"""
UNSETTLED = 0.5
"""kernels are not tuned while another layout or fusion promises this share of it: a table belongs to its layout"""
SPARE = 0.02
"""least promise: an experiment takes about a node-hour of a budget of 24"""
RELIEF = 1.1
"""times as promising what takes less memory must make a bundle, where others of its width ran out of it"""
TUNING_AXIS = "tuning"
LAYOUT_AXES = frozenset({"topology", "attention-dp"})


@dataclass
class Reach:
    """All that a step knows. `leader` is what every candidate is compared with, `moves` what bundles are made of."""

    view: RunView
    now: Standing
    offered: tuple[Offer, ...]
    belief: Belief
    risk: Risk
    tables: dict[str, object]
    anchored: bool
    leader: Plan
    least: float
    moves: Sequence[tuple[Offer, Option]] = ()
    _scores: dict[object, tuple[float, float]] = field(default_factory=dict)

    def tuned(self, plan: Plan) -> bool:
        """Whether the plan has tuned kernels of its own layout, or gets them."""
        return plan.tune or is_tuned(plan.candidate, self.tables)

    def moves_kernels(self, candidate: Candidate) -> bool:
        """Whether the candidate multiplies other shapes than the leader."""
        return kernels_of(candidate) != kernels_of(self.leader.candidate)

    def plan(self, candidate: Candidate) -> Plan:
        """A plan for the candidate; tuned again where it leaves the layout that the leader's kernels are tuned for."""
        return Plan(candidate, tune=self.tuned(self.leader) and self.moves_kernels(candidate))

    def promise(self, plan: Plan) -> tuple[float, float]:
        """(promise, mean gain as ln) over the leader; a promise of 0 for what can't fit."""
        if plan.key not in self._scores:
            self._scores[plan.key] = self._promise(plan)
        return self._scores[plan.key]

    def _promise(self, plan: Plan) -> tuple[float, float]:
        settings, over, tuned = self.belief.settings(plan), self.belief.settings(self.leader), self.tuned(plan)
        if expected(settings.shape, self.belief.site).why_not or fit.misfit(plan.candidate, self.view):
            return 0.0, -math.inf
        mean, sd = self.belief.gain(settings, tuned, over, self.tuned(self.leader))
        chance = self.risk.works(settings, tuned)
        # without a leader that works anything that does is an improvement
        better = improvement(mean, sd, self.least) if self.anchored else math.exp(min(mean, 3.0))
        return chance * better / (chance + FAILED * (1.0 - chance)), mean


def improvement(mean: float, sd: float, least: float = 0.0) -> float:
    """E[x; x > least] of a normal x: what does not stand out of the noise is not kept and brings nothing."""
    z = (least - mean) / sd
    density = math.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)
    return sd * density + mean * 0.5 * math.erfc(z / math.sqrt(2))


def reach_of(view: RunView, now: Standing, offered: tuple[Offer, ...]) -> Reach:
    """Belief and risk after the attempts of a view."""
    site = site_of(view)
    seen = seen_of(view, now.gpus)
    steer = {o.axis.name: _steer(o.axis, now) for o in offered}
    belief = believed(site, priors_of(offered, steer), seen)
    risk = Risk(belief, seen, lossy_names(offered), settings_of_nearest(site))
    anchored = worth(now.leader, view.request, now.gpus) is not None
    least, leader = math.log1p(threshold(view.noise)), Plan(now.leader.candidate)
    reach = Reach(view, now, offered, belief, risk, table_layouts(view), anchored, leader, least)
    reach.moves = _moves(reach)
    return reach


def _steer(axis: Axis, now: Standing) -> float:
    if not now.limits or not axis.helps or axis.helps & now.limits:
        return 1.0
    return UNHELPFUL


def explored(reach: Reach) -> list[Idea]:
    """Every idea within reach, most promising first; ties by name, so that the order is one only."""
    found = [*_singles(reach), *_bundles(reach), *_ablations(reach)]
    tried = {Plan(a.candidate).key for a in reach.view.attempts}
    best: dict[object, tuple[Idea, Plan]] = {}
    for idea, plan in found:
        if idea.promise <= 0 or (plan.key in tried and not plan.tune):
            continue
        if plan.key not in best or len(idea.axis) < len(best[plan.key][0].axis):
            best[plan.key] = idea, plan
    ranked = sorted(best.values(), key=lambda row: (-round(row[0].promise, 6), row[0].axis, row[0].option.label))
    moving = max((i.promise for i, p in ranked if "+" not in i.axis and reach.moves_kernels(p.candidate)), default=0.0)
    worthy = [idea for idea, _ in ranked if idea.promise >= SPARE]
    return [idea for idea in worthy if idea.axis != TUNING_AXIS or moving < UNSETTLED * idea.promise]


def _idea(reach: Reach, plan: Plan, axis: str, label: str, why: str) -> tuple[Idea, Plan]:
    promise, mean = reach.promise(plan)
    parent = reach.now.leader.candidate
    flags = {k: v for k, v in _changes(parent.flags, plan.candidate.flags)}
    env = {k: str(v) if v is not None else None for k, v in _changes(parent.env, plan.candidate.env)}
    image = plan.candidate.build if plan.candidate.build != parent.build else ""
    option = Option(label, flags, env, image=image, tune=plan.tune)  # type: ignore[arg-type]
    told = f"{why} (expected {math.expm1(min(mean, 3.0)):+.0%})" if math.isfinite(mean) else why
    return Idea(promise, axis, option, told, tune=plan.tune), plan


def _changes(old: object, new: object) -> Iterator[tuple[str, object]]:
    assert isinstance(old, dict) and isinstance(new, dict)
    for key in sorted({*old, *new}):
        if old.get(key) != new.get(key):
            yield key, new.get(key)


def _singles(reach: Reach) -> Iterator[tuple[Idea, Plan]]:
    leader = reach.leader.candidate
    for one in reach.offered:
        for option in one.options:
            if one.axis.start or (not option.tune and option.set_in(leader)):
                continue
            if option.tune and (reach.tuned(reach.leader) or not _untuned(reach)):
                continue
            plan = Plan(leader, tune=True) if option.tune else reach.plan(option.on(leader))
            yield _idea(reach, plan, one.axis.name, option.label, one.axis.why)
        yield from _neighbours(reach, one.axis)


def _untuned(reach: Reach) -> bool:
    """Whether the leader's boot said that kernels ran untuned, and no tuner has yet said that there is nothing."""
    boot = reach.view.boots.get(reach.now.leader.id)
    refused = any(
        answer.refused and getattr(answer.action, "tune", False) and answer.action.parent == reach.now.leader.id  # type: ignore[union-attr]
        for answer in reach.view.answers
    )
    return boot is not None and boot.fallback_lines > 0 and not refused


def _neighbours(reach: Reach, axis: Axis) -> Iterator[tuple[Idea, Plan]]:
    leader = reach.leader.candidate
    held = leader.flags.get(axis.ladder) if axis.ladder else None
    if not isinstance(held, int | float) or isinstance(held, bool):
        return
    for factor in (2, 0.5):
        near: int | float = int(held * factor) if isinstance(held, int) else round(held * factor, 4)
        if axis.bounds[0] <= near <= axis.bounds[1] and near != held:
            option = Option(f"{axis.ladder} {near}", {axis.ladder: near})
            yield _idea(reach, Plan(option.on(leader)), axis.name, option.label, f"next to {axis.ladder} {held}")


def _ablations(reach: Reach) -> Iterator[tuple[Idea, Plan]]:
    """What nobody believes in, but one experiment finds out: never less than the least promise, so it comes last."""
    for rank, option in enumerate(ablations(reach.leader.candidate, reach.view)):
        plan = reach.plan(option.on(reach.leader.candidate))
        idea, plan = _idea(reach, plan, PRUNE, option.label, "what was inherited may hurt by now")
        floor = SPARE * (1.5 if rank == 0 else 1.0)
        yield (replace(idea, promise=max(idea.promise, floor)) if idea.promise > 0 else idea), plan


def _bundles(reach: Reach) -> Iterator[tuple[Idea, Plan]]:
    """From each start, everything on top that promises more than it risks."""
    for axis, label, start in _starts(reach):
        names, labels, plan = [axis] * bool(axis), [label] * bool(label), reach.plan(start)
        best = reach.promise(plan)[0]
        for offer, option in _lightening(reach, plan):
            lighter = reach.plan(option.on(plan.candidate))
            if (promise := reach.promise(lighter)[0]) > RELIEF * best:
                best, plan, names, labels = promise, lighter, [*names, offer.axis.name], [*labels, option.label]
                break
        for offer, option in reach.moves:
            if offer.axis.name in names or option.set_in(plan.candidate):
                continue
            further = reach.plan(option.on(plan.candidate))
            promise = reach.promise(further)[0]
            if promise > best:
                best, plan = promise, further
                names.append(offer.axis.name)
                labels.append(option.label)
        if plan.key != reach.leader.key:
            why = "everything that promises more than it risks, at once: boots are the price"
            yield _idea(reach, plan, "+".join(names), " + ".join(labels), why)


def _lightening(reach: Reach, plan: Plan) -> Iterator[tuple[Offer, Option]]:
    """What takes less memory, where others of the plan's width ran out of it."""
    if reach.risk.full(reach.belief.settings(plan)):
        for one in reach.offered:
            for option in one.options:
                if any(option.flags.get(key) == value for key, value in LIGHT.items()):
                    yield one, option


def _starts(reach: Reach) -> Iterator[tuple[str, str, Candidate]]:
    leader = reach.leader.candidate
    yield "", "", leader
    for one in reach.offered:
        if one.axis.name in LAYOUT_AXES or one.axis.start:
            for option in one.options:
                if not option.set_in(leader):
                    yield one.axis.name, option.label, option.on(leader)


def _moves(reach: Reach) -> Sequence[tuple[Offer, Option]]:
    """Of each axis the option that is believed to bring most, by falling promise; nothing that is believed to cost."""
    found = []
    for one in reach.offered:
        if one.axis.name in LAYOUT_AXES or one.axis.start:
            continue
        options = [o for o in one.options if not o.tune and not o.set_in(reach.leader.candidate)]
        ranked = [(reach.promise(reach.plan(o.on(reach.leader.candidate))), -at, o) for at, o in enumerate(options)]
        if ranked:
            (promise, mean), _, option = max(ranked, key=lambda row: row[:2])
            if mean > 0:
                found.append((promise, one.axis.name, one, option))
    found.sort(key=lambda row: (-round(row[0], 6), row[1]))
    return [(one, option) for _, _, one, option in found]
