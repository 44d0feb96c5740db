"""Axes of an AMD Instinct node: attention, experts, reductions, and the scheduler around them."""

from __future__ import annotations

from functools import partial

from day0.agent.policy.axes import Axis, Option, Site, fixed, ladder
from day0.agent.policy.axes_gpu import BOTH, GPU, TPOT, TTFT, many_gpus, moe


def _shared_expert(site: Site) -> str:
    return moe(site) or ("" if site.model.shared_experts > 0 else "the model has no shared expert")


def _sparse(site: Site) -> str:
    names = f"{site.model.architecture} {site.model.model_type}".lower()
    return "" if "dsa" in names or "deepseek_v32" in names else "only for models with sparse attention (DSA)"


def _dense_attention(site: Site) -> str:
    return "" if _sparse(site) else "sparse-attention models choose their own attention backend"


def _fp4(site: Site) -> str:
    quantized = (site.model.quantization or "").lower()
    return "" if "quark" in quantized or "fp4" in quantized else "only for Quark MXFP4 checkpoints"


def _shared(site: Site) -> str:
    return "" if site.workload.cached_share > 0 else "the workload shares no prefixes"


def _not_shared(site: Site) -> str:
    return "" if site.workload.cached_share == 0 else "the workload lives on its shared prefixes"


FUSE, SPLIT = "enforce-shared-experts-fusion", "disable-shared-experts-fusion"


def _graphs(site: Site) -> tuple[Option, ...]:
    flag = "cuda-graph-max-bs-decode"
    older = "cuda-graph-max-bs"  # the name in builds before 0.5.15
    flag = older if site.engine.flag(flag) is None and site.engine.flag(older) is not None else flag
    return tuple(Option(f"{flag} {n}", {flag: n}) for n in (256, 128, 512))


_axis = partial(Axis, GPU)

GPU_KERNEL_AXES: tuple[Axis, ...] = (
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
        "moe-runner",
        ladder("moe-runner-backend", "aiter", "triton"),
        0.06,
        "grouped matrix products of the experts",
        "sglang server arguments; Quark MXFP4 experts need aiter",
        why_not=moe,
        helps=BOTH,
        family="experts",
        conflicts=frozenset({"expert-parallel", "shared-fusion"}),
        lossy=True,
    ),
    _axis(
        "shared-fusion",
        fixed(
            Option("shared expert fused", {FUSE: True, SPLIT: None}, gain=0.08),
            Option("shared expert apart", {SPLIT: True, FUSE: None}, gain=0.01),
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
        why_not=many_gpus,
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
        why_not=many_gpus,
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
        "graph-batch",
        _graphs,
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
