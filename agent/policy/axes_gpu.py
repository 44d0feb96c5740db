"""Axes of an AMD Instinct node, as far as plain flags and named variables express them.

Sources are SGLang's published recipes and pull requests, AMD's tuning notes and public benchmark logs; each axis names
its own. Gains are priors that the first measured points overrule.
"""

from __future__ import annotations

from collections.abc import Callable

from day0.agent.policy.axes import Axis, Helps, Kind, Option, Site, fixed, ladder

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


def _moe(site: Site) -> str:
    return "" if site.model.experts > 0 else "a dense model has no experts"


def _shared_expert(site: Site) -> str:
    return _moe(site) or ("" if site.model.shared_experts > 0 else "the model has no shared expert")


def _sparse(site: Site) -> str:
    names = f"{site.model.architecture} {site.model.model_type}".lower()
    return "" if "dsa" in names or "deepseek_v32" in names else "only for models with sparse attention (DSA)"


def _dense_attention(site: Site) -> str:
    return "" if _sparse(site) else "sparse-attention models choose their own attention backend"


def _many_gpus(site: Site) -> str:
    return "" if site.gpus > 1 else "one accelerator has nothing to reduce over"


def _fp4(site: Site) -> str:
    quantized = (site.model.quantization or "").lower()
    return "" if "quark" in quantized or "fp4" in quantized else "only for Quark MXFP4 checkpoints"


def _latent(site: Site) -> str:
    if site.model.kv_lora_rank is None:
        return "attention data parallelism pays where KV is a latent that every rank would copy (MLA)"
    return _many_gpus(site)


def _shared(site: Site) -> str:
    return "" if site.workload.cached_share > 0 else "the workload shares no prefixes"


