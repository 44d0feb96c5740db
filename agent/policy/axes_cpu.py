"""Axes of a server that computes on the CPU: what the engine's `--help` offers and what can matter there.

On a CPU each Python step of the scheduler competes with the arithmetic for the same cores, the KV pool is ordinary
memory, and there is no kernel library to choose from. Where a gain was measured, the source says so; elsewhere it
is a guess from the engine's own help text, and small.
"""

from __future__ import annotations

from collections.abc import Callable

from day0.agent.policy.axes import Axis, Helps, Kind, Option, Site, fixed, ladder

MEASURED = "measured with SGLang 0.5.23 and a 36 M parameter model on one Zen 4 core"
HELP = "the engine's own --help"
CPU: frozenset[Kind] = frozenset({"cpu"})
TTFT: frozenset[Helps] = frozenset({"ttft"})
TPOT: frozenset[Helps] = frozenset({"tpot"})
BOTH: frozenset[Helps] = frozenset({"ttft", "tpot"})


def _compiler(site: Site) -> str:
    if "compiler" in site.engine.capabilities:
        return ""
    return "torch.compile needs a C++ compiler and no g++ was found"


def _shared(site: Site) -> str:
    return "" if site.workload.cached_share > 0 else "the workload shares no prefixes"


def _not_shared(site: Site) -> str:
    share = site.workload.cached_share
    return f"{share:.0%} of the input is a shared prefix, which the cache saves" if share > 0 else ""


def _loaded(site: Site) -> str:
    return "a single stream never queues" if site.workload.arrival == "single_stream" else ""


def _cores(needed: int) -> Callable[[Site], str]:
    def why_not(site: Site) -> str:
        return "" if site.cores >= needed else f"needs {needed} server cores, the target gives {site.cores}"

    return why_not


def _amx(site: Site) -> str:
    return "" if "amx" in site.engine.capabilities else "this processor has no AMX tiles"


def _dtypes(site: Site) -> tuple[Option, ...]:
    have = {"bfloat16": "bfloat16", "float16": "float16", "half": "float16"}.get(site.model.dtype, "float32")
    gains = {"float32": 0.20, "bfloat16": 0.02, "float16": -0.60}
    # half precision without hardware for it runs through conversions: three times slower than bfloat16 here
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
    options = [Option("glibc keeps its memory", {}, {**tuned, "MALLOC_TOP_PAD_": "67108864"}, gain=0.03)]
    for name in ("tcmalloc", "jemalloc"):
        if library := site.engine.capabilities.get(name):
            options.append(Option(name, {}, {"LD_PRELOAD": library}, gain=0.03))
    return tuple(options)


def _axis(
    name: str,
    options: Callable[[Site], tuple[Option, ...]],
    gain: float,
    why: str,
    source: str = HELP,
    **more: object,
) -> Axis:
    return Axis(name=name, kinds=CPU, options=options, gain=gain, why=why, source=source, **more)  # type: ignore[arg-type]


