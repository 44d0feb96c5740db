"""The log lines of a boot, as SGLang words them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from day0.sandboxes.simulated.steps import Out

GIB = 2.0**30


def line(text: str, at: float, rank: str = "") -> Out:
    """With a time stamp of the node's clock, as SGLang puts in front."""
    minutes, seconds = divmod(int(at), 60)
    return Out(f"[2026-01-01 {minutes // 60 % 24:02d}:{minutes % 60:02d}:{seconds:02d}{rank}] {text}\n".encode())


def loading(avail: float) -> str:
    """Before weights are read; GiB."""
    return f"Load weight begin. avail mem={avail:.2f} GB"


def loaded(seconds: float, kind: str, avail: float, used: float) -> str:
    """After weights are read; GiB."""
    return (
        f"Load weight end. elapsed={seconds:.2f} s, type={kind}, dtype=torch.bfloat16, avail mem={avail:.2f} GB, "
        f"mem usage={used:.2f} GB."
    )


def pool(tokens: int, gib: float, kind: str) -> str:
    """The KV cache of a rank."""
    return f"KV Cache is allocated. dtype: {kind}, #tokens: {tokens}, KV size: {gib:.2f} GB"


def limits(args: Mapping[str, Any], context: int, avail: float) -> str:
    """What the scheduler resolved."""
    return (
        f"max_total_num_tokens={args['max_total_num_tokens']}, chunked_prefill_size={args['chunked_prefill_size']}, "
        f"max_prefill_tokens={args.get('max_prefill_tokens') or 16384}, "
        f"max_running_requests={args['max_running_requests']}, context_len={context}, available_gpu_mem={avail:.2f} GB"
    )


OOM = (
    "torch.OutOfMemoryError: HIP out of memory. Tried to allocate {need:.2f} GiB. GPU 0 has a total capacity of "
    "{total:.2f} GiB of which {free:.2f} GiB is free."
)
NO_ROOM = "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static."
UNTUNED = (
    "[aiter] [fused_moe] no tuned FlyDSL config for ({key}), using heuristic FlyDSL fallback "
    "(kn1='flydsl_moe1_afp4_wfp4_bf16_t32x128x256', kn2='flydsl_moe2_afp4_wfp4_bf16_t32x256x256')"
)
TUNED = (
    "[aiter] [fused_moe] using 2stage (kernelName1='flydsl_moe1_tuned', kernelName2='flydsl_moe2_tuned') for ({key})"
)
READY = "The server is fired up and ready to roll!"