def _not_shared(site: Site) -> str:
    return "" if site.workload.cached_share == 0 else "the workload lives on its shared prefixes"


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
        gain = {4: 0.30, 2: 0.25, 8: 0.05, 1: 0.15}[tp]
        if site.workload.arrival == "single_stream":
            gain = {8: 0.15, 4: 0.05, 2: -0.2, 1: -0.4}[tp]
        options.append(Option(f"TP{tp} x DP{site.gpus // tp}", {"tp-size": tp, "dp-size": site.gpus // tp}, gain=gain))
    return tuple(options)


def _attention_dp(site: Site) -> tuple[Option, ...]:
    return tuple(
        Option(f"TP{site.gpus}, attention DP{n}", {"tp-size": site.gpus, "attn-dp-size": n, "dp-size": None})
        for n in (site.gpus, site.gpus // 2)
        if n > 1 and site.gpus % n == 0
    )


def _expert_parallel(site: Site) -> tuple[Option, ...]:
    return tuple(Option(f"EP{n}", {"ep-size": n}) for n in (4, 8, 2) if n <= site.gpus and site.model.experts % n == 0)


def _axis(
    name: str, options: Callable[[Site], tuple[Option, ...]], gain: float, why: str, source: str, **more: object
) -> Axis:
    return Axis(name=name, kinds=GPU, options=options, gain=gain, why=why, source=source, **more)  # type: ignore[arg-type]


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
        why_not=_many_gpus,
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
        "sparse-backend",
        fixed(
            *(
                Option(f"DSA {b}", {"dsa-prefill-backend": b, "dsa-decode-backend": b}, gain=g)
                for b, g in (("triton", 0.08), ("tilelang", 0.08), ("aiter", 0.05))
            )
        ),
        0.08,
        "kernels of sparse attention; aiter decode with fp8 KV can crash, which the ladder shows",
        "SGLang cookbook; sglang PRs 38746, 39230",
        why_not=_sparse,
        helps=BOTH,
        family="attention",
        conflicts=frozenset({"kv-dtype", "attention-dp"}),
    ),
    _axis(
        "attention-backend",
        ladder("attention-backend", "aiter", "triton"),
        0.06,
        "attention kernels",
        "sglang server arguments: aiter is the default for MHA on ROCm",
        why_not=_dense_attention,
        helps=BOTH,
        family="attention",
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
        why_not=_moe,
        helps=BOTH,
        family="experts",
        conflicts=frozenset({"topology", "moe-runner"}),
    ),
    _axis(
        "moe-runner",
        ladder("moe-runner-backend", "aiter", "triton"),
        0.06,
        "grouped matrix products of the experts",
        "sglang server arguments; Quark MXFP4 experts need aiter",
        why_not=_moe,
        helps=BOTH,
        family="experts",
        conflicts=frozenset({"expert-parallel", "shared-fusion"}),
        lossy=True,
    ),
    _axis(
        "shared-fusion",
        fixed(
            Option("shared expert fused", {"enforce-shared-experts-fusion": True}, gain=0.08),
            Option("shared expert apart", {"disable-shared-experts-fusion": True}, gain=0.01),
        ),
        0.08,
        "fusing changes the kernel's key from (E, k) to (E+1, k+1) and with it whether tuned rows hit",
        "aiter's tuned FP4 rows exist for 257 experts, top 9 only",
        why_not=_shared_expert,
        helps=TPOT,
        family="experts",
        conflicts=frozenset({"moe-runner"}),
    ),
    _axis(
        "all-reduce-fusion",
        fixed(Option("fused all-reduce", {"enable-aiter-allreduce-fusion": True})),
        0.06,
        "all-reduce, residual and norm in one kernel",
        "sglang server arguments; Wafer's GLM-5.2 report uses it",
        why_not=_many_gpus,
        helps=TPOT,
        family="all-reduce",
        conflicts=frozenset({"speculation", "attention-dp"}),
    ),
    _axis(
        "quick-reduce",
        fixed(Option("INT4 all-reduce", {}, {"ROCM_QUICK_REDUCE_QUANTIZATION": "INT4"})),
        0.03,
        "large all-reduces in four bits: lossy, so the accuracy rung decides",
        "InferenceX recipes for DeepSeek-R1 on MI355X",
        why_not=_many_gpus,
        helps=TTFT,
        family="all-reduce",
        lossy=True,
    ),
    _axis(
        "fp4-gemm",
        fixed(Option("asm FP4 products", {}, {"SGLANG_ROCM_USE_AITER_FP4_ASM_GEMM": "1"})),
        0.04,
        "dense FP4 layers through aiter's assembly kernels instead of Triton",
        "sglang environment variables",
        why_not=_fp4,
        helps=BOTH,
        family="gemm",
        lossy=True,
    ),
    _axis(
        "unified-attention",
        fixed(Option("unified attention", {}, {"SGLANG_USE_AITER_UNIFIED_ATTN": "1"})),
        0.03,
        "one kernel for prefill and decode",
        "public tuning logs for MI355X",
        why_not=_dense_attention,
        helps=BOTH,
        family="attention",
    ),
    _axis(
        "continuous-decode",
        ladder("num-continuous-decode-steps", 8, 4, 2),
        0.047,
        "several decode steps for one pass of the scheduler; raises time to first token",
        "public tuning logs for MI355X: 8 steps gave 4.7 %",
        helps=TPOT,
        ladder="num-continuous-decode-steps",
        bounds=(1, 32),
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
    _axis(
        "graph-batch",
        ladder("cuda-graph-max-bs-decode", 256, 128, 512),
        0.04,
        "decode batches above the captured size run without a graph",
        "SGLang cookbook for GLM-5.2 (128 balanced, 256 high throughput)",
        helps=TPOT,
        ladder="cuda-graph-max-bs-decode",
        bounds=(8, 1024),
    ),
    _axis(
        "policy",
        fixed(Option("longest prefix first", {"schedule-policy": "lpm"})),
        0.03,
        "requests with a cached prefix go first",
        "sglang server arguments",
        why_not=_shared,
        helps=TTFT,
    ),
    _axis(
        "prefix-cache",
        fixed(Option("no prefix cache", {"disable-radix-cache": True})),
        0.02,
        "the tree of prefixes costs time and saves none where nothing is shared",
        "InferenceX recipes with random prompts",
        why_not=_not_shared,
        helps=TTFT,
        conflicts=frozenset({"policy"}),
    ),
    _axis(
        "stream",
        ladder("stream-interval", 4, 16),
        0.02,
        "fewer, larger pieces on the wire",
        "sglang server arguments",
        helps=TPOT,
        ladder="stream-interval",
        bounds=(1, 64),
    ),
)
