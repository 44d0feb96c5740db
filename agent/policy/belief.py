"""What a search believes after its attempts: how much a candidate would gain, from the anchored forecast and the axes.

ln(worth) = w x ln(forecast) + a level of the run + one effect for each setting + one for each pair of tensor
parallelism and setting. Effects are normal, with the axes' priors as means; measured attempts make them posterior
(weighted least squares with priors). Layouts and speculation have two priors, the forecast's and the axis'; they are
blended by weight: zero-shot the forecast's ratio between layouts errs by 10-15 % in the median over published rows, an
axis' prior by more than twice that, hence w = 0.7. The level makes the forecast an anchored one: what the run has
measured shifts every prediction, and what it measured of a layout shifts that layout's more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from day0.agent.policy.axes import Axis, Offer, Option, Site
from day0.agent.policy.expectation import Shape, expected, pace_of
from day0.agent.policy.seen import Seen
from day0.agent.policy.settings import DEPTH, LAYOUT, SPECULATION, TIED, TUNED, Plan, Settings, name_of, settings_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

FORECAST = 0.7
"""w: the forecast's weight where an axis has a prior of its own"""
TUNING = 0.30
"""ln of what a tuned table brings: published 1944 -> 2626 tok/s on GLM-5.2 (Wafer)"""
LEVEL, WIDTH, WHOLE_LAYOUT, SPEC, DEPTHS, TABLE, PAIR, IMAGE = 0.5, 0.25, 0.25, 0.25, 0.10, 0.12, 0.04, 0.15
"""s.d. of ln: the run's level, a tensor-parallel width, a whole layout, speculation, its depth, tuning (and again by
width, since experts are a different share of a step on each), a pair of width and setting, an image (the same
configuration differs by 16 % in the median between software stacks)"""
VAGUE, LEAST = 0.6, 0.03
"""s.d. of another setting's effect: this share of its prior, and at least that much"""
WHOLE_EXPERTS = 0.15
"""s.d. of ln of what expert parallelism brings: full tiles of whole experts against a wider exchange, by model"""
OWN = 0.02
"""s.d. of what one value of a key brings beside another: most of an effect is the key's, whichever value it has, so
that a bundle which brought little does not make other values of its keys look better"""
APART = frozenset({"tp", "build", "ep", "attention-dp", DEPTH})
"""keys whose values have little in common"""


@dataclass(frozen=True)
class Prior:
    """Mean and standard deviation of an effect on ln(worth)."""

    mean: float
    sd: float


@dataclass
class Belief:
    """Posterior effects, kept in the space of the measured attempts, which are few.

    `index` numbers the effects that were seen; `spread` is (attempt x effect) prior covariances, `inverse` that of the
    attempts' own covariance with their noise, `weights` it times what the priors did not foresee.
    """

    site: Site
    priors: Mapping[str, Prior]
    index: dict[str, int] = field(default_factory=dict)
    spread: Array | None = None
    inverse: Array | None = None
    weights: Array | None = None
    pace: float = 1.0
    offsets: dict[Shape, float | None] = field(default_factory=dict)
    known: dict[object, Settings] = field(default_factory=dict)

    def settings(self, plan: Plan) -> Settings:
        """The plan's settings on this target."""
        found = self.known.get(plan.key)
        if found is None:
            target = self.site.target
            found = self.known[plan.key] = settings_of(plan.candidate, target.base_flags, target.base_env)
        return found

    def offset(self, settings: Settings) -> float | None:
        """Forecast term, w x ln(forecast); None where nothing is predicted."""
        shape = settings.shape
        if shape not in self.offsets:
            found = expected(shape, self.site, self.pace).tok_s
            self.offsets[shape] = FORECAST * math.log(found) if found else None
        return self.offsets[shape]

    def gain(self, settings: Settings, tuned: bool, over: Settings, over_tuned: bool) -> tuple[float, float]:
        """Mean and s.d. of ln(worth of a candidate / worth of another)."""
        mine, theirs = self.offset(settings), self.offset(over)
        shift = mine - theirs if mine is not None and theirs is not None else 0.0
        variance = 0.0
        at: list[int] = []
        by: list[float] = []
        for name, share in difference(effects(settings, tuned), effects(over, over_tuned)).items():
            prior = self.prior(name)
            shift += share * prior.mean
            variance += (share * prior.sd) ** 2
            if (place := self.index.get(name)) is not None:
                at.append(place)
                by.append(share)
        if at and self.spread is not None and self.inverse is not None and self.weights is not None:
            common = self.spread[:, at] @ by
            shift += float(common @ self.weights)
            variance -= float(common @ self.inverse @ common)
        return shift, math.sqrt(max(variance, 1e-8))

    def prior(self, name: str) -> Prior:
        """An effect's prior."""
        known = self.priors.get(name)
        if known is not None:
            return known
        for start, sd in (
            ("tp=", WIDTH),
            ("layout ", WHOLE_LAYOUT),
            ("pair ", PAIR),
            ("tuned tp=", TABLE),
            (f"{DEPTH}=", DEPTHS),
        ):
            if name.startswith(start):
                return Prior(0.0, sd)
        return {
            "level": Prior(0.0, LEVEL),
            SPECULATION: Prior(0.0, SPEC),
            TUNED: Prior(TUNING, TABLE),
        }.get(name, Prior(0.0, OWN if _shared(name) else LEAST))


