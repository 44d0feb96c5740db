"""The HTTP endpoints of a simulated server, as far as tools use them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from math import inf
from typing import Any

from day0.sandboxes.simulated.steps import Answer, Body, Head, Request, Wait
from day0.sandboxes.twin import answers, speaking
from day0.sandboxes.twin.activity import Totals
from day0.sandboxes.twin.serving import LiveServer
from day0.sandboxes.twin.site import Site

QUICK_S = 0.005
METRICS = (
    "num_running_reqs",
    "num_queue_reqs",
    "token_usage",
    "generation_tokens_total",
    "prompt_tokens_total",
    "cached_tokens_total",
    "num_requests_total",
    "time_to_first_token_seconds_sum",
    "time_to_first_token_seconds_count",
    "spec_accept_length",
    "inter_token_latency_seconds_count",
    "max_total_num_tokens",
)
GENERATING = ("/generate", "/v1/chat/completions", "/v1/completions")


def handle(site: Site, live: LiveServer, request: Request, *, worker: bool = False) -> Iterator[Answer]:
    """One request; `worker`: to one of the servers behind a router, not to the router."""
    path = request.path.partition("?")[0]
    if path in GENERATING:
        yield from _generate(site, live, path, request)
        return
    yield Wait(QUICK_S)
    if path in ("/health", "/health_generate", "/ready"):
        yield Head(200)
    elif path in ("/server_info", "/get_server_info") and (worker or not live.workers):
        yield from _json(server_info(live))
    elif path in ("/model_info", "/get_model_info"):
        yield from _json({"model_path": live.args["model_path"], "is_generation": True})
    elif path == "/v1/models":
        yield from _json({"object": "list", "data": [{"id": live.args["model_path"], "object": "model"}]})
    elif path == "/workers" and live.workers:
        yield from _json({"workers": [{"url": url} for url in live.workers], "total": len(live.workers)})
    elif path == ("/engine_metrics" if live.workers else "/metrics") and live.args.get("enable_metrics"):
        yield Head(200, {"content-type": "text/plain; version=0.0.4"})
        yield Body(metrics(live, site.machine.kernel.now).encode())
    elif path == "/flush_cache":
        busy = live.activity is not None and live.activity.state(site.machine.kernel.now)[0]
        yield Head(400 if busy or live.stuck else 200)
    else:
        yield Head(404)


def _json(value: object, status: int = 200) -> Iterator[Answer]:
    yield Head(status, {"content-type": "application/json"})
    yield Body(json.dumps(value).encode())


def _generate(site: Site, live: LiveServer, path: str, request: Request) -> Iterator[Answer]:
    try:
        body = json.loads(request.body or b"{}")
        _, chars, most = speaking.asked(path, body)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError):
        yield from _json({"error": {"message": "the request can't be read"}}, 400)
        return
    if live.stuck or live.fault_under(1, ("hang",)):
        live.stuck += 1
        yield Wait(inf)
    length = max(1, -(-chars // answers.CHARS_PER_TOKEN))
    if length + most > live.args["max_total_num_tokens"]:
        yield from _json({"error": {"message": "the input is longer than the KV cache"}}, 400)
        return
    said = speaking.speak(live, path, body, 1)
    seconds = live.alone_s(said.read, said.written)
    yield Wait(seconds)
    live.served(said.read, said.written, seconds)
    value = dict(said.value)
    if path == "/generate":
        value["meta_info"] = {**value["meta_info"], "e2e_latency": seconds}
    yield from _json(value)


def server_info(live: LiveServer) -> dict[str, Any]:
    """Resolved arguments, version, and one internal state per data-parallel rank."""
    args = dict(live.args)
    ranks = live.ranks
    per_rank = live.spec.cap * live.spec.replicas // ranks
    state = {
        "effective_max_running_requests_per_dp": per_rank,
        "memory_usage": {"token_capacity": args["max_total_num_tokens"] // max(1, int(args.get("attn_dp_size") or 1))},
    }
    if live.workers:  # what one of them says of itself
        args["dp_size"], ranks = 1, max(1, ranks // len(live.workers))
    if live.spec.accept > 1:
        state["avg_spec_accept_length"] = round(live.spec.accept, 3)
    return {**args, "version": live.build.version, "internal_states": [state] * ranks}


def metrics(live: LiveServer, now: float) -> str:
    """Prometheus' text."""
    running, waiting, use = (0, 0, 0.0) if live.activity is None else live.activity.state(now)
    total = Totals(**vars(live.totals))
    if live.activity is not None:
        total.add(live.activity.totals(now))
    speculating = live.spec.accept > 1 and running
    values = (
        float(running + live.stuck),
        float(waiting),
        round(use, 4),
        round(total.generated, 1),
        total.prompt,
        total.cached,
        total.finished,
        round(total.ttft_s, 6),
        total.begun,
        round(live.spec.accept, 3) if speculating else 0.0,
        round(total.generated, 1),
        float(live.args["max_total_num_tokens"]),
    )
    text = _metrics_form(str(live.args["model_path"])) % values
    if live.ranks == 1:
        return text
    named = 'sglang:realtime_tokens_total{dp_rank="%d",mode="prefill_cache"} %s\n'
    if live.workers:
        named, each = named.replace('"%d"', '"0"'), zip(live.workers, live.found(now), strict=True)
        text += "".join(named.replace("{", f'{{worker_addr="{url}",') % found for url, found in each)
        return text.replace("sglang:", "sglang_")  # as the router writes names
    return text + "".join(named % of for of in enumerate(live.found(now)))


@cache
def _metrics_form(model: str) -> str:
    label = '{model_name="' + model.replace('"', "").replace("%", "%%") + '"}'
    return "".join(f"sglang:{name}{label} %s\n" for name in METRICS)
