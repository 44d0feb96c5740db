"""What a load point offers: arrival times, and where in the text each prompt begins. Pure.

Arrivals are a Poisson process conditioned on its count: exponential gaps scaled so that exactly `count` of them lie
in the window, which has the law of sorted uniforms (Kingman, Poisson Processes, 2.4). The gaps come from the seed
alone, so another rate sees the same pattern stretched: two arms of a pair meet the same bursts, and so do the
points of one rate ladder. A trace brings its own gaps, scaled in the same way; the seed says where in it one begins.
"""

from __future__ import annotations

import random
from itertools import accumulate

from day0.runs import chance
from day0.runs.trace import BLOCK, Call, Trace, shared
from day0.runs.values import Frozen
from day0.runs.workload import MeasureRules, Workload
from pydantic import Field

LEAD_SHARE = 0.375
"""Of the window: the same load before it, untimed, so that the window sees a filled server, not the ramp."""
UNKNOWN_STAYS = 4.0
"""of requests that a window holds at least, while it is not known how long one stays"""
STARTS_CLOSED = 4000
CLOSED_ROUNDS = 8
"""Prompts of each client of a closed loop that are cut beforehand (`tools/harness/loadgen.py`)."""
CLOSED_CALLS = 512
"""Requests of a trace that a closed loop knows; its clients begin again after them."""
SPARE_S, CUT_TOKENS_S = 60.0, 200_000.0
"""Of a plan's set-up: for everything small, and how fast a slow tokenizer cuts prompts to length."""


class PointPlan(Frozen):
    """One load point. `rate_rps` or `concurrency` is given; times in seconds from the start of the timed window.

    `seed` sets the arrival pattern, `content_seed` the texts: arms of a comparison share the first only.
    """

    workload: Workload
    rate_rps: float | None = Field(default=None, gt=0)
    concurrency: int | None = Field(default=None, ge=1)
    window_s: float = Field(gt=0)
    lead_s: float = Field(default=0.0, ge=0)
    drain_s: float = Field(gt=0, description="after the window; what is not done by then is cancelled and failed")
    request_deadline_s: float = Field(gt=0)
    seed: int
    content_seed: int
    replicas: int = Field(default=1, ge=1, description="data-parallel replicas that priming has to reach")
    chat: bool = Field(default=True, description="through the chat template, where the tokenizer has one")
    warmup: bool = Field(default=False, description="the point is discarded")
    calls: tuple[Call, ...] = Field(default=(), description="of a trace: lead-in and window in order of arrival")

    @property
    def offered(self) -> int:
        """Requests whose arrival lies in the timed window (open loop)."""
        return max(1, round((self.rate_rps or 0.0) * self.window_s))

    @property
    def lead_count(self) -> int:
        """Requests whose arrival lies in the lead-in."""
        return round((self.rate_rps or 0.0) * self.lead_s)

    def ended(self, window_s: float) -> PointPlan:
        """The same plan with a window that ended early."""
        short = self.model_copy(update={"window_s": window_s})
        return short.model_copy(update={"calls": self.calls[: self.lead_count + short.offered]})


class Expected(Frozen):
    """Means over the requests of the timed window: tokens in and out, and the share of the input that can be cached."""

    input_tokens: float
    output_tokens: float
    cached_share: float
    sharing: int = Field(default=0, description="of a trace: requests that share anything with earlier ones")


def expected(plan: PointPlan) -> Expected:
    """What a server should have seen that was offered the whole plan."""
    work, calls = plan.workload, plan.calls[plan.lead_count :]
    if not calls:
        share = prefix_tokens(work) / work.input_tokens
        return Expected(input_tokens=work.input_tokens, output_tokens=work.output_tokens, cached_share=share)
    prompts, found = sum(c.input_tokens for c in calls), shared(plan.calls)[plan.lead_count :]
    return Expected(
        input_tokens=prompts / len(calls),
        output_tokens=sum(c.output_tokens for c in calls) / len(calls),
        cached_share=sum(found) / prompts,
        sharing=sum(tokens > 0 for tokens in found),
    )


def window_s(rules: MeasureRules, rate_rps: float, p95_e2e_s: float = 0.0) -> float:
    """max(point_s, min_requests / rate, p95_multiples x p95 e2e), in seconds."""
    return max(rules.point_s, rules.min_requests / rate_rps, rules.p95_multiples * p95_e2e_s)


