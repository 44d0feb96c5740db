"""The published recipe of the nearest architecture as a start of the search on accelerators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from day0.agent.policy import bans
from day0.agent.policy.axes import Option, Site
from day0.agent.policy.settings import LAYOUT, SPECULATION, TIED, name_of

if TYPE_CHECKING:
    from day0.runs.workload import FlagValue

CAP = 256
GAIN = 0.25


def nearest_of(site: Site) -> str:
    """Why there is no published recipe to start from; empty where there is one."""
    return "" if start_options(site) else "no published recipe is of such an architecture"


def start_options(site: Site) -> tuple[Option, ...]:
    """The nearest recipe with copies that fill the node, as far as this build has its flags and nothing is banned.

    What belongs to random traffic is left out where prefixes are shared, speculation where the model has no draft
    layer; with speculation come an explicit cap and no custom all-reduce, as everywhere.
    """
    from day0.tools.forecast.of_facts import precision_of
    from day0.tools.published import nearest

    found = nearest(site.model, precision_of(site.model), shared=site.workload.cached_share > 0)
    if found is None or site.gpus < 1:
        return ()
    tp = min(found.tp, site.gpus)
    copies = site.gpus // tp
    flags: dict[str, FlagValue | None] = {"tp-size": tp, "dp-size": copies if copies > 1 else None}
    for name, value in found.flags.items():
        if name.startswith("speculative-") and not site.model.nextn_layers:
            continue
        spec = site.engine.flag(name)
        offered = spec is not None and (not spec.choices or not spec.takes_value or str(value) in spec.choices)
        if offered and not bans.flag_ban(name, value):
            flags[name] = value
    if "speculative-algorithm" in flags:
        flags.setdefault("max-running-requests", CAP)
        if site.engine.flag("disable-custom-all-reduce") is not None:
            flags["disable-custom-all-reduce"] = True
    env = {k: v for k, v in found.env.items() if not bans.env_ban(k, v, site.engine.capabilities)}
    return (Option(f"published: {found.name}", flags, env, gain=GAIN),)


def settings_of_nearest(site: Site) -> frozenset[str]:
    """Settings that others run the nearest architecture with."""
    out = set()
    for option in start_options(site):
        for key, value in {**option.flags, **option.env}.items():
            if value is not None and key not in LAYOUT | TIED:
                out.add(name_of(key, value))
        if "speculative-algorithm" in option.flags:
            out.add(SPECULATION)
        out.add(f"tp={option.flags.get('tp-size')}")
    return frozenset(out)
