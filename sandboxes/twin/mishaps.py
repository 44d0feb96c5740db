"""Faults that a drawn world may have: each can be led around by flags, tuned rows or waiting."""

from __future__ import annotations

import random
from collections.abc import Callable

from day0.sandboxes.twin.conditions import Check, When
from day0.sandboxes.twin.world import Fault

Draw = Callable[[random.Random, tuple[int, ...]], Fault]


def flags(**checks: Check) -> dict[str, Check]:
    """Checks by the dashed names of their flags."""
    return {name.replace("_", "-"): check for name, check in checks.items()}


def _deadlock(rng: random.Random, _: tuple[int, ...]) -> Fault:
    when = flags(speculative_algorithm=Check(absent=False), disable_custom_all_reduce=Check(absent=True))
    return Fault(
        name="verification dead-locks with the custom all-reduce under load",
        kind="hang",
        when=When(flags=when, running=rng.choice((8, 16, 32))),
    )


def _deep_drafts(rng: random.Random, _: tuple[int, ...]) -> Fault:
    line = "AttributeError: 'NoneType' object has no attribute 'zero_'"
    when = When(flags=flags(speculative_num_steps=Check(at_least=rng.choice((4, 5)))))
    return Fault(name="deep drafts are not captured", kind="crash", stage="graph", when=when, log=(line,))


def _wrong_cache(rng: random.Random, _: tuple[int, ...]) -> Fault:
    when, share = When(flags=flags(kv_cache_dtype=Check(equals="fp8_e4m3"))), round(rng.uniform(0.15, 0.7), 2)
    pace = round(rng.uniform(0.75, 1.0), 2)
    return Fault(name="an FP8 cache loses the thread", kind="wrong_output", when=when, wrong_share=share, time=pace)


def _wrong_runner(rng: random.Random, _: tuple[int, ...]) -> Fault:
    when, pace = When(flags=flags(moe_runner_backend=Check(equals="triton"))), round(rng.uniform(0.7, 0.95), 2)
    return Fault(
        name="the Triton runner mixes up experts", kind="wrong_output", when=when, only_at_load=True, time=pace
    )  # fmt: skip


def _wide_chunks(rng: random.Random, _: tuple[int, ...]) -> Fault:
    line = "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 9.00 GiB."
    checks = flags(chunked_prefill_size=Check(at_least=rng.choice((30000, 60000))))
    when = When(flags=checks, running=rng.choice((4, 24)))
    return Fault(name="wide chunks run out of memory under load", kind="oom", when=when, log=(line,), exit_code=1)


def _slow_start(rng: random.Random, _: tuple[int, ...]) -> Fault:
    return Fault(
        name="kernels compile in silence", kind="slow_start", stage="graph", seconds=rng.choice((300.0, 900.0))
    )


def _fallback(rng: random.Random, widths: tuple[int, ...]) -> Fault:
    line = "[aiter] shape is M:512, N:4096, K:7168, not found tuned config in /tmp/a.csv, will use default config!"
    when, factor = When(flags=flags(tp_size=Check(equals=rng.choice(widths)))), round(rng.uniform(1.1, 1.5), 2)
    return Fault(
        name="one layout's products run untuned", kind="slow", stage="graph", when=when, log=(line,), time=factor
    )


def _narrow(rng: random.Random, widths: tuple[int, ...]) -> Fault:
    line = "RuntimeError: Unsupported kernel config for moe heuristic dispatch"
    when = When(flags=flags(tp_size=Check(at_most=min(widths))))
    return Fault(name="the narrowest layout has no kernel", kind="crash", stage="warmup", when=when, log=(line,))


def _expert_parallel(rng: random.Random, _: tuple[int, ...]) -> Fault:
    line = "Memory access fault by GPU node-2 (Agent handle: 0x5) on address 0x7f. Reason: Unknown."
    when = When(flags=flags(ep_size=Check(at_least=rng.choice((2, 4)))))
    return Fault(
        name="expert parallelism faults", kind="crash", stage="warmup", when=when, log=(line,), exit_code=134
    )  # fmt: skip


def _fusion(rng: random.Random, _: tuple[int, ...]) -> Fault:
    when = When(flags=flags(enable_aiter_allreduce_fusion=Check(equals=True)), running=rng.choice((16, 48)))
    return Fault(name="the fused all-reduce dead-locks under load", kind="hang", when=when)


def _memory(_rng: random.Random, _: tuple[int, ...]) -> Fault:
    line = "RuntimeError: HSA_STATUS_ERROR_OUT_OF_RESOURCES: The runtime failed to allocate the necessary resources."
    when = When(flags=flags(mem_fraction_static=Check(at_least=0.9)))
    return Fault(name="graphs find no room beside a large pool", kind="oom", stage="graph", when=when, log=(line,))


def _split_attention(rng: random.Random, _: tuple[int, ...]) -> Fault:
    line = "RuntimeError: RCCL error in: custom all-reduce of the attention groups, unhandled system error"
    when = When(flags=flags(attn_dp_size=Check(at_least=rng.choice((2, 8)))))
    return Fault(name="attention groups do not come up", kind="crash", stage="warmup", when=when, log=(line,))


def _host_cache(rng: random.Random, _: tuple[int, ...]) -> Fault:
    when = When(flags=flags(enable_hierarchical_cache=Check(equals=True)), running=rng.choice((4, 8)))
    return Fault(name="write-back to the host dead-locks under load", kind="hang", when=when)


def _four_bits(rng: random.Random, _: tuple[int, ...]) -> Fault:
    when = When(env={"ROCM_QUICK_REDUCE_QUANTIZATION": Check(absent=False)})
    share = round(rng.uniform(0.1, 0.5), 2)
    return Fault(name="four bits are too few for this model's sums", kind="wrong_output", when=when, wrong_share=share)


def _no_runner(rng: random.Random, _: tuple[int, ...]) -> Fault:
    line = (
        "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 180224, Hardware limit: 163840"
    )
    when = When(flags=flags(moe_runner_backend=Check(equals="triton")))
    return Fault(name="the Triton runner has no kernel of this shape", kind="crash", stage="warmup", when=when,
                 log=(line,))  # fmt: skip


def _paged(rng: random.Random, _: tuple[int, ...]) -> Fault:
    line = (
        "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 98304, Hardware limit: 65536"
    )
    when = When(flags=flags(attention_backend=Check(equals="triton")))
    return Fault(name="Triton's attention does not fit", kind="crash", stage="graph", when=when, log=(line,))


MISHAPS: tuple[Draw, ...] = (
    _deadlock,
    _deep_drafts,
    _wrong_cache,
    _wrong_runner,
    _wide_chunks,
    _slow_start,
    _fallback,
    _narrow,
    _expert_parallel,
    _fusion,
    _memory,
    _split_attention,
    _host_cache,
    _four_bits,
    _no_runner,
    _paged,
)