CPU_AXES: tuple[Axis, ...] = (
    _axis(
        "dtype",
        _dtypes,
        0.20,
        "without matrix units for bfloat16 the decode step is faster in float32; prefill may be slower",
        MEASURED + ": TPOT at 16 clients 128 → 92 ms and 112 → 80 ms, float16 three times slower",
        helps=TPOT,
        lossy=True,
        conflicts=frozenset({"compile", "parallelism"}),
    ),
    _axis(
        "parallelism",
        _splits,
        0.30,
        "each rank computes its share of the heads on its own core",
        why_not=_cores(2),
        helps=BOTH,
        family="parallelism",
        conflicts=frozenset({"replicas", "threads"}),
    ),
    _axis(
        "replicas",
        _replicas,
        0.35,
        "one scheduler per core: no core waits for another",
        why_not=_cores(2),
        helps=BOTH,
        family="parallelism",
        conflicts=frozenset({"parallelism", "threads", "running-cap"}),
    ),
    _axis(
        "threads",
        _threads,
        0.25,
        "matrix products over several cores",
        why_not=_cores(2),
        helps=BOTH,
        family="threads",
        conflicts=frozenset({"parallelism", "replicas"}),
    ),
    _axis(
        "speculation",
        fixed(
            Option("n-grams", {"speculative-algorithm": "NGRAM", "max-running-requests": 16}),
            Option(
                "n-grams, short drafts",
                {"speculative-algorithm": "NGRAM", "speculative-num-draft-tokens": 4, "max-running-requests": 16},
            ),
        ),
        0.03,
        "repeated text is guessed from n-grams and verified in one step",
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
        0.04,
        "fused element-wise work saves Python and memory traffic in each step",
        MEASURED + ": no difference at 16 clients",
        why_not=_compiler,
        helps=TPOT,
        family="compile",
    ),
    _axis(
        "running-cap",
        ladder("max-running-requests", 8, 4, 16, 32),
        0.06,
        "fewer requests in decode keep each one within its time per token",
        why_not=_loaded,
        helps=TPOT,
        ladder="max-running-requests",
        bounds=(1, 512),
        conflicts=frozenset({"speculation", "replicas"}),
    ),
    _axis(
        "chunk",
        ladder("chunked-prefill-size", 128, 64, 512, 2048),
        0.05,
        "short prefill chunks let decode steps in between; long ones finish a prompt sooner",
        helps=BOTH,
        ladder="chunked-prefill-size",
        bounds=(32, 16384),
        conflicts=frozenset({"mixed-chunk", "page"}),
    ),
    _axis(
        "mixed-chunk",
        fixed(Option("mixed chunks", {"enable-mixed-chunk": True})),
        0.02,
        "prefill and decode share a step instead of waiting for each other",
        MEASURED + ": with chunks of 256 tokens 86 → 45 tok/s at 16 clients",
        helps=TPOT,
        conflicts=frozenset({"chunk", "speculation"}),
    ),
    _axis(
        "prefill-pace",
        fixed(
            Option("2 decode rounds after a prefill", {"prefill-decode-interval": 2}),
            Option("8 decode rounds after a prefill", {"prefill-decode-interval": 8}),
        ),
        0.03,
        "running requests get their tokens before the next prompt is read",
        helps=TPOT,
        why_not=_loaded,
        ladder="prefill-decode-interval",
        bounds=(1, 64),
    ),
    _axis(
        "prefill-batch",
        ladder("prefill-max-requests", 1, 2, 4),
        0.02,
        "prompts read one by one answer earlier than prompts read together",
        helps=TTFT,
        why_not=_loaded,
        ladder="prefill-max-requests",
        bounds=(1, 64),
    ),
    _axis(
        "continuous-decode",
        ladder("num-continuous-decode-steps", 4, 2, 8),
        0.04,
        "several decode steps for one pass of the scheduler; raises time to first token",
        helps=TPOT,
        ladder="num-continuous-decode-steps",
        bounds=(1, 32),
        conflicts=frozenset({"overlap"}),
    ),
    _axis(
        "stream",
        ladder("stream-interval", 4, 8, 16),
        0.04,
        "fewer, larger pieces on the wire: less work for tokenizer and HTTP threads on the same cores",
        MEASURED + ": within the noise at 16 clients",
        helps=TPOT,
        ladder="stream-interval",
        bounds=(1, 64),
    ),
    _axis(
        "overlap",
        fixed(Option("no overlap", {"disable-overlap-schedule": True})),
        0.02,
        "overlapping the scheduler with the model saves nothing where both use one core",
        MEASURED + ": within the noise, tail of the time per token worse",
        helps=BOTH,
        conflicts=frozenset({"continuous-decode", "speculation"}),
    ),
    _axis(
        "policy",
        fixed(
            Option("longest prefix first", {"schedule-policy": "lpm"}),
            Option("depth first by weight", {"schedule-policy": "dfs-weight"}),
        ),
        0.03,
        "requests with a cached prefix go first, so that the prefix is still there",
        why_not=_shared,
        helps=TTFT,
        family="policy",
    ),
    _axis(
        "short-first",
        fixed(Option("shortest prefill first", {"schedule-policy": "shortest-prefill-first"})),
        0.02,
        "the fewest tokens still to be read go first",
        why_not=_loaded,
        helps=TTFT,
        family="policy",
    ),
    _axis(
        "prefix-cache",
        fixed(Option("no prefix cache", {"disable-radix-cache": True})),
        0.02,
        "the tree of prefixes costs time and saves none where nothing is shared",
        why_not=_not_shared,
        helps=BOTH,
        conflicts=frozenset({"policy"}),
    ),
    _axis(
        "page",
        ladder("page-size", 16, 32, 64),
        0.03,
        "fewer, larger KV pages: less index work in each step",
        helps=BOTH,
        ladder="page-size",
        bounds=(1, 128),
        conflicts=frozenset({"chunk"}),
    ),
    _axis(
        "conservativeness",
        ladder("schedule-conservativeness", 0.3, 0.1),
        0.02,
        "admits requests before the KV pool is free for their whole answer",
        why_not=_loaded,
        helps=frozenset({"cap", "memory", "ttft"}),
        ladder="schedule-conservativeness",
        bounds=(0.05, 2),
    ),
    _axis(
        "allocator",
        _allocators,
        0.03,
        "activations of each step are allocated and freed again; keeping the pages saves the kernel's zeroing",
        helps=BOTH,
        family="allocator",
    ),
    _axis(
        "receive",
        ladder("scheduler-recv-interval", 4, 16),
        0.01,
        "the scheduler asks for new requests less often",
        helps=TPOT,
        ladder="scheduler-recv-interval",
        bounds=(1, 64),
    ),
    _axis(
        "tokenizers",
        ladder("tokenizer-worker-num", 2),
        0.01,
        "tokenizing in a second process",
        why_not=_cores(2),
        helps=TTFT,
    ),
    _axis(
        "notify",
        ladder("batch-notify-size", 16, 4),
        0.01,
        "fewer wake-ups of the HTTP process",
        helps=BOTH,
    ),
    _axis(
        "logging",
        fixed(Option("warnings only", {"log-level": "warning", "decode-log-interval": 400})),
        0.01,
        "no line per request and per batch",
        helps=BOTH,
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
