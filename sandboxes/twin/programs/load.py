"""`loadgen.py` and `ask.py` in the harness of a simulated node: same command lines, same files, virtual time."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from day0.runs.values import canonical_json, sha256
from day0.sandboxes.simulated.machine import Context, SimProcess
from day0.sandboxes.simulated.steps import Await, Out, Step, Wait
from day0.sandboxes.twin.rows import Cut, requests_json
from day0.sandboxes.twin.serving import LiveServer
from day0.sandboxes.twin.simulate import Load, Point
from day0.sandboxes.twin.site import Site

IMPORT_S = 6.0
CUT_PROMPTS_S = 0.01
CLOSED_REQUESTS = 4000
"""of a trace that the clients of a closed loop know, its rounds counted"""
CPU_OF_A_REQUEST = 0.02
"""seconds of the client's core per request and second of its stream"""
Steps = Generator[Step, object, Any]


def load_generator(site: Site, ctx: Context) -> Steps:
    """Imports, then runs one announced plan after the other until told to stop."""
    yield Wait(IMPORT_S, cpu=1.0)
    save(ctx.folder / "ready.json", json.dumps({"import_s": IMPORT_S}))
    yield Out(f"ready after {IMPORT_S:.1f} s\n".encode())
    number = 1
    while not (ctx.folder / "stop").exists():
        go, path = ctx.folder / f"go-{number}", ctx.folder / f"plan-{number}.json"
        if not go.exists() or hashlib.sha256(path.read_bytes()).hexdigest() != go.read_text().strip():
            yield _until(ctx, inf)
            continue
        yield from _Run(site, ctx, number, json.loads(path.read_bytes())).play()
        number += 1


def _until(ctx: Context, seconds: float, *processes: SimProcess, cpu: float = 0.0) -> Await:
    """Waits so long, or until a file is put into the program's folder or a process ends: the real one polls for it."""

    def start(resume: Callable[[object], None]) -> None:
        ctx.machine.kernel.after(seconds, lambda: resume(None))
        for key in (ctx.folder, *processes):
            ctx.machine.watch(key, lambda: resume(None))

    return Await(start, cpu)


def content_of(plan: dict[str, Any]) -> str:
    """What keys a point's noise: all of the plan but its number and place."""
    return sha256(canonical_json({k: v for k, v in plan.items() if k not in ("number", "base_url", "tokenizer")}))


def load_of(plan: dict[str, Any]) -> Load:
    """The plan as the simulation takes it."""
    clients = int(plan["concurrency"] or 0)
    if plan.get("calls"):
        return _traced(plan, clients)
    requests = plan["requests"]
    return Load(
        prompt=plan["input_tokens"],
        tokens=plan["output_tokens"],
        prefix_tokens=plan["prefix_tokens"],
        distinct=len(plan["prefixes"]),
        prefixes=tuple(prefix for _, prefix, _ in requests),
        arrivals=() if clients else tuple(at for at, _, _ in requests),
        clients=clients,
        begin=-plan["lead_s"],
        until=plan["window_s"],
    )


