"""The simulated program that asks a server questions: canaries and tasks, in lanes of a concurrency."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlsplit

from day0.sandboxes.simulated.machine import Context
from day0.sandboxes.simulated.steps import Wait
from day0.sandboxes.twin import speaking
from day0.sandboxes.twin.programs.load import Steps, save
from day0.sandboxes.twin.serving import LiveServer
from day0.sandboxes.twin.site import Site

ASK_IMPORT_S = 1.0


def questions(site: Site, ctx: Context) -> Steps:
    """`ask.py N`: chat questions at a concurrency; writes `answers-N.json`."""
    number = ctx.argv[-1]
    ask = json.loads((ctx.folder / f"ask-{number}.json").read_bytes())
    live = site.servers.get(urlsplit(ask["base_url"]).port or 0)
    yield Wait(ASK_IMPORT_S, cpu=1.0)
    concurrency, asked = int(ask["concurrency"]), ask["questions"]
    per_replica = -(-min(concurrency, len(asked)) // live.spec.replicas) if live else 0
    if live is not None and (live.stuck or live.fault_under(per_replica, ("hang",))):
        live.stuck += min(concurrency, len(asked))
        yield Wait(ask["request_deadline_s"])
        texts = [{"key": q["key"], "error": "TimeoutError: "} for q in asked]
    else:
        texts = yield from _answered(live, asked, concurrency)
    save(ctx.folder / f"answers-{number}.json", json.dumps({"answers": texts}))


def _answered(live: LiveServer | None, asked: list[dict[str, Any]], concurrency: int) -> Steps:
    """Question after question in `concurrency` lanes; each takes what a batch of that size does."""
    out = []
    lanes = [0.0] * max(1, concurrency)
    now = 0.0
    for question in asked:
        if live is None or live.process.code is not None:
            out.append({"key": question["key"], "error": "ClientConnectorError: Connection refused"})
            continue
        together = min(concurrency, len(asked))
        own = question.get("body")
        plain = {"messages": [{"content": question["prompt"]}], "max_tokens": int(question["max_tokens"])}
        said = speaking.speak(live, question.get("path") or "/v1/chat/completions", own or plain, together)
        lane = lanes.index(min(lanes))
        seconds = live.together_s(said.read, said.written, together)
        lanes[lane] += seconds
        live.served(said.read, said.written, seconds)
        told = {"value": said.value} if own else {"text": said.value["choices"][0]["message"]["content"]}
        out.append({"key": question["key"], "finish": "stop", "tokens": said.written, **told})
        if min(lanes) > now:
            yield Wait(min(lanes) - now, cpu=0.2)
            now = min(lanes)
    yield Wait(max(0.0, max(lanes) - now), cpu=0.2)
    return out
