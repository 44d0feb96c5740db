"""What the smaller settings do on a drawn node: each draws its effect from a range that published reports span.

Settings that reports recommend are neutral or help a little; alternatives to the kernels that an image was made for
mostly cost. Neither is certain: every range reaches to the other side of one.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from math import exp

from day0.sandboxes.twin.conditions import Check, When
from day0.sandboxes.twin.parts import ModelSpec
from day0.sandboxes.twin.truth import Effect

WHOLE_EXPERTS = 0.25
"""S.d. of ln: published MI355X rows that differ by expert parallelism alone lie 0.34 apart (seven pairs, median 0)."""


def effects(rng: random.Random, model: ModelSpec) -> tuple[Effect, ...]:
    """Drawn effects of settings beside the layout."""
    return (*_everywhere(rng), *(_experts(rng) if model.geometry.experts else ()), *_precision(rng, model))


def _everywhere(rng: random.Random) -> Iterator[Effect]:
    paged = round(rng.uniform(1.05, 1.6), 2)
    yield Effect(name="Triton's attention", when=_flag(attention_backend="triton"),
                 time={"cache": paged, "attention": paged})  # fmt: skip
    yield Effect(
        name="several decode steps at once",  # public logs: 8 steps gave 4.7 %, at the price of the first token
        when=When(flags={"num-continuous-decode-steps": Check(at_least=2)}),
        time={"layer": round(rng.uniform(0.95, 1.0), 3), "prompt": round(rng.uniform(1.0, 1.05), 3)},
    )
    yield Effect(name="one attention kernel for both phases", when=_env("SGLANG_USE_AITER_UNIFIED_ATTN"),
                 time={"cache": round(rng.uniform(0.94, 1.04), 3)})  # fmt: skip
    bits = {"link": round(rng.uniform(0.4, 0.8), 2), "reduce": round(rng.uniform(0.9, 1.05), 2)}
    yield Effect(name="reductions in four bits", when=_env("ROCM_QUICK_REDUCE_QUANTIZATION"), time=bits)
    yield Effect(name="RCCL's all-reduce", when=_flag(disable_custom_all_reduce=True),
                 time={"reduce": round(rng.uniform(1.1, 1.8), 2)})  # fmt: skip
    yield Effect(name="a cache in the host's memory", when=_flag(enable_hierarchical_cache=True),
                 time={"layer": round(rng.uniform(1.0, 1.06), 3)})  # published: 0-6 % where all fits  # fmt: skip


def _experts(rng: random.Random) -> Iterator[Effect]:
    for ranks in (2, 4, 8):
        yield Effect(name=f"whole experts on {ranks} ranks", when=_flag(ep_size=ranks),
                     time={"experts": round(exp(rng.gauss(0.05, WHOLE_EXPERTS)), 3)})  # fmt: skip
    yield Effect(name="Triton's experts", when=_flag(moe_runner_backend="triton"),
                 time={"experts": round(rng.uniform(1.05, 1.8), 2)})  # fmt: skip


def _precision(rng: random.Random, model: ModelSpec) -> Iterator[Effect]:
    if model.precision == "fp4":
        yield Effect(name="FP4 products in assembly", when=_env("SGLANG_ROCM_USE_AITER_FP4_ASM_GEMM"),
                     time={"matrix": round(rng.uniform(0.94, 1.03), 3)})  # fmt: skip


def _flag(**given: bool | int | str) -> When:
    return When(flags={name.replace("_", "-"): Check(equals=value) for name, value in given.items()})


def _env(name: str) -> When:
    return When(env={name: Check(absent=False)})
