"""Axes of a server that computes on the CPU: what the engine's `--help` offers and what can matter there.

On a CPU each Python step of the scheduler competes with the arithmetic for the same cores, the KV pool is ordinary
memory, and there is no kernel library to choose from. Where a gain was measured, the source says so; elsewhere it
is a guess from the engine's own help text, and small.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from day0.agent.policy.axes import Axis, Helps, Kind, Option, Site, fixed
from day0.runs.workload import FlagValue

MEASURED = "measured with SGLang 0.5.23 and a 36 M parameter model on one Zen 4 core"
CPU: frozenset[Kind] = frozenset({"cpu"})
TPOT: frozenset[Helps] = frozenset({"tpot"})
BOTH: frozenset[Helps] = frozenset({"ttft", "tpot"})


def _compiler(site: Site) -> str:
    if "compiler" in site.engine.capabilities:
        return ""
    return "torch.compile needs a C++ compiler and no g++ was found"


def cores(needed: int) -> Callable[[Site], str]:
    """The precondition of an axis that needs so many server cores."""

    def why_not(site: Site) -> str:
        return "" if site.cores >= needed else f"needs {needed} server cores, the target gives {site.cores}"

    return why_not


def _kernels(site: Site) -> str:
    if {"sgl-kernel", "sgl_kernel", "sgl-kernel-cpu"} & set(site.engine.packages):
        return ""
    return "needs the sgl_kernel package, which this engine environment does not have"


def _drafts(site: Site) -> tuple[Option, ...]:
    """Our plug-in verifies chains of drafts in its own attention; a kernel library has trees and its own backend."""
    common: dict[str, FlagValue] = {"speculative-algorithm": "NGRAM", "max-running-requests": 16}
    if _plugged(site):
        common |= {"speculative-ngram-max-bfs-breadth": 1, "attention-backend": "torch_grouped"}
    return tuple(
        Option(f"n-grams, drafts of {width}", {**common, "speculative-num-draft-tokens": width}) for width in (4, 8)
    )


def _plugged(site: Site) -> bool:
    """Whether the engine's plug-in for processors can speculate."""
    version = site.engine.packages.get("day0_sglang_cpu", "0").split(".")
    return [int(part) for part in version[:2]] >= [0, 2]


def _ngrams(site: Site) -> str:
    if site.workload.temperature > 0:
        return "drafts are held against the most likely token here: requests of this workload sample"
    return "" if _plugged(site) else _kernels(site)


def _amx(site: Site) -> str:
    return _kernels(site) if "amx" in site.engine.capabilities else "this processor has no AMX tiles"


def _dtypes(site: Site) -> tuple[Option, ...]:
    served = str(site.target.base_flags.get("dtype", site.model.dtype))
    have = {"bfloat16": "bfloat16", "float16": "float16", "half": "float16"}.get(served, "float32")
    # half precision without hardware for it runs through conversions: three times slower than bfloat16
    tiles = "amx" in site.engine.capabilities
    gains = {"float32": -0.30 if tiles else 0.15, "bfloat16": 0.30 if tiles else 0.02, "float16": -0.60}
    return tuple(Option(f"dtype {d}", {"dtype": d}, gain=g) for d, g in gains.items() if d != have)


def _splits(site: Site) -> tuple[Option, ...]:
    sizes = [n for n in (2, 4, 8) if n <= site.cores and site.model.kv_heads % n == 0 and site.model.heads % n == 0]
    bind = {n: "|".join(str(core) for core in site.target.server_cores[:n]) for n in sizes}
    return tuple(
        Option(f"tp {n}", {"tp-size": n}, {"SGLANG_CPU_OMP_THREADS_BIND": bind[n]} if bind[n] else {}) for n in sizes
    )


