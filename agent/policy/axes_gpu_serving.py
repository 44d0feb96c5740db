"""Axes of an AMD Instinct node: where to start, routing between replicas, the host's memory, and what is made."""

from __future__ import annotations

from functools import partial

from day0.agent.policy.axes import Axis, Option, Site, fixed
from day0.agent.policy.axes_gpu import BOTH, GPU, TPOT, TTFT, many_gpus, moe
from day0.agent.policy.published import nearest_of, start_options

_axis = partial(Axis, GPU)


def _shared(site: Site) -> str:
    return "" if site.workload.cached_share > 0 else "the workload shares no prefixes"


def _loaded(site: Site) -> str:
    return "a single stream never queues" if site.workload.arrival == "single_stream" else ""


def _routed(site: Site) -> str:
    return _loaded(site) or many_gpus(site)


def _offload(site: Site) -> str:
    return _shared(site) or _loaded(site)


def _images(site: Site) -> tuple[Option, ...]:
    return tuple(Option(f"image {name}", image=digest) for digest, name in sorted(site.images.items()))


def _other_images(site: Site) -> str:
    return "" if site.images else "these nodes have one engine image"


GPU_SERVING_AXES: tuple[Axis, ...] = (
    _axis(
        "published-recipe",
        start_options,
        0.25,
        "what others publish for the nearest architecture, precision and traffic: a start that bundles are made on",
        "SGLang cookbook, InferenceX recipes at 843c6254 and Wafer's report (tools/published.yaml)",
        why_not=nearest_of,
        helps=BOTH,
        start=True,
    ),
    _axis(
        "image",
        _images,
        0.03,
        "ROCm and aiter of another pin: some accuracy collapses and crashes vanish by tag, and the same configuration "
        "differs by 16 % in the median between software stacks",
        "published MI355X rows of one configuration under several images; failure reports of SGLang on ROCm",
        why_not=_other_images,
        helps=BOTH,
        family="image",
        lossy=True,
    ),
    _axis(
        "routing",
        fixed(
            Option("fewest requests first", {"load-balance-method": "total_requests"}, gain=0.02),
            Option("fewest tokens first", {"load-balance-method": "total_tokens"}, gain=0.02),
            Option("separate servers behind a cache-aware router", {"router-policy": "cache_aware"}, gain=0.02),
        ),
        0.02,
        "a request goes to the replica with the least work, or to the one that has its prefix, not to the next in turn",
        "sglang server arguments; sglang-router 0.3.2",
        why_not=_routed,
        helps=TTFT,
        family="routing",
        conflicts=frozenset({"topology"}),
    ),
    _axis(
        "host-offload",
        fixed(
            Option(
                "KV cache in host memory",
                {"enable-hierarchical-cache": True, "hicache-ratio": 1.0, "hicache-write-policy": "write_through"},
                gain=0.0,
            ),
        ),
        0.0,
        "prefixes that fall out of the accelerators' memory come back from the host's; costs 0-6 % where all fits",
        "published Qwen3.5 rows on MI355X with and without offload; InferenceX 2900 (ratio 1.0, write_through)",
        why_not=_offload,
        helps=frozenset({"memory"}),
        family="offload",
    ),
    _axis(
        "custom-all-reduce",
        fixed(
            Option("RCCL's all-reduce", {"disable-custom-all-reduce": True}, gain=-0.03),
            Option("aiter's all-reduce", {"disable-custom-all-reduce": None}, gain=0.03),
        ),
        -0.03,
        "slower, and with it quick-reduce is off; cures hangs and capture faults, so speculation brings it along and "
        "only gives it up last",
        "sglang PR 29313: dead-lock in verification from 16 to 32 concurrent requests on gfx950",
        why_not=many_gpus,
        helps=TPOT,
        family="all-reduce",
        conflicts=frozenset({"speculation", "quick-reduce", "all-reduce-fusion"}),
    ),
    _axis(
        "tuning",
        fixed(Option("tuned expert kernels", tune=True, gain=0.35)),
        0.35,
        "kernels on a heuristic fallback get rows tuned for this layout's shapes, once layout and fusion stand",
        "Wafer's report on GLM-5.2: 1944 -> 2626 tok/s per node",
        why_not=moe,
        helps=BOTH,
        family="tuning",
        conflicts=frozenset({"topology", "expert-parallel", "shared-fusion", "moe-runner"}),
    ),
)
