"""Why a configuration gives no more than it does: a plateau is named before hardware is blamed (S47). Pure.

From the load points of one boot and what its server resolved. What a server's counters do not say shows nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from day0.runs.engine_facts import BootFacts
from day0.runs.facts import LoadPoint
from day0.runs.findings import Diagnosis
from day0.runs.workload import FlagValue, Workload
from day0.tools.summary import at

FULL = 0.95
"""Of the admission cap, or of the KV tokens, that counts as all of it."""
FALLS = 0.9
"""Of the best throughput that counts as fallen."""
BUNCHED = 0.5
"""Of the TTFT limit: while the median stays below, only bunches of arrivals wait."""
MEMORY_STEP, MOST_MEMORY = 0.04, 0.94


def explain(points: Sequence[LoadPoint], boot: BootFacts, workload: Workload) -> tuple[Diagnosis, ...]:
    """What holds back the knee that these points bracket, most important first; `none` where nothing is shown.

    The points are of one boot. What counts is the lowest rate that failed above the highest that passed.
    """
    own = [p for p in points if p.workload == workload.name and not p.warmup]
    rated = sorted((p for p in own if p.rate_rps is not None), key=_rate)
    if not rated:
        return (_clients(own, boot, workload),)
    passed = max((_rate(p) for p in rated if p.meets_slo), default=0.0)
    beyond = [p for p in rated if not p.meets_slo and _rate(p) > passed]
    found = [*_generator(beyond), *_cliff(rated, boot)]
    edge = next((p for p in beyond if p.void is None or p.void.startswith("failures")), None)
    if edge is not None:
        found += _edge(edge, boot, workload)
    if found:
        return tuple(found)
    return (Diagnosis(name="none", evidence=_nothing(rated, beyond)),)


def _rate(point: LoadPoint) -> float:
    return point.rate_rps or 0.0


def _nothing(rated: Sequence[LoadPoint], beyond: Sequence[LoadPoint]) -> str:
    if not beyond:
        return f"every offered rate up to {_rate(rated[-1]):.3g}/s passed: the knee lies higher"
    first = beyond[0]
    why = first.void or "; ".join(first.misses) or "it did not pass again"
    return f"at {_rate(first):.3g}/s: {why}; the server's counters show no cause"


def _generator(beyond: Sequence[LoadPoint]) -> Iterator[Diagnosis]:
    """The first point that should have passed or failed, and says nothing since the load came too late (S41)."""
    if beyond and (beyond[0].void or "").startswith("harness"):
        yield Diagnosis(
            name="load generator",
            evidence=f"at {_rate(beyond[0]):.3g}/s {str(beyond[0].void).removeprefix('harness: ')}",
            experiment="give the load generator more or faster cores of its own: the server may carry more than this",
        )


def _cliff(rated: Sequence[LoadPoint], boot: BootFacts) -> Iterator[Diagnosis]:
    """Throughput that falls beyond a rate instead of levelling off, output and all tokens alike.

    Output alone falls wherever prompts are read first: under overload it only comes later.
    """
    sound = [p for p in rated if p.void is None or p.void.startswith("failures")]
    if not sound:
        return
    peak = max(sound, key=lambda p: p.output_tok_s)
    fallen = next((p for p in sound if _rate(p) > _rate(peak) and _fell(p, peak)), None)
    if fallen is None:
        return
    most = int(peak.running_max) if peak.running_max else 0
    yield Diagnosis(
        name="cliff",
        evidence=f"{peak.output_tok_s:.4g} tok/s at {_rate(peak):.3g}/s, {fallen.output_tok_s:.4g} tok/s at "
        f"{_rate(fallen):.3g}/s",
        experiment="admit no more requests at once than ran at the best rate"
        + (f" ({most})" if most else "")
        + ", so that overload waits in the queue",
        flags=_flags("max-running-requests", most // copies(boot)),
    )


def _fell(point: LoadPoint, peak: LoadPoint) -> bool:
    return point.output_tok_s < FALLS * peak.output_tok_s and point.total_tok_s < FALLS * peak.total_tok_s


def _edge(edge: LoadPoint, boot: BootFacts, workload: Workload) -> Iterator[Diagnosis]:
    """What the first failing rate shows."""
    slo, where = workload.slo, f"at {_rate(edge):.3g}/s"
    slow = slo.tpot_ms is not None and edge.tpot_ms is not None and at(edge.tpot_ms, slo.tpot_percentile) > slo.tpot_ms
    if slow and edge.tpot_ms is not None:
        tpot = at(edge.tpot_ms, slo.tpot_percentile)
        busy = "" if edge.duty is None else f" with {edge.duty:.0f} requests in decode"
        yield _decode(f"{where} p{slo.tpot_percentile} TPOT is {tpot:.3g} ms{busy}", edge, boot)
    queue, cap, running = edge.queue_max, boot.max_running_requests, edge.running_max
    if not queue:  # 0, or the server does not say
        if queue is not None and _late(edge, workload) and not slow:
            yield _prefill(f"{where} nothing queues, {_ttft(edge, workload)}", edge, boot)
        return
    if cap and running is not None and running >= FULL * cap:
        yield Diagnosis(
            name="admission cap",
            evidence=f"{where} {running:.0f} of {cap} admitted requests ran while {queue:.0f} queued",
            experiment=f"raise the admission cap beyond {cap} in all and measure again",
            flags=_flags("max-running-requests", 2 * cap // copies(boot)),
        )
    elif edge.kv_use_max is not None and edge.kv_use_max >= FULL:
        yield Diagnosis(
            name="kv cap",
            evidence=f"{where} {edge.kv_use_max:.0%} of the fullest replica's KV tokens were in use while {queue:.0f} "
            "queued",
            experiment="make room for more KV tokens: more memory, an 8-bit cache, fewer and wider replicas",
            flags=_room(boot),
        )
    elif _late(edge, workload) and not slow:
        if edge.steady and _bunched(edge, workload):
            yield Diagnosis(
                name="queueing",
                evidence=f"{where} {queue:.0f} queued at most and {_ttft(edge, workload)}, half of them "
                f"{_median(edge):.0f} ms: bunches of arrivals wait",
                experiment="let bunches spread: more, narrower replicas, each request to the emptiest of them",
            )
        else:
            yield _prefill(f"{where} {queue:.0f} queued below every cap, {_ttft(edge, workload)}", edge, boot)


def _late(point: LoadPoint, workload: Workload) -> bool:
    """Whether its requests wait too long for their first token, or ever longer."""
    slo = workload.slo
    limit, seen = slo.ttft_ms, point.ttft_ms
    over = limit is not None and seen is not None and at(seen, slo.ttft_percentile) > limit
    return over or not point.steady


def _bunched(point: LoadPoint, workload: Workload) -> bool:
    limit = workload.slo.ttft_ms
    return limit is not None and point.ttft_ms is not None and point.ttft_ms.p50 < BUNCHED * limit


def _median(point: LoadPoint) -> float:
    return point.ttft_ms.p50 if point.ttft_ms is not None else 0.0


def _ttft(point: LoadPoint, workload: Workload) -> str:
    percentile = workload.slo.ttft_percentile
    if point.ttft_ms is None:
        return "no first token came"
    return f"p{percentile} TTFT is {at(point.ttft_ms, percentile):.0f} ms"


def _prefill(evidence: str, point: LoadPoint, boot: BootFacts) -> Diagnosis:
    chunk = boot.resolved.get("chunked_prefill_size")
    whole = isinstance(chunk, int) and not isinstance(chunk, bool) and chunk > 0
    read = "" if point.uncached_tok_s is None else f"; it prefilled {point.uncached_tok_s:.4g} uncached tok/s"
    return Diagnosis(
        name="prefill-bound",
        evidence=evidence + read,
        experiment="prefill faster: larger chunks, kernels tuned for them, a wider split, more cache hits",
        flags={"chunked-prefill-size": 2 * chunk} if whole and isinstance(chunk, int) else {},
    )


def _decode(evidence: str, point: LoadPoint, boot: BootFacts) -> Diagnosis:
    ways = ["fewer bytes a step (an 8-bit KV cache)", "other replicas"]
    if point.acceptance_length is None:
        ways.insert(0, "speculation, where the model has a draft")
    if boot.fallback_lines:
        ways.insert(0, f"tuned kernels ({boot.fallback_lines} lines of the log tell of fallbacks)")
    return Diagnosis(name="decode-bound", evidence=evidence, experiment=f"make a step cheaper: {', '.join(ways)}")


def _clients(own: Sequence[LoadPoint], boot: BootFacts, workload: Workload) -> Diagnosis:
    """Where a request's time goes while a fixed number of clients asks, one request after the other."""
    point = next((p for p in reversed(own) if p.void is None and p.ttft_ms and p.tpot_ms), None)
    if point is None or point.ttft_ms is None or point.tpot_ms is None:
        return Diagnosis(name="none", evidence="no sound point was measured")
    first, rest = point.ttft_ms.p50, point.tpot_ms.p50 * max(0, workload.output_tokens - 1)
    share = first / (first + rest) if first + rest > 0 else 0.0
    told = (
        f"{share:.0%} of a request's time pass before its first token, the rest at {point.tpot_ms.p50:.3g} ms a token"
    )
    return _prefill(told, point, boot) if share > 0.5 else _decode(told, point, boot)


def _room(boot: BootFacts) -> Mapping[str, FlagValue]:
    share = boot.resolved.get("mem_fraction_static")
    if isinstance(share, float) and share + MEMORY_STEP <= MOST_MEMORY:
        return {"mem-fraction-static": round(share + MEMORY_STEP, 3)}
    return {}


def _flags(name: str, value: int) -> Mapping[str, FlagValue]:
    return {name: value} if value > 0 else {}


def copies(boot: BootFacts) -> int:
    """Replicas of a server: an admission cap is asked for each of them."""
    count = boot.resolved.get("dp_size")
    return max(1, count) if isinstance(count, int) else 1