def _threads(site: Site) -> tuple[Option, ...]:
    counts = sorted({site.cores, max(2, site.cores // 2)}, reverse=True)
    return tuple(Option(f"{n} threads", {}, {"OMP_NUM_THREADS": str(n)}) for n in counts)


def _replicas(site: Site) -> tuple[Option, ...]:
    return tuple(Option(f"dp {n}", {"dp-size": n}) for n in (2, 4, 8) if n <= site.cores)


def _allocators(site: Site) -> tuple[Option, ...]:
    tuned = {"MALLOC_MMAP_THRESHOLD_": "1073741824", "MALLOC_TRIM_THRESHOLD_": "4294967296"}
    options = [Option("glibc keeps its memory", {}, {**tuned, "MALLOC_TOP_PAD_": "67108864"}, gain=0.12)]
    for name in ("tcmalloc", "jemalloc"):
        if library := site.engine.capabilities.get(name):
            options.append(Option(name, {}, {"LD_PRELOAD": library}, gain=0.11))
    return tuple(options)


_axis = partial(Axis, CPU)

CPU_AXES: tuple[Axis, ...] = (
    _axis(
        "dtype",
        _dtypes,
        0.15,
        "without matrix units for bfloat16 plain attention decodes faster in float32; prefill may be slower",
        MEASURED + ": 84 → 97 tok/s at 16 clients, TPOT 159 → 127 ms; float16 three times slower",
        trusted=True,
        helps=TPOT,
        lossy=True,
        conflicts=frozenset({"compile", "parallelism"}),
    ),
    _axis(
        "allocator",
        _allocators,
        0.12,
        "activations of each step are allocated and freed again; keeping the pages saves the kernel's zeroing",
        MEASURED + ": 97 → 109 tok/s at 16 clients in float32, with glibc's own settings as with tcmalloc",
        trusted=True,
        helps=BOTH,
        family="allocator",
    ),
    _axis(
        "attention",
        fixed(Option("grouped attention", {"attention-backend": "torch_grouped"})),
        1.0,
        "the heads of a group share one pass over keys and values, and cached rows are not computed again",
        MEASURED + ": 81 → 237 tok/s at 16 clients in bfloat16, 113 → 174 in float32",
        trusted=True,
        helps=BOTH,
        family="attention",
        conflicts=frozenset({"dtype", "amx"}),
    ),
    _axis(
        "parallelism",
        _splits,
        0.30,
        "each rank computes its share of the heads on its own core",
        why_not=cores(2),
        helps=BOTH,
        family="parallelism",
        conflicts=frozenset({"replicas", "threads"}),
    ),
    _axis(
        "replicas",
        _replicas,
        0.35,
        "one scheduler per core: no core waits for another",
        why_not=cores(2),
        helps=BOTH,
        family="parallelism",
        conflicts=frozenset({"parallelism", "threads", "running-cap"}),
    ),
    _axis(
        "threads",
        _threads,
        0.25,
        "matrix products over several cores",
        why_not=cores(2),
        helps=BOTH,
        family="threads",
        conflicts=frozenset({"parallelism", "replicas"}),
    ),
    _axis(
        "speculation",
        _drafts,
        0.10,
        "repeated text is guessed from n-grams and verified in one step",
        why_not=_ngrams,
        helps=TPOT,
        family="speculation",
        conflicts=frozenset({"running-cap", "mixed-chunk", "overlap"}),
    ),
    _axis(
        "compile",
        fixed(
            Option("torch.compile", {"enable-torch-compile": True}),
            Option("torch.compile for small batches", {"enable-torch-compile": True, "torch-compile-max-bs": 4}),
        ),
        0.02,
        "fused element-wise work saves Python and memory traffic in each step",
        MEASURED + ": no difference at 16 clients",
        why_not=_compiler,
        helps=TPOT,
        family="compile",
    ),
    _axis(
        "amx",
        fixed(Option("AMX attention", {"attention-backend": "intel_amx"})),
        0.30,
        "attention and matrix products on the processor's tiles",
        why_not=_amx,
        helps=BOTH,
        family="attention",
    ),
)
