"""The load generator: imports the benchmark client once, then runs one plan after the other.

Runs in the harness environment, started once per boot: `python loadgen.py`, work folder = the sandbox'. It obeys
files: `go-N` holds the sha256 of `plan-N.json` (written before it), answers with `result-N.json` (renamed into
place); `cancel-N` ends a plan early, `stop` ends the program. Progress goes to stdout, a line a second.

Plan keys: base_url, tokenizer (model folder), corpus (file), chat, input_tokens, output_tokens, prefix_tokens,
temperature, top_p (1 where it is missing), prefixes [place], primes [[prefix, place]] or [[prefix, place, replica]],
requests [[send time, prefix, place]] (open loop, seconds
from the start of the timed window, lead-in negative) or with concurrency (closed loop, times unused), window_s,
lead_s, drain_s, request_deadline_s. Of a trace: calls [[send time, input tokens, output tokens, [place of each block]]]
with block_tokens, instead of requests. workers, if any: addresses of the servers behind a router, by replica: primes
go to them.

Result keys: number, early (told to end), ended_s (the end, from the window's start), wall_s, cpu_share, lag_p95_ms,
lag_max_ms, chat, primes [{prefix, replica (asked), rank (that answered, if it says), cached_tokens, error}],
requests: a list of rows (`Point.row`), or one object of columns with `count` values each, a single value standing for
all: planned_us, sent_us, ttft_us, latency_us (whole microseconds), output_tokens, asked_tokens, prompt_tokens,
cached_tokens, forced_tokens (that came after the first end-of-text token; null: unknown), in_window (tokens that came
within the window), errors {number of the request: text}, hash, itl_runs (how
many lengths of gaps each request has), itl_us and itl_times (each length and how often it came, request after request,
in no order within one).
"""

from __future__ import annotations

import asyncio
import gc
import hashlib
import itertools
import os
import resource
import sys
import time
import traceback
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_OFFLINE", "1")
import client  # type: ignore[import-not-found]
import files  # type: ignore[import-not-found]
import prompts  # type: ignore[import-not-found]

POLL_S = 0.05
CLOSED_ROUNDS = 8
LAG_TICK_S = 0.02


