"""What no candidate may ask for, whoever proposes it: fakes of the result, and ways out of the sandbox.

Flags are looked up by the name the engine build itself uses. The environment is an allow-list of named variables:
whatever isn't here is refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from day0.runs.workload import FlagValue


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# day0 sets these itself; a candidate that did would run something else than what is measured.
OWN = _words(
    "model-path model served-model-name host port revision tokenizer-path device api-key admin-api-key enable-metrics "
    "chat-template completion-template nnodes node-rank dist-init-addr nccl-port grpc-port base-gpu-id gpu-id-step "
    "random-seed weight-version config fastapi-root-path skip-tokenizer-init is-embedding"
)
# Each changes what is computed, counted or answered, not how fast.
FAKES: dict[str, str] = {
    "json-model-override-args": "it changes the model itself (layers, experts, top-k, context)",
    "allow-auto-truncate": "it cuts long prompts",
    "preferred-sampling-params": "it changes what the load generator asked for",
    "sampling-defaults": "it changes what the load generator asked for",
    "default-chat-template-kwargs": "it changes what the load generator asked for",
    "enable-return-routed-experts": "it is a debugging aid",
    "load-balance-test": "it is a debugging aid",
    "prefill-only-disable-kv-cache": "it can't generate",
    "weight-cache-mode": "weights must come from the checkpoint that is named",
    "remote-instance-weight-loader-backend": "weights must come from the checkpoint that is named",
    "quantize-and-serve": "a quantised checkpoint is another checkpoint and is made by its own tool",
    "lora-paths": "it serves another model",
}
LOADERS = frozenset({"auto", "safetensors", "fastsafetensors", "layered"})
CONSENT: dict[str, str] = {
    "trust-remote-code": "code from a model's repository needs a person's consent for that revision (`day0 consent`)",
    "trust-request-chat-template": "templates from requests would run in the server",
    "enable-custom-logit-processor": "it runs pickled code from requests",
}
# Programs, sockets, files and remote ends: nothing of a measurement needs them.
OUTWARD = re.compile(
    r"(^|-)(path|paths|folder|dir|file|endpoint|endpoints|url|urls|addr|ip|port|ports|socket|keyfile|certfile|certs|"
    r"sidecar|server|target|custom|hook|hooks|dump|linker|parser)($|-)"
    r"|^(ssl|otlp|disaggregation|encoder|forward-hooks|export|log-requests|kv-events|load-publish|mooncake|trace|spec-trace|"
    r"hicache-storage|lmcache|enable-lmcache|enable-flexkv|flexkv|modelexpress|warmups|skip-server-warmup|grpc|smg|use-ray|"
    r"elastic|checkpoint-engine|enable-trace|decoupled|remote-instance|debug|watermark|msprobe|model-loader-extra-config|"
    r"expert-distribution|enable-return|return|modelopt|decrypted|gated-launch)(-|$)"
)
HARMLESS = frozenset({"disable-custom-all-reduce", "enable-tokenizer-batch-encode"})  # caught by their names only

# Variables that only change speed; exact names, or a prefix that ends in an underscore.
ENV_NAMES = _words(
    "OMP_NUM_THREADS OMP_PROC_BIND OMP_PLACES OMP_WAIT_POLICY OMP_SCHEDULE KMP_BLOCKTIME KMP_AFFINITY GOMP_SPINCOUNT "
    "GOMP_CPU_AFFINITY MKL_NUM_THREADS OPENBLAS_NUM_THREADS MALLOC_ARENA_MAX MALLOC_MMAP_THRESHOLD_ "
    "MALLOC_TRIM_THRESHOLD_ MALLOC_TOP_PAD_ MALLOC_CONF ONEDNN_PRIMITIVE_CACHE_CAPACITY ONEDNN_DEFAULT_FPMATH_MODE "
    "TORCHINDUCTOR_MAX_AUTOTUNE TORCHINDUCTOR_FREEZING TORCHINDUCTOR_CPP_WRAPPER TOKENIZERS_PARALLELISM "
    "PYTORCH_HIP_ALLOC_CONF PYTORCH_ALLOC_CONF GPU_MAX_HW_QUEUES GPU_PINNED_MIN_XFER_SIZE HIP_FORCE_DEV_KERNARG "
    "HSA_NO_SCRATCH_RECLAIM HSA_ENABLE_IPC_MODE_LEGACY NCCL_MIN_NCHANNELS NCCL_MAX_NCHANNELS NCCL_PROTO NCCL_ALGO "
    "RCCL_MSCCL_ENABLE SAFETENSORS_FAST_GPU ROCM_QUICK_REDUCE_QUANTIZATION ROCM_QUICK_REDUCE_CAST_BF16_TO_FP16 "
    "ROCM_QUICK_REDUCE_MAX_SIZE_BYTES_MB USE_ROCM_AITER_ROPE_BACKEND AMD_SERIALIZE_COPY"
)
SGLANG_ENV = _words(
    "SGLANG_CPU_OMP_THREADS_BIND SGLANG_USE_AITER SGLANG_USE_AITER_AR SGLANG_USE_AITER_AG "
    "SGLANG_USE_AITER_UNIFIED_ATTN "
    "SGLANG_AITER_KV_CACHE_LAYOUT SGLANG_USE_AITER_MOE_GU_ITLV SGLANG_AITER_MOE_SORTING_DISPATCH_POLICY "
    "SGLANG_AITER_HONOR_EXPLICIT_MEM_FRACTION SGLANG_AITER_MLA_GLUON SGLANG_AITER_MLA_DECODE_BACKEND "
    "SGLANG_AITER_MLA_VERIFY_BACKEND SGLANG_AITER_MLA_PERSIST SGLANG_ROCM_USE_AITER_FP4_ASM_GEMM "
    "SGLANG_ROCM_USE_MULTI_STREAM SGLANG_ROCM_SMALLM_ROUTER SGLANG_ROCM_SMALLM_MOE SGLANG_ROCM_SMALLM_FP8_PROJ "
    "SGLANG_ROCM_FUSED_DECODE_MLA SGLANG_MOE_PADDING SGLANG_OPT_USE_TOPK_V2 SGLANG_USE_FUSED_METADATA_COPY "
    "SGLANG_DSA_FUSE_TOPK SGLANG_DSA_HIP_DISABLE_PRESHUFFLE SGLANG_DP_USE_REDUCE_SCATTER "
    "SGLANG_AMD_USE_FLYDSL_MEGA_MOE SGLANG_USE_1STAGE_ALLREDUCE SGLANG_ENABLE_SPEC_V2 SGLANG_SET_CPU_AFFINITY "
    "SGLANG_GLM_NEXTN_MOE_PTPC SGLANG_USE_ROCM700A"
)
AITER_ENV = _words(
    "AITER_KSPLIT AITER_FLYDSL_FORCE AITER_FLYDSL_STAGE2_FP8 AITER_USE_NT AITER_XBFLOAT16 AITER_USE_CK_MOE_SORTING "
    "AITER_USE_FLYDSL_MOE_SORTING AITER_MOE_SORT_BACKEND AITER_FORCE_A8W4 AITER_MXFP4_INTERMEDIATE AITER_MXFP4_MOE_SF "
    "AITER_LOG_TUNED_CONFIG AITER_ENABLE_EXPERIMENTAL AITER_TRITON_ONLY AITER_USE_SYSTEM_TRITON"
)
ENV = ENV_NAMES | SGLANG_ENV | AITER_ENV
FAKE_ENV: dict[str, str] = {
    "SGLANG_SIMULATE_ACC_LEN": "it fakes the acceptance of speculation",
    "SGLANG_SIMULATE_ACC_METHOD": "it fakes the acceptance of speculation",
    "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN": "it changes the model's context",
    "SGLANG_USE_CPU_ENGINE": "it needs kernels that no published wheel has",
}
# An allocator may be preloaded only from the path where the engine's own survey found it.
ALLOCATORS = ("tcmalloc", "jemalloc", "mimalloc")
VALUE = re.compile(r"[A-Za-z0-9_.,:|+@=/ -]{0,200}\Z")
JSON = re.compile(r"\{[A-Za-z0-9_.,:|+@ \[\]{}\"-]{0,1000}\}\Z")


def flag_ban(name: str, value: FlagValue) -> str:
    """Why a flag (by the engine's own name for it) may not be set to a value; empty = it may."""
    other = FAKES.get(name) or CONSENT.get(name)
    loads = name in {"load-format", "speculative-draft-load-format"} and str(value) not in LOADERS
    accepts = name.startswith("speculative-accept-threshold") and not _number(value) >= 1
    outward = name not in HARMLESS and OUTWARD.search(name) is not None
    text = value if isinstance(value, str) else ""
    endless = isinstance(value, float) and not math.isfinite(value)
    rules = (
        (endless, f"the value of --{name} is not a finite number"),
        (name in OWN, f"--{name} belongs to day0"),
        (other is not None, f"--{name} is banned: {other}"),
        (loads, f"--{name} {value} is banned: weights must be the checkpoint's own, and never pickled"),
        (accepts, f"--{name} below 1 is banned: it accepts tokens that the model would not have written"),
        (outward, f"--{name} is banned: it reaches for files, programs or remote ends"),
        (text.startswith("-") and math.isnan(_number(text)), f"the value of --{name} looks like another flag"),
        (not (VALUE.match(text) or JSON.match(text)), f"the value of --{name} has characters that no flag needs"),
    )
    return next((reason for wrong, reason in rules if wrong), "")


def env_ban(name: str, value: str, capabilities: Mapping[str, str]) -> str:
    """Why a variable may not be set to a value; empty = it may."""
    if name in FAKE_ENV:
        return f"{name} is banned: {FAKE_ENV[name]}"
    if name == "LD_PRELOAD":
        known = [capabilities[a] for a in ALLOCATORS if capabilities.get(a)]
        return "" if value in known else "LD_PRELOAD may only name an allocator that the survey of the engine found"
    if name not in ENV:
        return f"{name} is not among the variables that may be set: only named performance variables are"
    if not VALUE.match(value) or "/" in value:
        return f"the value of {name} has characters that no performance variable needs"
    return ""


def _number(value: FlagValue) -> float:
    """The value as a number; NaN where it is none."""
    try:
        return float(value)
    except ValueError:
        return float("nan")