def allowed_s(workload: Workload) -> float:
    """Seconds that a request may stay by its limits: TTFT, then TPOT for each token; 0 without limits."""
    slo = workload.slo
    return ((slo.ttft_ms or 0.0) + workload.output_tokens * (slo.tpot_ms or 0.0)) / 1e3


def open_loop(
    workload: Workload,
    rules: MeasureRules,
    *,
    rate_rps: float,
    seed: int,
    content_seed: int,
    p95_e2e_s: float = 0.0,
    replicas: int = 1,
    trace: Trace | None = None,
) -> PointPlan:
    """A point at an offered rate: the window that the rules ask for, a lead-in, a deadline for the stragglers.

    While nobody knows how long a request stays (`p95_e2e_s` 0), it is taken to stay as long as its limits allow: in a
    window shorter than that the requests in flight still grow, whatever the server.
    """
    unknown = 0.0 if p95_e2e_s else min(rules.p95_multiples, UNKNOWN_STAYS) * allowed_s(workload)
    window = max(window_s(rules, rate_rps, p95_e2e_s), unknown, workload.duration_s or 0.0)
    drain = patience_s(workload, rules, trace)
    plan = PointPlan(
        workload=workload,
        rate_rps=rate_rps,
        window_s=window,
        lead_s=LEAD_SHARE * min(window, 4 * rules.point_s),
        drain_s=drain,
        request_deadline_s=drain,
        seed=seed,
        content_seed=content_seed,
        replicas=replicas,
    )
    return _with_calls(plan, trace, plan.lead_count + plan.offered)


def _with_calls(plan: PointPlan, trace: Trace | None, count: int) -> PointPlan:
    if trace is None:
        return plan
    start = random.Random(f"{plan.seed}:trace").randrange(len(trace.calls))
    return plan.model_copy(update={"calls": trace.part(start, count)})


def closed_loop(
    workload: Workload,
    rules: MeasureRules,
    *,
    concurrency: int,
    content_seed: int,
    window_s: float | None = None,
    warmup: bool = True,
    replicas: int = 1,
    trace: Trace | None = None,
) -> PointPlan:
    """`concurrency` clients that ask again at once: the saturation probe (discarded), a closed loop, a single stream.

    What runs when the window ends is cut, not failed; tokens are counted from the start, the prefill included.
    """
    window = window_s or max(rules.point_s, 1.0)
    plan = PointPlan(
        workload=workload,
        concurrency=concurrency,
        window_s=window,
        drain_s=1.0,
        request_deadline_s=patience_s(workload, rules, trace) + window,
        seed=0,
        content_seed=content_seed,
        replicas=replicas,
        warmup=warmup,
    )
    return _with_calls(plan, trace, CLOSED_CALLS)


def patience_s(workload: Workload, rules: MeasureRules, trace: Trace | None = None) -> float:
    """How long a request may take before it counts as failed.

    Four times what the SLO allows it, at least the window and 20 s: a slow answer must be measured as slow.
    """
    slo = workload.slo
    longest = max((c.output_tokens for c in trace.calls), default=0) if trace else workload.output_tokens
    allowed = (slo.ttft_ms or 5000.0) / 1e3 + longest * (slo.tpot_ms or 50.0) / 1e3
    return max(4 * allowed, rules.point_s, 20.0)


def setup_s(plan: PointPlan) -> float:
    """How long a plan's prompts may take to cut and its prefixes to put in place, seconds; more is a hang.

    A prompt that takes twice its TTFT limit (5 s where there is none) while nothing else runs holds no SLO anyway.
    """
    work = plan.workload
    count = CLOSED_ROUNDS * plan.concurrency if plan.concurrency else plan.lead_count + plan.offered
    tokens = sum(c.input_tokens for c in plan.calls[:count]) if plan.calls else count * work.input_tokens
    allowed = 2 * (work.slo.ttft_ms or 5000.0) / 1e3
    return SPARE_S + tokens / CUT_TOKENS_S + primes(plan) * allowed


def primes(plan: PointPlan) -> int:
    """Rounds that put the shared prefixes in place, all replicas at once: two per prefix, to see that it took."""
    return plan.workload.prefixes * 2 if prefix_tokens(plan.workload) else 0


def _gaps(seed: int, part: str, count: int) -> list[float]:
    return chance.gaps(random.Random(f"{seed}:{part}"), count)


