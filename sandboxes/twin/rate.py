"""The noise-free knee of a simulated server: few points, found from a fluid estimate. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, log

from day0.runs.workload import Workload
from day0.sandboxes.twin.figures import alone, asking, figures, offered
from day0.sandboxes.twin.replica import NEVER, ServerSpec
from day0.sandboxes.twin.simulate import Noise, simulate

MAX_POINTS = 5
MIN_REQUESTS, QUICK_REQUESTS = 300, 1000
MIN_WINDOW_S, QUICK_S = 480.0, 160.0
"""A window lasts 480 s and holds 300 requests; a quick one ends earlier, after 160 s, once it holds 1,000."""
QUIET = Noise()
SEED = 1
CLOSE, QUICK_CLOSE, QUICK_POINTS = 0.01, 0.045, 3
"""A bracket this narrow, as a log ratio of rates, is not split further; a quick one not after three points."""


@dataclass(frozen=True)
class Rated:
    """Requests/s at the knee, output tok/s there (or tok/s of one stream), points used, what limits it."""

    rate_rps: float
    tok_s: float
    points: int
    bound_by: str


def estimate(server: ServerSpec, workload: Workload) -> float:
    """Requests/s of the whole server at which mean time per token reaches its limit, were arrivals evenly spaced."""
    costs, tokens = server.costs, workload.output_tokens
    shared = workload.input_tokens * workload.cached_share if server.reuse else 0.0
    fresh = workload.input_tokens - shared
    prefill = costs.prefill(fresh, fresh * (shared + fresh / 2))
    context = workload.input_tokens + tokens / 2
    limit = (workload.slo.tpot_ms or 1e6) / 1e3
    best = 0.0
    batch = 1
    while batch <= server.cap:
        step = (costs.step(batch) + costs.kappa * batch * context) / server.accept
        # busy share of prefill r = rate x prefill; time per token is step / (1 - r); batch = rate x tokens x time
        rate = batch / (tokens * step + batch * prefill)
        if step / max(1e-9, 1 - rate * prefill) > limit:
            break
        best = max(best, rate)
        batch = max(batch + 1, int(batch * 1.08))
    first = 1.0 / (prefill + tokens * (costs.step(1) + costs.kappa * context) / server.accept)
    return server.replicas * max(best, 0.3 * first)


def stream(server: ServerSpec, workload: Workload, noise: Noise = QUIET) -> Rated:
    """Tokens per second of one stream after its first token."""
    r = simulate(server, alone(workload), noise).requests
    if r.finish[0] == NEVER:
        return Rated(0.0, 0.0, 1, "does not fit")
    last = len(r.finish) - 1
    return Rated(
        1.0 / (r.finish[last] - r.arrive[last]), (r.outputs[last] - 1) / (r.finish[last] - r.first[last]), 1, ""
    )


def loop(server: ServerSpec, workload: Workload, clients: int, noise: Noise = QUIET) -> Rated:
    """What clients that ask again at once get out of a server; nothing where a limit is missed."""
    point = simulate(server, asking(workload, clients, MIN_WINDOW_S), noise)
    done = sum(1 for f in point.requests.finish if 0.0 <= f < MIN_WINDOW_S)
    rate = done / MIN_WINDOW_S
    seen = figures(workload, point, max(rate, 1e-9), MIN_WINDOW_S)
    return Rated(rate, seen.output_tok_s, 1, "") if seen.holds else Rated(0.0, 0.0, 1, seen.bound_by)


def window_s(rate: float, *, quick: bool) -> float:
    """How long requests are offered at a rate."""
    enough = max(QUICK_S, QUICK_REQUESTS / rate) if quick else MIN_WINDOW_S
    return max(MIN_REQUESTS / rate, min(MIN_WINDOW_S, enough))


@dataclass(frozen=True)
class Search:
    """How a knee is looked for: from `start` requests/s on (without one, from the fluid estimate), with `points`."""

    start: float | None = None
    points: int = MAX_POINTS
    quick: bool = False


CAREFUL = Search()


def knee(
    server: ServerSpec, workload: Workload, *, noise: Noise = QUIET, seed: int = SEED, how: Search = CAREFUL
) -> Rated:
    """The highest rate that holds all limits, within about 1 % (quick: a few), by at most `how.points` points."""
    if workload.arrival == "single_stream":
        return stream(server, workload, noise)
    if workload.clients is not None:
        return loop(server, workload, workload.clients, noise)
    passed: tuple[float, float, float] | None = None  # log rate, worst, tok/s
    failed: tuple[float, float, str] | None = None
    at, count = log(max(1e-3, how.start or estimate(server, workload) / noise.speed)), 0
    while count < how.points:
        count += 1
        rate = exp(at)
        window = window_s(rate, quick=how.quick)
        seen = figures(workload, simulate(server, offered(workload, rate, window, seed), noise), rate, window)
        if seen.holds:
            passed = (at, seen.worst, seen.output_tok_s)
        else:
            failed = (at, seen.worst, seen.bound_by)
        if passed and failed:
            low, high = passed[0], failed[0]
            if high - low < (QUICK_CLOSE if how.quick else CLOSE) or (how.quick and count >= QUICK_POINTS):
                break
            share = -passed[1] / (failed[1] - passed[1]) if failed[1] < 3 else 0.5
            at = low + (high - low) * min(0.85, max(0.15, share))
        elif passed:
            at += min(0.4, max(0.04, -0.5 * passed[1]))
        else:
            at -= min(0.7, max(0.04, seen.worst) * (0.2 + 0.3 * count))  # each miss is trusted less
    if passed is None:
        return Rated(0.0, 0.0, count, failed[2] if failed else "")
    if failed is None:
        return Rated(exp(passed[0]), exp(passed[0]) * workload.output_tokens, count, "")
    share = min(1.0, max(0.0, -passed[1] / (failed[1] - passed[1])))
    rate = exp(passed[0] + (failed[0] - passed[0]) * share)
    return Rated(rate, passed[2] * rate / exp(passed[0]), count, failed[2])
