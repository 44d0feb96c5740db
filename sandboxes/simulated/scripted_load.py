"""The scripted load generator: obeys the same files as the real one and answers with rows of the same form."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from day0.runs.values import sha256
from day0.sandboxes.simulated.machine import Context
from day0.sandboxes.simulated.steps import Await, Step, Wait

if TYPE_CHECKING:
    from day0.sandboxes.simulated.sglang import Performance

IMPORT_S = 6.0
NOISE = 0.004
"""s.d.-like spread of a latency, a function of the request alone"""


def load_generator(ctx: Context, performance: Callable[[int], Performance | None]) -> Generator[Step, object, None]:
    """`loadgen.py`: imports, then runs one announced plan after the other."""
    yield Wait(IMPORT_S, cpu=1.0)
    save(ctx.folder / "ready.json", {"import_s": IMPORT_S})
    number = 1
    while not (ctx.folder / "stop").exists():
        go, path = ctx.folder / f"go-{number}", ctx.folder / f"plan-{number}.json"
        if not go.exists() or hashlib.sha256(path.read_bytes()).hexdigest() != go.read_text():
            yield Await(lambda resume: ctx.machine.watch(ctx.folder, lambda: resume(None)))
            continue
        plan = json.loads(path.read_bytes())
        serving = performance(urlsplit(plan["base_url"]).port or 0)
        rows = [] if serving is None else requests(plan, serving)
        tail = max((r["sent"] + r["latency_ms"] / 1e3 for r in rows), default=0.0)
        after = 0.0 if plan["concurrency"] else max(0.0, min(plan["drain_s"], tail - plan["window_s"]))
        yield Wait(plan["lead_s"] + plan["window_s"] + after, cpu=0.3)
        save(
            ctx.folder / f"result-{number}.json",
            {
                "number": number,
                "early": False,
                "ended_s": plan["window_s"] + after,
                "wall_s": plan["lead_s"] + plan["window_s"] + after,
                "cpu_share": 0.3,
                "lag_p95_ms": 1.0,
                "primes": [prime(plan, *asked) for asked in plan["primes"]],
                "requests": rows,
            },
        )
        number += 1


def prime(plan: dict[str, Any], prefix: int, place: int, replica: int = 0) -> dict[str, Any]:
    """A shared prefix was put in place and found again."""
    return {"prefix": prefix, "replica": replica, "cached_tokens": plan["prefix_tokens"], "error": ""}


def requests(plan: dict[str, Any], serving: Performance) -> list[dict[str, Any]]:
    """Rows of a plan: latency grows as 1 / (1 - load) below capacity, and with time above it."""
    out = plan["output_tokens"]
    if plan["concurrency"] is not None:
        step = 1 / serving.capacity_rps
        span = plan["lead_s"] + plan["window_s"]
        latency = 1e3 * plan["concurrency"] * step
        starts = [k * step - plan["lead_s"] - latency / 1e3 for k in range(int((span + latency / 1e3) / step))]
        return [row(plan, None, at, serving.ttft_ms, (latency - serving.ttft_ms) / max(1, out - 1)) for at in starts]
    sends = [at for at, _, _ in plan["requests"]]
    timed = [at for at in sends if at >= 0]
    load = len(timed) / plan["window_s"] / serving.capacity_rps
    crowd = 1 / (1 - min(load, 0.97))
    rows = []
    for at in sends:
        late = max(0.0, load - 1) * max(0.0, at + plan["lead_s"]) * 1e3
        wobble = 1 + NOISE * (int(sha256(f"{at:.6f}{load:.6f}")[7:11], 16) / 0x8000 - 1)
        rows.append(row(plan, at, at, serving.ttft_ms * crowd * wobble + late, serving.tpot_ms * (1 + load) * wobble))
    return rows


def row(plan: dict[str, Any], planned: float | None, sent: float, ttft_ms: float, tpot_ms: float) -> dict[str, Any]:
    """One request as the client saw it."""
    gaps = [round(tpot_ms, 3)] * (plan["output_tokens"] - 1)
    return {
        "planned": planned,
        "sent": round(sent, 5),
        "ttft_ms": round(ttft_ms, 3),
        "itl_ms": gaps,
        "latency_ms": round(ttft_ms + sum(gaps), 3),
        "output_tokens": plan["output_tokens"],
        "prompt_tokens": plan["input_tokens"],
        "asked_tokens": plan["input_tokens"],
        "cached_tokens": plan["prefix_tokens"],
        "hash": "",
        "ok": True,
        "error": "",
    }


def questions(ctx: Context, reply: Callable[[int, str], str | None]) -> Generator[Step, object, None]:
    """`ask.py N`: the answers of whatever listens on the port."""
    number = ctx.argv[-1]
    ask = json.loads((ctx.folder / f"ask-{number}.json").read_bytes())
    port = urlsplit(ask["base_url"]).port or 0
    yield Wait(2.0, cpu=0.5)
    answers = []
    for question in ask["questions"]:
        text = reply(port, question["prompt"])
        error = "" if text is not None else "ConnectionRefusedError"
        answers.append({"key": question["key"], "text": text or "", "finish": "stop", "tokens": 8, "error": error})
    save(ctx.folder / f"answers-{number}.json", {"answers": answers})


def save(path: Path, value: object) -> None:
    """There whole or not at all."""
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(value), encoding="utf-8")
    part.replace(path)