def cpu_s() -> float:
    """CPU seconds of this process so far."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


class Point:
    """One plan while it runs."""

    def __init__(self, module: Any, cutter: Any, plan: dict[str, Any]) -> None:
        self.module, self.cutter, self.plan = module, cutter, plan
        self.asks = client.Asks(module, cutter, plan)
        self.rows: list[dict[str, Any]] = []
        self.texts: list[str] = []
        self.ready: list[tuple[float, Any]] = []
        self.rest: Iterator[tuple[float, Any]] = iter(())
        self.lags: list[float] = []
        self.primes: list[dict[str, Any]] = []
        self.zero = 0.0
        self.over = False
        self.sent = self.done = 0

    async def send(self, item: Any, at: float | None, deadline_s: float) -> dict[str, Any]:
        """One request: what the client saw of it, also when it was cut off."""
        seen: dict[str, Any] = {}
        client.CURRENT.set(seen)
        began = time.perf_counter()
        error = ""
        try:
            await asyncio.wait_for(self.module.async_request_sglang_generate(item), deadline_s)
        except TimeoutError:
            error = f"deadline: not done after {deadline_s:.1f} s"
        except asyncio.CancelledError:
            error = "cut"
        finally:
            row = self.row(item, seen, at, began, error)
            self.done += 1
        return row

    def row(self, item: Any, seen: dict[str, Any], at: float | None, began: float, error: str) -> dict[str, Any]:
        """The details of one request; times in seconds from the start of the timed window, latencies in ms."""
        out, meta = seen.get("out"), seen.get("meta") or {}
        text = getattr(out, "generated_text", "")
        itl = [round(1e3 * gap, 3) for gap in getattr(out, "itl", [])]
        ttft = 1e3 * getattr(out, "ttft", 0.0)
        tokens = meta.get("completion_tokens")
        if tokens is None:
            tokens = len(itl) + 1 if ttft > 0 else 0
        error = error or seen.get("error", "") or getattr(out, "error", "").strip().rpartition("\n")[2]
        ok = not error and bool(getattr(out, "success", False)) and ttft > 0 and tokens > 0
        start = getattr(out, "start_time", 0.0) or began
        latency = getattr(out, "latency", 0.0) if ok else time.perf_counter() - start
        row = {
            "planned": at,
            "sent": round(start - self.zero, 5),
            "ttft_ms": round(ttft, 3),
            "itl_ms": itl,
            "latency_ms": round(1e3 * latency, 3),
            "output_tokens": tokens,
            "prompt_tokens": meta.get("prompt_tokens", getattr(item, "prompt_len", None)),
            "asked_tokens": item.prompt_len,
            "cached_tokens": meta.get("cached_tokens"),
            "rank": meta.get("dp_rank"),
            "hash": hashlib.sha256(text.encode()).hexdigest()[:16],
            "ok": ok,
            "error": error if error or ok else "no token came",
        }
        self.rows.append(row)
        self.texts.append(text)
        return row

    async def prime(self) -> None:
        """The shared prefixes before anything is timed, one request at a time on each replica; with what they found."""
        primes = self.plan["primes"]
        size = 1 + max((rank for _, _, *ranks in primes for rank in ranks), default=0)
        for begin in range(0, len(primes), size):
            await asyncio.gather(*(self.put(*prime) for prime in primes[begin : begin + size]))

    async def put(self, prefix: int, place: int, rank: int | None = None) -> None:
        """One prefix on one replica."""
        item = self.asks.build(prefix, place, rank)
        item.output_len = 1
        item.extra_request_body["sampling_params"]["max_new_tokens"] = 1
        row = await self.send(item, None, self.plan["request_deadline_s"])
        if row["error"] != "cut":
            answered = None if self.plan.get("workers") else row["rank"]  # each server counts its replicas from 0
            said = {"cached_tokens": row["cached_tokens"], "rank": answered, "error": row["error"]}
            self.primes.append({"prefix": prefix, "replica": rank or 0, **said})

    async def open_loop(self) -> None:
        """Sends at the planned times, whatever the server does; then waits `drain_s` at most."""
        plan, tasks = self.plan, []
        self.zero = time.perf_counter() + plan["lead_s"] + 0.05
        try:
            for at, item in self.ready:
                await asyncio.sleep(max(0.0, self.zero + at - time.perf_counter()))
                tasks.append(asyncio.create_task(self.send(item, at, plan["request_deadline_s"])))
                self.sent += 1
            await asyncio.sleep(max(0.0, self.zero + plan["window_s"] - time.perf_counter()))
            await asyncio.wait(tasks, timeout=plan["drain_s"])
        finally:
            await end(tasks)

    async def closed_loop(self) -> None:
        """`concurrency` clients that ask again at once until the window ends; what still runs is cut."""
        plan = self.plan
        items = (item for _, item in itertools.chain(self.ready, self.rest))
        self.zero = time.perf_counter() + plan["lead_s"] + 0.05
        tasks = [asyncio.create_task(self.stream(items)) for _ in range(plan["concurrency"])]
        try:
            await asyncio.sleep(self.zero + plan["window_s"] - time.perf_counter())
        finally:
            self.over = True  # a request that ends just now swallows its cancellation: wait_for of Python 3.11
            await end(tasks)

    async def stream(self, items: Iterator[Any]) -> None:
        """One client of a closed loop. After a failed request it waits, so as not to spin on a dead server."""
        for item in items:
            self.sent += 1
            row = await self.send(item, None, self.plan["request_deadline_s"])
            if row["error"] == "cut" or self.over:
                return
            if not row["ok"]:
                await asyncio.sleep(0.2)

    async def watch(self) -> None:
        """How late the event loop is: a sleep of 20 ms that takes longer shows a loop that can't keep up."""
        last = time.perf_counter()
        while True:
            began = time.perf_counter()
            await asyncio.sleep(LAG_TICK_S)
            now = time.perf_counter()
            self.lags.append(max(0.0, now - began - LAG_TICK_S))
            if now - last >= 1.0:
                last = now
                files.say(f"{self.plan['number']} t={now - self.zero:.1f} sent={self.sent} done={self.done}")

    async def cancelled(self) -> None:
        """Returns when day0 asks to end this plan early."""
        mark = Path(f"cancel-{self.plan['number']}")
        while not mark.exists():
            await asyncio.sleep(0.2)

    async def prepare(self) -> None:
        """Builds the prompts before anything is timed: all of an open loop, the first rounds of a closed one."""
        count = CLOSED_ROUNDS * self.plan["concurrency"] if self.plan["concurrency"] else None
        self.rest = self.asks.offered()
        for request in itertools.islice(self.rest, count):
            self.ready.append(request)
            await asyncio.sleep(0)  # thousands of long prompts take minutes: a plan may be ended meanwhile
        await self.prime()

    async def run(self) -> dict[str, Any]:
        """Prepare, prime, run, and tell; told to stop it ends at once, whatever it is at."""
        mark = asyncio.create_task(self.cancelled())
        try:
            whole = await before(mark, self.prepare())
            self.rows.clear()
            self.texts.clear()
            return await self.measure(mark) if whole else self.told(time.perf_counter(), cpu_s(), early=True)
        finally:
            await end([mark])

    async def measure(self, mark: asyncio.Task[None]) -> dict[str, Any]:
        """The timed part."""
        began, cpu = time.perf_counter(), cpu_s()
        self.sent = self.done = 0
        gc.collect()
        gc.freeze()
        gc.disable()
        watch = asyncio.create_task(self.watch())
        try:
            whole = await before(mark, self.closed_loop() if self.plan["concurrency"] else self.open_loop())
        finally:
            await end([watch])
            gc.enable()
            gc.unfreeze()
        return self.told(began, cpu, early=not whole)

    def told(self, began: float, cpu: float, *, early: bool) -> dict[str, Any]:
        """The result."""
        wall = max(1e-9, time.perf_counter() - began)
        lags = sorted(self.lags) or [0.0]
        for row, text in zip(self.rows, self.texts, strict=True):
            row["forced_tokens"] = self.cutter.forced(text, row["output_tokens"])
        return {
            "number": self.plan["number"],
            "early": early,
            "ended_s": time.perf_counter() - self.zero if self.zero else None,
            "wall_s": wall,
            "cpu_share": (cpu_s() - cpu) / wall,
            "lag_p95_ms": 1e3 * lags[int(0.95 * (len(lags) - 1))],
            "lag_max_ms": 1e3 * lags[-1],
            "chat": self.cutter.chat,
            "primes": self.primes,
            "requests": self.rows,
        }