def effects(settings: Settings, tuned: bool) -> dict[str, float]:
    """The effects that a candidate's worth is made of."""
    shape = settings.shape
    width = f"tp={shape.tp}"
    out = {"level": 1.0, f"layout {shape.tp} {shape.dp} {shape.attention_dp}": 1.0}
    for name in settings.names:
        out[name] = 1.0
        if name != width:
            out[f"pair {width} {name}"] = 1.0
        if shared := _shared(name):
            out[shared] = 1.0
    if tuned:
        out[TUNED] = 1.0
        out[f"tuned {width}"] = 1.0
    return out


def _shared(name: str) -> str:
    """The effect that all values of a setting's key share; empty where they have none in common."""
    key, found, _ = name.partition("=")
    return f"any {key}" if found and key not in APART else ""


def difference(one: Mapping[str, float], other: Mapping[str, float]) -> dict[str, float]:
    """What differs between two sums of effects, in one order: sums of the same floats must end in the same bits."""
    return {k: v for k in sorted({*one, *other}) if (v := one.get(k, 0.0) - other.get(k, 0.0))}


def believed(site: Site, priors: Mapping[str, Prior], seen: Sequence[Seen]) -> Belief:
    """The belief after what was seen."""
    import numpy as np

    belief = Belief(site, priors)
    told = [(s, belief.settings(s.plan)) for s in seen if s.log_worth is not None]
    if first := next(((s.log_worth, x.shape) for s, x in told if s.measured and s.log_worth is not None), None):
        belief.pace = pace_of(first[1], math.exp(first[0]) * site.workload.output_tokens, site)
    blind = all(belief.offset(settings) is None for _, settings in told)
    # what the forecast can't speak of says nothing beside what it does
    rows = [(s, effects(x, s.tuned), belief.offset(x) or 0.0) for s, x in told if blind or belief.offset(x) is not None]
    names = sorted({name for _, row, _ in rows for name in row})
    if not names:
        return belief
    belief.index = {name: at for at, name in enumerate(names)}
    design = np.array([[row.get(name, 0.0) for name in names] for _, row, _ in rows])
    assumed = [belief.prior(name) for name in names]
    expectation = design @ np.array([p.mean for p in assumed])
    target = np.array([(one.log_worth or 0.0) - offset for one, _, offset in rows])
    # the level absorbs the units: the first measurement is what the priors expect
    surprise = target - expectation - (target[0] - expectation[0])
    belief.spread = design * np.array([p.sd**2 for p in assumed])
    inner = belief.spread @ design.T + np.diag([one.sd**2 for one, _, _ in rows])
    belief.inverse = np.asarray(np.linalg.inv(inner), dtype=np.float64)
    belief.weights = belief.inverse @ surprise
    return belief


def priors_of(offered: Sequence[Offer], steer: Mapping[str, float]) -> dict[str, Prior]:
    """The priors that the axes' options give to settings. An option's own setting is the first that is not tied."""
    out: dict[str, Prior] = {}
    for one in offered:
        if one.axis.start:
            continue
        share = steer.get(one.axis.name, 1.0)
        for rank, option in enumerate(one.options):
            _add(out, one.axis, option, rank, share)
    return out


def _add(out: dict[str, Prior], axis: Axis, option: Option, rank: int, share: float) -> None:
    gain = option.gain if option.gain is not None else axis.gain * 0.5**rank
    mean = math.log1p(max(-0.9, gain)) * share
    key = own_key(option)
    if axis.name == "topology":
        out.setdefault(f"tp={option.flags.get('tp-size')}", Prior((1 - FORECAST) * mean, WIDTH))
    elif axis.name == "attention-dp":
        out.setdefault(f"attention-dp={option.flags.get('attn-dp-size')}", Prior((1 - FORECAST) * mean, LEAST))
    elif axis.name == "expert-parallel":
        out.setdefault(f"ep={option.flags.get('ep-size')}", Prior((1 - FORECAST) * mean, WHOLE_EXPERTS))
    elif key == DEPTH:
        first = out.setdefault(SPECULATION, Prior((1 - FORECAST) * mean, SPEC))
        steps = mean - first.mean / (1 - FORECAST)
        out.setdefault(name_of(key, option.flags[key]), Prior(steps, DEPTHS))
    elif option.image:
        out.setdefault(f"build={option.image}", Prior(mean, IMAGE))
    elif key:
        value = option.flags[key] if key in option.flags else option.env[key]
        name = name_of(key, value)
        common = out.setdefault(_shared(name), Prior(mean, max(LEAST, VAGUE * abs(mean))))
        out.setdefault(name, Prior(mean - common.mean, OWN))


def own_key(option: Option) -> str:
    """The flag or variable that an option is about; the others come along."""
    keys = [k for k, v in option.flags.items() if k not in TIED | LAYOUT and v is not None]
    return next(iter([*keys, *(k for k, v in option.env.items() if v is not None)]), "")