def _traced(plan: dict[str, Any], clients: int) -> Load:
    """Of a trace: every request of its own lengths, prompts that begin with the same places alike."""
    calls = plan["calls"]
    rounds = -(-CLOSED_REQUESTS // len(calls)) if clients else 1  # its clients begin again after the last one
    return Load(
        prompt=0,
        tokens=0,
        prefix_tokens=0,
        distinct=0,
        prefixes=tuple(range(len(calls))) * rounds,
        arrivals=() if clients else tuple(at for at, *_ in calls),
        clients=clients,
        begin=-plan["lead_s"],
        until=plan["window_s"],
        calls=tuple((tokens, output, tuple(places)) for _, tokens, output, places in calls),
        block=plan["block_tokens"],
    )


def asked_of(plan: dict[str, Any]) -> list[tuple[float, int, int]]:
    """When each request of a plan is sent, and its tokens, prompt and answer."""
    if plan.get("calls"):
        return [(at, tokens, output) for at, tokens, output, _ in plan["calls"]]
    return [(at, plan["input_tokens"], plan["output_tokens"]) for at, _, _ in plan["requests"]]


def answered_of(plan: dict[str, Any]) -> int:
    """Tokens of all answers of a plan."""
    if plan.get("calls"):
        return sum(output for _, _, output, _ in plan["calls"])
    return len(plan["requests"]) * int(plan["output_tokens"])


@dataclass
class _Run:
    """One plan."""

    site: Site
    ctx: Context
    number: int
    plan: dict[str, Any]
    primed: bool = True

    def play(self) -> Steps:
        """Primes, loads, waits to the end of the plan or of the server, writes the result."""
        plan, kernel = self.plan, self.site.machine.kernel
        live = self.site.servers.get(urlsplit(plan["base_url"]).port or 0)
        ready = 8 * plan["concurrency"] if plan["concurrency"] else len(plan.get("calls") or plan["requests"])
        yield Wait(CUT_PROMPTS_S * ready, cpu=1.0)
        primes = yield from self._prime(live)
        began = kernel.now
        zero: float = began + plan["lead_s"] + 0.05
        if self._cancelled():
            self._result(primes, "[]", began, early=True, began=began)
            return
        if live is None or live.stuck:
            yield from self._unanswered(primes, zero, live)
            return
        content = content_of(plan)
        point, dies = live.begin(replace(load_of(plan), primed=self.primed), content, zero, began)
        if dies < inf:
            kernel.after(dies - began, lambda: _die(live, dies))
        end = zero + self._end(point)
        early = yield from self._wait(live, end)
        now = kernel.now
        died = min(dies, now) - zero if live.process.code is not None else inf
        frozen = live.activity.frozen - zero if live.activity else inf
        over = plan["window_s"] if plan["concurrency"] else plan["window_s"] + plan["drain_s"]
        cut = Cut(plan["request_deadline_s"], min(now - zero if early else over, frozen), died)
        live.settle(now)
        window, planned = plan["window_s"], not plan["concurrency"]
        ends = live.world.model.answer_tokens
        text = requests_json(point, cut, window_s=window, planned=planned, hashed=content[7:23], answer_tokens=ends)
        self._result(primes, text, zero, early=early, began=began)

    def _prime(self, live: LiveServer | None) -> Steps:
        """Shared prefixes one request at a time on each replica, in turn where none is named; what each found there."""
        plan, out = self.plan, []
        shared, prompt = plan["prefix_tokens"], plan["input_tokens"]
        have: dict[tuple[int, int], None] = {}
        reached = set()
        for turn, (prefix, _, *rank) in enumerate(plan["primes"]):
            if self._cancelled():
                break
            if live is None or live.stuck or live.process.code is not None:
                out.append({"prefix": prefix, "cached_tokens": None, "error": "ClientConnectorError"})
                continue
            balanced = turn % live.spec.replicas if live.spec.routing == "round_robin" else 0
            replica = rank[0] if rank else balanced
            at = (replica, prefix)
            reached.add((replica * live.spec.replicas // live.ranks if rank else replica, prefix))
            found = shared if at in have and live.spec.reuse else 0
            have.pop(at, None)
            have[at] = None
            while len(have) * shared > live.spec.kv_tokens * live.spec.replicas:
                have.pop(next(iter(have)))
            seconds = live.alone_s(prompt, 1, found)
            if not rank or not rank[0]:  # the other replicas are asked at the same time
                yield Wait(seconds, cpu=0.1)
            live.served(prompt, 1, seconds, found, replica)
            said = {"replica": rank[0], "rank": rank[0]} if rank else {}
            out.append({"prefix": prefix, "cached_tokens": found, "error": "", **said})
        self.primed = live is None or len(reached) >= live.spec.replicas * len(plan["prefixes"]) * bool(shared)
        return out

    def _end(self, point: Point) -> float:
        """When the plan is over, in the point's time."""
        plan = self.plan
        if plan["concurrency"]:
            return float(plan["window_s"])
        window, drain = float(plan["window_s"]), float(plan["drain_s"])
        return min(max(max(point.requests.finish, default=0.0), window), window + drain)

    def _wait(self, live: LiveServer, end: float) -> Steps:
        """Until `end`; True when it was told to stop, or its server is gone, before."""
        kernel = self.site.machine.kernel
        stuck = live.activity is not None and live.activity.frozen < end
        until = kernel.now + self.plan["lead_s"] + self.plan["window_s"] + self.plan["drain_s"] if stuck else end
        while kernel.now < until:
            yield _until(self.ctx, until - kernel.now, live.process, cpu=self._cpu())
            if self._cancelled():
                return True
            if live.process.code is not None:
                return False
        return False

    def _cancelled(self) -> bool:
        return os.path.exists(f"{self.ctx.folder}/cancel-{self.number}")  # noqa: PTH110 (asked for each prefix)

    def _cpu(self) -> float:
        return self._busy

    @cached_property
    def _busy(self) -> float:
        """Share of the client's core."""
        seconds = float(self.plan["window_s"] + self.plan["lead_s"])
        tokens = answered_of(self.plan) / seconds
        slow = self.site.world.node.client_time
        return min(1.0, slow * min(0.6, 0.02 + CPU_OF_A_REQUEST * tokens / 100))

    def _unanswered(self, primes: Any, zero: float, live: LiveServer | None) -> Steps:
        """Nobody listens, or nobody answers any more."""
        plan = self.plan
        error = "ClientConnectorError: Connection refused" if live is None else "cut"
        yield Wait(1.0 if live is None else plan["lead_s"] + plan["window_s"] + plan["drain_s"])
        rows = [
            {
                "planned": at, "sent": at, "ttft_ms": 0.0, "latency_ms": 0.0, "output_tokens": 0,
                "asked_tokens": tokens, "ok": False, "error": error,
            }
            for at, tokens, _ in asked_of(plan)[: plan["concurrency"] or None]
        ]  # fmt: skip
        self._result(primes, json.dumps(rows), zero, early=False, began=zero - plan["lead_s"])

    def _result(self, primes: Any, requests: str, zero: float, *, early: bool, began: float) -> None:
        now = self.site.machine.kernel.now
        head = {
            "number": self.number,
            "early": early,
            "ended_s": round(now - zero, 6),
            "wall_s": round(now - began, 6),
            "cpu_share": round(self._cpu(), 4),
            "lag_p95_ms": 1.0,
            "lag_max_ms": 4.0,
            "chat": bool(self.plan["chat"]),
            "primes": primes,
        }
        save(self.ctx.folder / f"result-{self.number}.json", json.dumps(head)[:-1] + f', "requests": {requests}}}')


def _die(live: LiveServer, at: float) -> None:
    """The load brought the server down."""
    fault = next((f for f in live.faults if f.kind in ("crash", "oom") and f.when.running), None)
    if live.process.code is not None or fault is None:
        return
    if live.activity is not None:
        live.activity.stop = at
    for text in fault.log:
        live.process.tree.spool.append(text.encode() + b"\n")
    for process in live.process.tree.living():
        process.end(fault.exit_code)


def save(path: Path, text: str) -> None:
    """There whole or not at all."""
    part = path.with_name(path.name + ".part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)
