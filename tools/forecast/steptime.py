"""How long a decode step and a prompt take, and what a loaded server makes of them.

Everything is an array over points (`columns` of `point.py`); times in seconds. A step is overhead per layer (launches,
small kernels, at low batch nearly everything), memory traffic (weights of the experts that the batch touches, cache),
matrix work and two all-reduces a layer. A server in a closed loop serves X = 1 / (prefill + output x step / (b x A))
requests per second, b in decode, A tokens accepted per step. `coefficients` are natural logarithms of the factors or,
where the name starts with `d_`, differences of such logarithms.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from day0.runs.geometry import experts_touched
from day0.tools.forecast.point import SESSION_HIT

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Columns = Mapping[str, Array]

DRAFT_TOKENS = 3
"""Tokens drafted per step by the published multi-token-prediction recipes."""


ROUNDS = 16
"""Damped rounds in which running, decoding and waiting requests settle; 16 leave less than 0.1 %."""


@dataclass(frozen=True)
class Result:
    """Per point: requests/s of a replica, requests in decode, TPOT and median TTFT in seconds, decode step."""

    requests: Array
    decoding: Array
    tpot: Array
    ttft: Array
    step: Array
    prefill: Array


def predict(c: Columns, k: Mapping[str, float]) -> Result:
    """Throughput and latencies of every point.

    Under open load the number of clients is searched at which a closed loop turns the offered rate; beyond capacity
    the rate is what the server can do.
    """
    import numpy as np

    open_load = c["open"] > 0
    if not open_load.any():
        return closed(c, k, c["clients"])
    low, high = np.full_like(c["cap"], 1e-3), np.maximum(c["cap"], 1e-2)
    for _ in range(24):
        middle = np.sqrt(low * high)
        enough = closed(c, k, middle).requests >= c["rate"]
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    found = closed(c, k, np.where(open_load, high, c["clients"]))
    rate = np.where(open_load, np.minimum(found.requests, c["rate"]), found.requests)
    return Result(rate, found.decoding, found.tpot, found.ttft, found.step, found.prefill)


def closed(c: Columns, k: Mapping[str, float], clients: Array) -> Result:
    """A closed loop of `clients` per replica, each sending its next request when (or a pause after) one ends."""
    import numpy as np

    accepted = np.where(c["acceptance"] > 0, c["acceptance"], np.exp(k["acceptance"]))
    accepted = np.where(c["spec"] > 0, accepted, 1.0)
    prefill = prefill_time(c, k, fresh_tokens(c, k))
    think = c["agentic"] * np.exp(k["think"])
    sessions = waiting = np.maximum(clients, 1e-9)
    running = np.minimum(sessions, c["cap"])
    decoding = running
    for _ in range(ROUNDS):
        step = step_time(c, k, decoding)
        requests = 1.0 / (prefill + c["output"] * step / (accepted * np.maximum(decoding, 1e-9)))
        first = first_token(prefill, step, requests, k)
        target = running / (1.0 + first * accepted / (c["output"] * step))
        decoding = 0.5 * decoding + 0.5 * np.maximum(target, np.minimum(running, 1.0) * 0.2)
        latency = running / requests
        waiting = sessions * latency / (latency + think)
        running = 0.5 * running + 0.5 * np.minimum(waiting, c["cap"])
    service = running / requests
    tpot = np.maximum(service - first, 0.05 * service) / c["output"]
    queue = np.maximum(waiting - running, 0.0) / requests
    requests = requests / np.exp(k["ramp"])
    seen = (first + queue) * np.exp(k["ttft"] + _effect(c, k, "ttft"))
    return Result(requests, decoding, tpot, seen, step, prefill)


def fresh_tokens(c: Columns, k: Mapping[str, float]) -> Array:
    """Prompt tokens that are computed: what no cache holds.

    Where the share is not known, sessions hold `SESSION_HIT` of their prompt as long as all of them fit the cache,
    and lose it within a factor of two beyond; a cache in host memory brings back a part.
    """
    import numpy as np

    fits = 1.0 / (1.0 + (np.exp(k["room"]) / c["room"]) ** 4)
    hit = np.where(c["hit_known"] > 0, c["hit"], SESSION_HIT * fits)
    back = np.exp(-np.exp(k["offload"]))
    hit = hit + c["offload"] * np.maximum(SESSION_HIT - hit, 0.0) * back
    result: Array = c["input"] * (1.0 - hit)
    return result


def first_token(prefill: Array, step: Array, requests: Array, k: Mapping[str, float]) -> Array:
    """Seconds from admission to the first token: own prompt, half a step, and the prompts in front of it."""
    import numpy as np

    busy = np.minimum(requests * prefill, 0.95)
    result: Array = prefill * (1.0 + np.exp(k["queue"]) * busy) + step + np.exp(k["admission"])
    return result


def tail_ttft(found: Result, k: Mapping[str, float]) -> Array:
    """95th percentile of TTFT under Poisson arrivals: own prompt, two steps, and three times the mean wait.

    The mean wait is that of one queue with constant service (Pollaczek-Khinchine): s u / (2 (1 - u)), u the share of
    engine time that prompts take.
    """
    import numpy as np

    busy = np.minimum(found.requests * found.prefill, 0.98)
    wait = found.prefill * busy / (2.0 * (1.0 - busy))
    result: Array = found.prefill + 2.0 * found.step + np.exp(k["admission"]) + 3.0 * wait
    return result


def _effect(c: Columns, k: Mapping[str, float], name: str) -> Array | float:
    """Sum of the differences that apply: `d_NAME_COLUMN` for every column of that name."""
    total: Array | float = 0.0
    prefix = f"d_{name}_"
    for key, value in k.items():
        if key.startswith(prefix):
            factor: Array | float = 1.0
            for column in key[len(prefix) :].split("."):
                factor = factor * c[column]
            total = total + value * factor
    return total


def step_time(c: Columns, k: Mapping[str, float], batch: Array) -> Array:
    """Seconds of one decode step (with its drafts) of `batch` requests per replica."""
    import numpy as np

    verified = np.where(c["spec"] > 0, DRAFT_TOKENS + 1.0, 1.0)
    tokens = np.maximum(batch, 1e-6) * verified
    speed = np.exp(_effect(c, k, "time"))
    local = tokens / c["groups"]
    touched = experts_touched(c["experts"], c["topk"], tokens ** np.exp(k["spread"])) * c["moe"]
    weights = c["shared_bytes"] + touched * c["expert_bytes"] / np.exp(k["expert_memory"])
    cache = c["kv_read"] * batch / c["groups"]
    memory = weights / (c["bandwidth"] * np.exp(k["memory"] + _effect(c, k, "memory")))
    memory = memory + cache / (c["bandwidth"] * np.exp(k["cache"] + _effect(c, k, "cache")))
    rows = touched * np.exp(k["tile"]) + tokens * c["topk"] * c["moe"]
    work = local * (c["shared_ops"] + c["attention_ops"]) + rows * c["expert_ops"]
    matrix = work / (c["peak"] * np.exp(k["matrix"] + _effect(c, k, "matrix")))
    overhead = layer_overhead(c, k) * c["layers"] + np.exp(k["fixed"]) + np.exp(k["request"]) * batch
    passes = overhead * (1.0 + c["spec"] * np.exp(k["draft"] + _effect(c, k, "draft")))
    exchange = all_reduce(c, k, tokens) * 2 * c["layers"]
    power = 1.0 + np.exp(k["overlap"])
    floor = (memory**power + matrix**power) ** (1 / power)
    result: Array = speed * (passes + exchange + floor)
    return result


def layer_overhead(c: Columns, k: Mapping[str, float]) -> Array:
    """Seconds per layer that no amount of bandwidth removes."""
    import numpy as np

    extra = np.exp(k["moe_overhead"]) * c["moe_layers"] / c["layers"]
    index = np.exp(k["index_overhead"] + _effect(c, k, "index")) * c["index_layers"] / c["layers"]
    linear = np.exp(k["linear_overhead"]) * c["linear_layers"] / c["layers"]
    parts = 1.0 + np.exp(k["part_overhead"]) * (c["parts"] - 1.0)
    result: Array = np.exp(k["layer"] + _effect(c, k, "layer")) * parts * (1.0 + extra + index + linear)
    return result


def all_reduce(c: Columns, k: Mapping[str, float], tokens: Array) -> Array:
    """Seconds of one all-reduce of `tokens` hidden states in BF16 over the tensor-parallel group."""
    import numpy as np

    ranks = np.maximum(c["tp"], 1.0)
    sent = 2 * (ranks - 1) / ranks * tokens * c["hidden"] * 2.0
    latency = np.exp(k["latency"] + _effect(c, k, "latency")) * np.log2(ranks)
    result: Array = latency + sent / (c["link"] * np.exp(k["link"]))
    return result


def prefill_time(c: Columns, k: Mapping[str, float], prompt: Array) -> Array:
    """Seconds of engine time that one prompt takes."""
    import numpy as np

    speed = np.exp(_effect(c, k, "time") + _effect(c, k, "prefill"))
    rate = c["peak"] * np.exp(k["prefill"])
    matrix = c["fresh_ops"] * prompt / rate
    part = prompt / np.maximum(c["input"], 1.0)
    pairs = c["pair_full"] + (c["pair_half"] - c["pair_full"]) * part
    attention = pairs * prompt / (c["bf16_peak"] * np.exp(k["prefill_attention"]))
    ranks = np.maximum(c["tp"], 1.0)
    sent = 2 * c["layers"] * 2 * (ranks - 1) / ranks * prompt * c["hidden"] * 2.0
    exchange = sent / (c["link"] * np.exp(k["prefill_link"]))
    once = layer_overhead(c, k) * c["layers"] * np.exp(k["prompt_overhead"])
    result: Array = speed * (matrix + attention + exchange + once)
    return result