async def before(mark: asyncio.Task[None], work: Coroutine[Any, Any, None]) -> bool:
    """Whether the work was done before the mark came; else it is ended. Raises what the work raises."""
    task = asyncio.create_task(work)
    await asyncio.wait({task, mark}, return_when=asyncio.FIRST_COMPLETED)
    done = task.done()
    await end([task])
    if done:
        task.result()
    return done


async def end(tasks: list[asyncio.Task[Any]]) -> None:
    """Cancels what is not done and waits for it, so that its row is written."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def main() -> int:
    """Runs plans until told to stop."""
    began = time.perf_counter()
    module = client.load()
    files.save("ready.json", {"import_s": time.perf_counter() - began})
    files.say(f"ready after {time.perf_counter() - began:.1f} s")
    cutters: dict[tuple[str, str, bool], Any] = {}
    number = 1
    while not Path("stop").exists():
        plan = files.next_plan(number)
        if plan is None:
            time.sleep(POLL_S)
            continue
        try:
            key = (plan["tokenizer"], plan["corpus"], plan["chat"])
            if key not in cutters:
                text = Path(plan["corpus"]).read_text("utf-8")
                tokenizer = prompts.load_tokenizer(plan["tokenizer"])
                ends = prompts.ends(tokenizer, plan["tokenizer"])
                cutters[key] = prompts.Cutter(tokenizer, text, plan["chat"], ends)
            result = asyncio.run(Point(module, cutters[key], plan).run())
        except Exception as error:
            traceback.print_exc()
            result = {"number": number, "crash": f"{type(error).__name__}: {error}"[:500]}
        files.save(f"result-{number}.json", result)
        number += 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