def arrivals(plan: PointPlan) -> tuple[float, ...]:
    """Send times of an open-loop point, lead-in first (negative); `offered` of them in [0, window_s)."""
    if plan.rate_rps is None:
        return ()
    before, window = plan.lead_count + 1, plan.offered + 1
    if plan.calls:
        given = [c.gap_s for c in (*plan.calls, plan.calls[0])]
        lead, timed = given[:before], given[before - 1 :][:window]
    else:
        lead, timed = _gaps(plan.seed, "lead", before), _gaps(plan.seed, "window", window)
    return (*(t - plan.lead_s for t in _conditional(lead, plan.lead_s)), *_conditional(timed, plan.window_s))


def _conditional(gaps: list[float], length: float) -> tuple[float, ...]:
    """The first len(gaps) - 1 points of the gaps' sums, scaled so that all gaps together fill `length`."""
    total = sum(gaps) or 1.0
    return tuple(length * s / total for s in accumulate(gaps[:-1]))


def prefix_tokens(workload: Workload) -> int:
    """Tokens of a prompt that it shares with others, put in place beforehand; a trace shares as it goes."""
    return 0 if workload.arrival == "trace" else round(workload.input_tokens * workload.cached_share)


def document(
    plan: PointPlan, number: int, *, base_url: str, tokenizer: str, corpus: str, corpus_chars: int
) -> dict[str, object]:
    """The plan as the load generator reads it (docs of its keys: `tools/harness/loadgen.py`).

    Prompts are places in the corpus, in characters; the load generator cuts them to exact token counts. No two
    prompts of a point begin at the same place, and another `content_seed` begins elsewhere (S38).
    Each prefix is asked for twice on each replica, on all of them at once: the second time it must be found.
    """
    work = plan.workload
    if plan.calls:
        return _traced(plan, corpus_chars) | _common(plan, number, base_url, tokenizer, corpus)
    times = arrivals(plan)
    count = len(times) if plan.rate_rps is not None else STARTS_CLOSED
    rng = random.Random(f"{plan.content_seed}:content")
    shared = prefix_tokens(work)
    verify = 2 * plan.replicas if shared else 0
    places = rng.sample(range(corpus_chars), min(corpus_chars, work.prefixes * (1 + verify) + count))
    prefixes, rest = places[: work.prefixes], places[work.prefixes :]
    ranks = [[rank] * (plan.replicas > 1) for rank in range(plan.replicas)] * (2 if shared else 0)
    primes = [[p, rest.pop(), *rank] for p in range(work.prefixes) for rank in ranks]
    order = chance.places(random.Random(f"{plan.seed}:prefix"), work.prefixes, count)
    requests = [[times[i] if times else 0.0, order[i], rest[i % len(rest)]] for i in range(count)]
    return _common(plan, number, base_url, tokenizer, corpus) | {
        "prefix_tokens": shared,
        "prefixes": prefixes,
        "primes": primes,
        "requests": requests,
    }


def _traced(plan: PointPlan, corpus_chars: int) -> dict[str, object]:
    """Requests of a trace: [send time, input tokens, output tokens, the place of each block of its prompt]."""
    times = arrivals(plan)
    rng = random.Random(f"{plan.content_seed}:content")
    own = iter(range(-1, -2 - len(plan.calls), -1))  # a prompt without blocks shares nothing
    blocks = [c.blocks or (next(own),) for c in plan.calls]
    known = sorted({block for each in blocks for block in each})
    order = rng.sample(range(corpus_chars), min(corpus_chars, len(known)))
    places = {block: order[i % len(order)] for i, block in enumerate(known)}
    return {
        "prefix_tokens": 0,
        "prefixes": [],
        "primes": [],
        "block_tokens": BLOCK,
        "requests": [],
        "calls": [
            [times[i] if times else 0.0, call.input_tokens, call.output_tokens, [places[b] for b in blocks[i]]]
            for i, call in enumerate(plan.calls)
        ],
    }


def _common(plan: PointPlan, number: int, base_url: str, tokenizer: str, corpus: str) -> dict[str, object]:
    work = plan.workload
    out: dict[str, object] = {
        "number": number,
        "base_url": base_url,
        "tokenizer": tokenizer,
        "corpus": corpus,
        "chat": plan.chat,
        "input_tokens": work.input_tokens,
        "output_tokens": work.output_tokens,
        "temperature": work.temperature,
        "concurrency": plan.concurrency,
        "window_s": plan.window_s,
        "lead_s": plan.lead_s,
        "drain_s": plan.drain_s,
        "request_deadline_s": plan.request_deadline_s,
    }
    return out if work.top_p == 1.0 else out | {"top_p": work.top_p}
