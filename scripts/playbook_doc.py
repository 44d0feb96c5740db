"""The document of the playbook, from the axes themselves: tried on places where they apply and where they don't."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from day0.agent.policy import axes_refused, belief, crafts, explore, risk
from day0.agent.policy.axes import Axis, Option, Site, all_axes, offer
from day0.runs.documents import target, workload
from day0.runs.engine_facts import EngineFacts, FlagSpec, ModelFacts, NodeFacts
from day0.runs.values import FrozenMap
from day0.runs.workload import Objective
from day0.sandboxes.twin.resolve import rows
from day0.tools.codemods import CODEMODS
from day0.tools.published import recipes

MOE: dict[str, Any] = {
    "model": "amd/GLM-5.2-MXFP4", "revision": "r", "architecture": "GlmMoeDsaForCausalLM",
    "model_type": "glm_moe_dsa", "layers": 78, "hidden": 6144, "heads": 64, "kv_heads": 64, "head_dim": 128,
    "vocab": 154880, "context": 202752, "experts": 256, "experts_per_token": 8, "shared_experts": 1,
    "moe_intermediate": 2048, "kv_lora_rank": 512, "nextn_layers": 1, "quantization": "quark",
}  # fmt: skip
DENSE: dict[str, Any] = {
    **MOE, "model": "a/dense", "architecture": "LlamaForCausalLM", "model_type": "llama", "heads": 64, "kv_heads": 8,
    "experts": 0, "experts_per_token": 0, "shared_experts": 0, "moe_intermediate": None, "kv_lora_rank": None,
    "nextn_layers": 0, "quantization": None,
}  # fmt: skip
KINDS = {"gpu": "On accelerators (AMD Instinct)", "cpu": "On a processor"}


def engine(**capabilities: str) -> EngineFacts:
    """The flags of SGLang 0.5.23, from the catalogue that the simulated node ships."""
    flags = [
        FlagSpec(name=name, takes_value=kind not in {"switch", "toggle"}, negatable=kind == "toggle",
                 choices=tuple(filter(None, choices.split(","))), aliases=tuple(filter(None, aliases.split(","))))
        for name, kind, choices, _, aliases in rows("sglang-0.5.23")
    ]  # fmt: skip
    return EngineFacts(engine="sglang", build="b", version="0.5.23", flags=tuple(flags), capabilities=capabilities)


def places(kind: str) -> Iterator[Site]:
    """Where axes are tried: the richest place first, then poorer ones."""
    work, short = workload("agentic-20k1k"), workload("chat-1k1k")
    single = workload("single-stream-10k1500")
    if kind == "gpu":
        node, goal = NodeFacts(name="n", accelerator="mi355x", gpus=8), target("mi355x")
        images = FrozenMap({"sha256:other": "another image"})
        for model in (MOE, DENSE):
            for traffic in (work, short, single):
                yield Site(ModelFacts(**model), engine(), node, goal, traffic, Objective.GOODPUT, images)
        alone = goal.model_copy(update={"gpus": 1})
        yield Site(ModelFacts(**DENSE), engine(), NodeFacts(name="n", gpus=1), alone, work, Objective.GOODPUT)
        return
    goal = target("cpu").model_copy(update={"base_flags": FrozenMap({"device": "cpu"})})
    rich = engine(compiler="g++", tcmalloc="/usr/lib/libtcmalloc.so.4", amx="yes").model_copy(
        update={"packages": FrozenMap({"sgl-kernel": "1"})}
    )
    for cores, build in (((0, 1, 2, 3), rich), ((0,), engine())):
        for traffic in (work, short, single):
            place = goal.model_copy(update={"server_cores": cores})
            yield Site(ModelFacts(**DENSE), build, NodeFacts(name="n", cores=4), place, traffic, Objective.GOODPUT)


def shown(option: Option, axis: Axis) -> str:
    """An option: what it sets, and its own expectation where it has one."""
    parts = [
        f"--{k}" if v is True else f"without --{k}" if v is None else f"--{k} {v}" for k, v in option.flags.items()
    ]
    parts += [f"{k}={v}" for k, v in option.env.items()]
    text = " ".join(parts) or option.label
    gain = f" ({option.gain:+.0%})" if option.gain is not None and option.gain != axis.gain else ""
    return f"`{text}`{gain}"


def section(axis: Axis, sites: list[Site]) -> str:
    """One axis: why, its options, where not, source, what it interacts with."""
    found = [offer(axis, site) for site in sites]
    options = next((o.options for o in found if o.options), ())
    against = list(dict.fromkeys(reason for s in sites if (reason := axis.why_not(s))))
    lines = [f"### {axis.name}: {axis.gain:+.0%} expected", "", f"{axis.why[0].upper()}{axis.why[1:]}.", ""]
    lines += ["- Options: " + "; ".join(shown(o, axis) for o in options)] if options else []
    lines += [f"- Not where: {'; '.join(against)}."] if against else []
    lines.append(f"- Source: {axis.source}.")
    lines += [f"- Helps against: {', '.join(sorted(axis.helps))}."] if axis.helps else []
    lines += [f"- Interacts with: {', '.join(sorted(axis.conflicts))}."] if axis.conflicts else []
    lines += ["- May change what is answered: the accuracy rung decides."] if axis.lossy else []
    return "\n".join(lines) + "\n"


def text_of(module: Any) -> str:
    """A module's own explanation, its first line as it is."""
    return inspect.cleandoc(module.__doc__ or "")


def playbook() -> str:
    """The whole document."""
    out = ["# The playbook\n", "Axes, what each is expected to bring and where that figure comes from.\n"]
    out += [
        "## How candidates are ranked on accelerators\n",
        text_of(explore),
        "",
        text_of(belief),
        "",
        text_of(risk),
        "",
    ]
    out += ["## What is made before a candidate exists\n", text_of(crafts), ""]
    out += [f"- `{name}`: {mod.title} ({mod.upstream})" for name, mod in sorted(CODEMODS.items())]
    out.append("- tuned expert kernels: see the axis `tuning`\n")
    for kind, title in KINDS.items():
        sites = list(places(kind))
        out.append(f"## {title}\n")
        axes = sorted((a for a in all_axes() if kind in a.kinds), key=lambda a: (-a.gain, a.name))
        out += [section(axis, sites) for axis in axes]
        if kind == "gpu":
            why = "Last comes the leader without one of its flags or variables, each in its turn: what was inherited "
            out.append(f"### prune\n\n{why}may hurt by now.\n")
    out += ["## Flags that matter and are no axis\n", "| flag | why |", "|---|---|"]
    out += [f"| `--{flag}` | {why} |" for flag, why in axes_refused.NO_AXIS.items()]
    out += [f"| {name} | {why} |" for name, why in axes_refused.NEITHER.items()]
    out += [
        "",
        "## Published recipes\n",
        "| recipe | architectures | precision | TP | source |",
        "|---|---|---|---|---|",
    ]
    out += [f"| {r.name} | {', '.join(r.architectures)} | {r.precision} | {r.tp} | {r.source} |" for r in recipes()]
    return "\n".join(out) + "\n"
