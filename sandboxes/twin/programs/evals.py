"""`evaluate.py N` on a simulated node: lm-eval's questions from the task's files, put to the simulated server."""

from __future__ import annotations

import json
from collections.abc import Generator
from typing import Any
from urllib.parse import urlsplit

from day0.runs.values import sha256
from day0.sandboxes.simulated.machine import Context
from day0.sandboxes.simulated.steps import Exit, Out, Step, Wait
from day0.sandboxes.twin import answers
from day0.sandboxes.twin.programs.load import save
from day0.sandboxes.twin.serving import LiveServer
from day0.sandboxes.twin.site import Site

IMPORT_S = 8.0
OUTPUT_TOKENS = 200
Steps = Generator[Step, object, Any]


def evaluate(site: Site, ctx: Context) -> Steps:
    """Right as often as the world's model is, spoilt as often as its server's faults want it, by the question."""
    number = ctx.argv[-1]
    ask = json.loads((ctx.folder / f"eval-{number}.json").read_bytes())
    yield Wait(IMPORT_S, cpu=1.0)
    live = site.servers.get(urlsplit(ask["base_url"]).port or 0)
    data = ctx.folder / ask["folder"] / f"{ask['task']}.jsonl"
    if live is None or not data.is_file():
        why = "Connection refused" if live is None else f"{data.name} is not there"
        yield Out(f"lm_eval: {why}\n".encode())
        yield Exit(1)
        return
    rows = [json.loads(line) for line in data.read_text().splitlines()]
    together = min(ask["concurrency"], len(rows))
    each = live.together_s(answers.tokens(str(rows[0])), OUTPUT_TOKENS, together)
    yield Wait(-(-len(rows) // together) * each, cpu=0.3)
    scored = [_row(live, str(ask["task"]), row, together) for row in rows]
    save(ctx.folder / f"scores-{number}.json", json.dumps({"rows": scored}))


def _row(live: LiveServer, task: str, row: dict[str, Any], together: int) -> dict[str, Any]:
    text = json.dumps(row, sort_keys=True)
    wrong, flavour = live.wrong(together)
    spoilt = wrong > 0 and answers.dice("spoilt", flavour, text) < wrong
    right = answers.dice("knows", text) < live.world.model.right and not spoilt
    return {"key": f"{task}:{sha256(text)[7:23]}", "right": right, "answered": True}
