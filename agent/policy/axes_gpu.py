"""Axes of an AMD Instinct node, as far as plain flags and named variables express them.

Sources are SGLang's published recipes and pull requests, AMD's tuning notes and public benchmark logs; each axis names
its own. Gains are priors that the first measured points overrule.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from day0.agent.policy.axes import Axis, Helps, Kind, Option, Site, ladder

if TYPE_CHECKING:
    from day0.runs.workload import FlagValue

GPU: frozenset[Kind] = frozenset({"gpu"})
TTFT: frozenset[Helps] = frozenset({"ttft"})
TPOT: frozenset[Helps] = frozenset({"tpot"})
BOTH: frozenset[Helps] = frozenset({"ttft", "tpot"})
CAP: frozenset[Helps] = frozenset({"cap"})

# Without a value SGLang admits 48 requests per replica as soon as speculation is on: always ask for a number.
SPECULATIVE_CAP = 256
# Target-verify can dead-lock on gfx950 with the custom all-reduce under load (sglang PR 29313).
SAFE_REDUCE = {"disable-custom-all-reduce": True}


def _drafts(site: Site) -> str:
    return "" if site.model.nextn_layers > 0 else "the checkpoint brings no draft layer (num_nextn_predict_layers is 0)"


def moe(site: Site) -> str:
    """The precondition of an axis about experts."""
    return "" if site.model.experts > 0 else "a dense model has no experts"


def many_gpus(site: Site) -> str:
    """The precondition of an axis about what several accelerators exchange."""
    return "" if site.gpus > 1 else "one accelerator has nothing to reduce over"


def _latent(site: Site) -> str:
    if site.model.kv_lora_rank is None:
        return "attention data parallelism pays where KV is a latent that every rank would copy (MLA)"
    return many_gpus(site)


def _speculation(site: Site) -> tuple[Option, ...]:
    depths = ((3, 0.50), (1, 0.30), (5, 0.45), (2, 0.40))
    if site.workload.arrival == "single_stream":
        depths = ((5, 1.5), (3, 1.2), (2, 0.8), (6, 1.2))
    return tuple(
        Option(
            f"EAGLE {steps}-1-{steps + 1}",
            {
                "speculative-algorithm": "EAGLE",
                "speculative-num-steps": steps,
                "speculative-eagle-topk": 1,
                "speculative-num-draft-tokens": steps + 1,
                "max-running-requests": SPECULATIVE_CAP,
                **SAFE_REDUCE,
            },
            gain=gain,
        )
        for steps, gain in depths
    )


def _topologies(site: Site) -> tuple[Option, ...]:
    """TP x DP over the whole node; one stream wants the widest TP, throughput the narrowest that holds the weights."""
    options = []
    for tp in (4, 2, 8, 1):
        if tp > site.gpus or site.gpus % tp or site.model.heads % tp:
            continue
        copies = site.gpus // tp
        gain = {4: 0.30, 2: 0.25, 8: 0.05, 1: 0.15}[tp]
        if site.workload.arrival == "single_stream":
            gain = {8: 0.15, 4: 0.05, 2: -0.2, 1: -0.4}[tp]
        flags: dict[str, FlagValue | None] = {"tp-size": tp, "dp-size": copies if copies > 1 else None}
        # what divided the ranks of another layout does not divide these
        flags |= {name: None for name in ("attn-dp-size", "enable-dp-attention", "ep-size") if site.engine.flag(name)}
        options.append(Option(f"TP{tp} x DP{copies}", flags, gain=gain))
    return tuple(options)


def _attention_dp(site: Site) -> tuple[Option, ...]:
    options = []
    for n in (site.gpus, site.gpus // 2):
        if n > 1 and site.gpus % n == 0:
            flags: dict[str, FlagValue | None] = {"tp-size": site.gpus, "attn-dp-size": n, "dp-size": None}
            if site.engine.flag("attn-dp-size") is None:  # builds before 0.5.23: a switch, and dp-size inside the group
                flags = {"tp-size": site.gpus, "enable-dp-attention": True, "dp-size": n}
            options.append(Option(f"TP{site.gpus}, attention DP{n}", flags))
    return tuple(options)


def _expert_parallel(site: Site) -> tuple[Option, ...]:
    return tuple(Option(f"EP{n}", {"ep-size": n}) for n in (4, 8, 2) if n <= site.gpus and site.model.experts % n == 0)


_axis = partial(Axis, GPU)

GPU_AXES: tuple[Axis, ...] = (
    _axis(
        "speculation",
        _speculation,
        0.50,
        "the checkpoint's own draft layer guesses tokens; all three depth flags together, an explicit running cap "
        "instead of the silent 48, and no custom all-reduce, which can dead-lock in verification under load",
        "sglang server arguments; sglang PR 29313; SGLang cookbook for GLM-5.2 on MI355X (5-1-6, 1-1-2)",
        why_not=_drafts,
        helps=TPOT,
        family="speculation",
        conflicts=frozenset({"topology", "running-cap", "all-reduce-fusion"}),
        lossy=True,
    ),
    _axis(
        "topology",
        _topologies,
        0.30,
        "replicas of narrower tensor parallelism spend less time in all-reduce",
        "Wafer's GLM-5.2 report: TP8 → TP4 x DP2 1461 → 1944 tok/s per node",
        why_not=many_gpus,
        helps=BOTH,
        family="topology",
        conflicts=frozenset({"speculation", "attention-dp", "expert-parallel", "running-cap"}),
    ),
    _axis(
        "running-cap",
        ladder("max-running-requests", 256, 128, 512),
        0.20,
        "an explicit cap: the built-in one is 48 per replica once speculation is on",
        "sglang server arguments; published MI355X MTP rows stop at 44–50 requests in decode",
        helps=CAP,
        ladder="max-running-requests",
        bounds=(8, 2048),
        conflicts=frozenset({"speculation", "topology"}),
    ),
    _axis(
        "kv-dtype",
        ladder("kv-cache-dtype", "fp8_e4m3"),
        0.15,
        "half the bytes per cached token: more requests fit and decode reads less",
        "SGLang cookbook for GLM-5.2 MXFP4 on MI355X",
        helps=frozenset({"memory", "tpot"}),
        conflicts=frozenset({"sparse-backend"}),
        lossy=True,
    ),
    _axis(
        "chunk",
        ladder("chunked-prefill-size", 32768, 131072, 65536, 8192),
        0.10,
        "long chunks finish a prompt sooner, short ones let decode in between",
        "SGLang cookbook for GLM-5.2 (32768 balanced, 131072 low latency)",
        helps=TTFT,
        ladder="chunked-prefill-size",
        bounds=(2048, 196608),
    ),
    _axis(
        "attention-dp",
        _attention_dp,
        0.10,
        "each rank keeps its own requests' latent KV instead of a copy of all",
        "sglang server arguments; the running cap and the chunk size are divided by it",
        why_not=_latent,
        helps=frozenset({"memory", "tpot"}),
        family="topology",
        conflicts=frozenset({"topology", "speculation", "sparse-backend"}),
    ),
    _axis(
        "expert-parallel",
        _expert_parallel,
        0.05,
        "whole experts per rank instead of slices of each",
        "sglang PR 39230: high throughput with TP4/EP4",
        why_not=moe,
        helps=BOTH,
        family="experts",
        conflicts=frozenset({"topology", "moe-runner"}),
    ),
    _axis(
        "memory",
        ladder("mem-fraction-static", 0.90, 0.85, 0.80),
        0.05,
        "a larger KV pool, until activations no longer fit",
        "sglang server arguments; with aiter attention and a long context the value is cut by 0.85",
        helps=frozenset({"memory"}),
        ladder="",
        family="memory",
    ),
)
