"""Axes of a CPU server's scheduling, batching, prefix cache and streaming."""

from __future__ import annotations

from functools import partial

from day0.agent.policy.axes import Axis, Helps, Option, Site, fixed, ladder
from day0.agent.policy.axes_cpu import BOTH, CPU, MEASURED, TPOT, cores

TTFT: frozenset[Helps] = frozenset({"ttft"})


def _shared(site: Site) -> str:
    return "" if site.workload.cached_share > 0 else "the workload shares no prefixes"


def _not_shared(site: Site) -> str:
    share = site.workload.cached_share
    return f"{share:.0%} of the input is a shared prefix, which the cache saves" if share > 0 else ""


def _loaded(site: Site) -> str:
    return "a single stream never queues" if site.workload.arrival == "single_stream" else ""


def _caps(site: Site) -> tuple[Option, ...]:
    """A cap trades time to first token for time per output token.

    It pays where a high percentile of TPOT is limited and TTFT leaves room to wait; a median is not moved by it.
    """
    slo = site.workload.slo
    patient = slo.ttft_ms is None or (slo.tpot_ms is not None and slo.ttft_ms >= 25 * slo.tpot_ms)
    gains = {8: 0.10, 16: 0.06, 4: 0.05} if patient and slo.tpot_percentile > 50 else {8: 0.03, 16: 0.02, 4: 0.01}
    return tuple(Option(f"max-running-requests {n}", {"max-running-requests": n}, gain=g) for n, g in gains.items())


_axis = partial(Axis, CPU)

CPU_SERVING_AXES: tuple[Axis, ...] = (
    _axis(
        "running-cap",
        _caps,
        0.08,
        "fewer requests in decode keep each one within its time per token; the others wait, which costs TTFT",
        MEASURED + ": 8 instead of 16 running, TPOT 110 → 70 ms, p95 TTFT 0.5 → 3.2 s at the same rate",
        why_not=_loaded,
        helps=TPOT,
        ladder="max-running-requests",
        bounds=(1, 512),
        conflicts=frozenset({"speculation", "replicas"}),
    ),
    _axis(
        "chunk",
        ladder("chunked-prefill-size", 128, 64, 512, 2048),
        0.02,
        "short prefill chunks let decode steps in between; long ones finish a prompt sooner",
        helps=BOTH,
        ladder="chunked-prefill-size",
        bounds=(32, 16384),
        conflicts=frozenset({"mixed-chunk", "page"}),
    ),
    _axis(
        "mixed-chunk",
        fixed(Option("mixed chunks", {"enable-mixed-chunk": True})),
        -0.40,
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
        ladder("num-continuous-decode-steps", 2, 4, 8),
        0.02,
        "several decode steps for one pass of the scheduler; raises time to first token",
        MEASURED + ": 4 steps, together with streaming every 4 tokens, TPOT 69 → 80 ms at 2 requests/s",
        helps=TPOT,
        ladder="num-continuous-decode-steps",
        bounds=(1, 32),
        conflicts=frozenset({"overlap"}),
    ),
    _axis(
        "stream",
        ladder("stream-interval", 4, 8, 16),
        0.03,
        "fewer, larger pieces on the wire: less work for tokenizer and HTTP threads on the same cores",
        MEASURED + ": within the noise at 16 clients",
        helps=TPOT,
        ladder="stream-interval",
        bounds=(1, 64),
    ),
    _axis(
        "overlap",
        fixed(Option("no overlap", {"disable-overlap-schedule": True})),
        0.03,
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
        0.02,
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
        why_not=cores(2),
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
)
