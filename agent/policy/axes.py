"""The axes of the search space: what can be changed, where it can matter, and what it is expected to bring.

An axis is data plus one precondition. Policies never invent a flag: they pick options of axes, and only of axes
that the engine build in hand offers (its own `--help`), on the kind of machine the axis belongs to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from day0.runs.candidate import Candidate
from day0.runs.values import FrozenMap

if TYPE_CHECKING:
    from day0.agent.policy.base import RunView
    from day0.runs.engine_facts import EngineFacts, ModelFacts, NodeFacts
    from day0.runs.workload import FlagValue, Objective, Target, Workload

Kind = Literal["cpu", "gpu"]
# Layout flags of a target are where the search starts; all its other flags are what nothing boots without.
STARTING = frozenset({"tp-size", "dp-size", "pp-size", "ep-size", "attn-dp-size"})
Helps = Literal["ttft", "tpot", "cap", "memory"]


@dataclass(frozen=True)
class Site:
    """Where a candidate will run and for what: everything a precondition may look at."""

    model: ModelFacts
    engine: EngineFacts
    node: NodeFacts
    target: Target
    workload: Workload
    objective: Objective
    images: Mapping[str, str] = field(default_factory=dict)

    @property
    def kind(self) -> Kind:
        """`cpu` where no accelerator serves, else `gpu`."""
        return "cpu" if self.target.accelerator == "cpu" else "gpu"

    @property
    def cores(self) -> int:
        """Processor cores the server may use; 1 when nobody knows."""
        return len(self.target.server_cores) or self.node.cores or 1

    @property
    def gpus(self) -> int:
        """Accelerators of one node."""
        return self.target.gpus or self.node.gpus


@dataclass(frozen=True)
class Option:
    """One setting of an axis. A value of `None` removes the key; `gain` is expected, 0.1 = 10 % more goodput.

    `image` is another engine image, by digest. `codemods` and `tune` are made before the candidate exists: repairs of
    engine source by name, tuned kernels.
    """

    label: str
    flags: Mapping[str, FlagValue | None] = field(default_factory=dict)
    env: Mapping[str, str | None] = field(default_factory=dict)
    gain: float | None = None
    image: str = ""
    codemods: tuple[str, ...] = ()
    tune: bool = False

    def on(self, candidate: Candidate) -> Candidate:
        """The candidate with this option set; equal to the given one where nothing changes."""
        flags: dict[str, FlagValue | None] = {**candidate.flags, **self.flags}
        env: dict[str, str | None] = {**candidate.env, **self.env}
        return candidate.model_copy(
            update={
                "build": self.image or candidate.build,
                "flags": FrozenMap((k, v) for k, v in flags.items() if v is not None),
                "env": FrozenMap((k, v) for k, v in env.items() if v is not None),
            }
        )

    def set_in(self, candidate: Candidate) -> bool:
        """Whether the candidate has this option already."""
        flags = all(candidate.flags.get(name) == value for name, value in self.flags.items())
        flags = flags and self.image in ("", candidate.build)
        return flags and all(candidate.env.get(name) == value for name, value in self.env.items())


def always(_: Site) -> str:
    """The precondition of an axis that needs nothing but its flags."""
    return ""


@dataclass(frozen=True)
class Axis:
    """One direction of the search.

    `why_not` gives an empty text where the axis applies, else the reason it doesn't. `gain` is the expected gain
    of its first option and `source` where that figure comes from. `family` names its kin: a boot that fails on one
    of them bans the others. `ladder` is the numeric flag whose neighbours are worth trying once one value helped.
    `conflicts` are axes whose adoption may turn this one's result around. `lossy`: the output may change, so the
    accuracy rung must look closely. `trusted`: the gain was measured on this kind of machine, so that the axis may be
    part of the opening bundle. `start`: its options are whole configurations to start from, not single changes.
    """

    kinds: frozenset[Kind]
    name: str
    options: Callable[[Site], tuple[Option, ...]]
    gain: float
    why: str
    source: str = "the engine's own --help"
    why_not: Callable[[Site], str] = always
    family: str = ""
    helps: frozenset[Helps] = frozenset()
    ladder: str = ""
    bounds: tuple[float, float] = (1, 1 << 20)
    conflicts: frozenset[str] = frozenset()
    lossy: bool = False
    trusted: bool = False
    start: bool = False

    @property
    def kin(self) -> str:
        """The family, or the axis itself where it has no kin."""
        return self.family or self.name


def clash(one: Axis, other: Axis) -> bool:
    """Whether adopting one may turn the other's result around; either may say so."""
    return one.name in other.conflicts or other.name in one.conflicts


@dataclass(frozen=True)
class Offer:
    """An axis as it stands on a site: its usable options, or why there are none."""

    axis: Axis
    options: tuple[Option, ...]
    reason: str = ""


def fixed(*options: Option) -> Callable[[Site], tuple[Option, ...]]:
    """Options that don't depend on the site."""
    return lambda _: options


def ladder(flag: str, *values: FlagValue) -> Callable[[Site], tuple[Option, ...]]:
    """One option for each value of a flag, most promising first."""
    return fixed(*(Option(f"{flag} {value}", {flag: value}) for value in values))


def _misfit(option: Option, engine: EngineFacts) -> str:
    for name, value in option.flags.items():
        spec = engine.flag(name)
        if spec is None:
            return f"this engine build ({engine.version}) has no --{name}"
        if spec.choices and value is not None and spec.takes_value and str(value) not in spec.choices:
            return f"--{name} of this engine build does not offer {value}"
    return ""


def offer(axis: Axis, site: Site) -> Offer:
    """What of an axis can be tried here; pure."""
    if site.kind not in axis.kinds:
        return Offer(axis, (), f"belongs to {', '.join(sorted(axis.kinds))} targets")
    reason = axis.why_not(site)
    if reason:
        return Offer(axis, (), reason)
    base = site.target.base_flags
    usable, misfit = [], "nothing to try here"
    for option in axis.options(site):
        wrong = _misfit(option, site.engine)
        pinned = [name for name in option.flags if name in base and name not in STARTING]
        if wrong:
            misfit = wrong
        elif pinned:
            misfit = f"the target itself sets --{pinned[0]}"
        else:
            usable.append(option)
    return Offer(axis, tuple(usable), "" if usable else misfit)


def site_of(view: RunView) -> Site:
    """The site of a run; its first workload leads the search."""
    request = view.request
    work = request.workloads[0]
    return Site(view.model, view.engine, view.node, request.target, work, request.objective, view.images)


def all_axes() -> tuple[Axis, ...]:
    """Every axis this release knows, CPU and GPU."""
    from day0.agent.policy.axes_cpu import CPU_AXES
    from day0.agent.policy.axes_cpu_serving import CPU_SERVING_AXES
    from day0.agent.policy.axes_gpu import GPU_AXES
    from day0.agent.policy.axes_gpu_kernels import GPU_KERNEL_AXES
    from day0.agent.policy.axes_gpu_serving import GPU_SERVING_AXES

    return CPU_AXES + CPU_SERVING_AXES + GPU_AXES + GPU_KERNEL_AXES + GPU_SERVING_AXES


def offers(site: Site, axes: tuple[Axis, ...] | None = None) -> tuple[Offer, ...]:
    """All axes of this kind of machine with their options, or the reason why not, by falling expected gain."""
    table = all_axes() if axes is None else axes
    found = [offer(axis, site) for axis in table if site.kind in axis.kinds]
    return tuple(sorted(found, key=lambda o: (-o.axis.gain, o.axis.name)))
