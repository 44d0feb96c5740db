"""The file protocol between day0 and the load generator, over a sandbox that lives in memory."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from day0.runs.engine_facts import BootFacts
from day0.runs.errors import CandidateFailed, Infrastructure
from day0.runs.workload import MeasureRules, Workload
from day0.sandboxes.spec import Exit, SandboxSpec, Vitals
from day0.tools.bench import Harness, Question
from day0.tools.engines.base import Counters
from day0.tools.loadplan import open_loop
from day0.tools.sampler import JIT, Sampler
from day0.tools.summary import summarise

RULES = MeasureRules(point_s=8, min_requests=1, p95_multiples=0, max_points=3, max_pairs=2, stability_s=0)
WORK = Workload(name="t", input_tokens=64, output_tokens=8, text="sums")
PLAN = open_loop(WORK, RULES, rate_rps=2, seed=1, content_seed=1)


class Clock:
    def __init__(self) -> None:
        self.t = 0.0

    def now(self) -> float:
        return self.t

    def sleep(self, seconds: float) -> None:
        self.t += seconds


class Process:
    def __init__(self) -> None:
        self.spool, self.exit, self.stopped = b"", None, False

    def poll(self) -> Exit | None:
        return self.exit

    def wait(self, timeout_s: float) -> Exit:
        return self.exit or Exit(0)

    def output(self, offset: int, max_bytes: int) -> bytes:
        return self.spool[offset : offset + max_bytes]

    def vitals(self) -> Vitals:
        return Vitals(output_bytes=len(self.spool))

    def stop(self, grace_s: float) -> Exit:
        self.stopped = True
        self.exit = self.exit or Exit(143)
        return self.exit


class Sandbox:
    """`plays` is called with (path, data) after each write: that is where the programs inside live."""

    def __init__(self, clock: Clock, plays: Callable[[Sandbox, str, bytes], None]) -> None:
        self.clock, self.plays = clock, plays
        self.files: dict[str, bytes] = {}
        self.later: list[tuple[float, str, bytes]] = []
        self.spawned: list[tuple[Sequence[str], Process]] = []

    def spawn(self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, stdin: bytes = b"") -> Process:
        process = Process()
        self.spawned.append((argv, process))
        return process

    def read(self, path: str, max_bytes: int) -> bytes:
        for item in [i for i in self.later if i[0] <= self.clock.t]:
            self.files[item[1]] = item[2]
            self.later.remove(item)
        if path not in self.files:
            raise FileNotFoundError(path)
        return self.files[path]

    def write(self, path: str, data: bytes) -> None:
        self.files[path] = data
        self.plays(self, path, data)

    def free_port(self) -> int:
        return 1

    def http(self, port: int) -> httpx.Client:
        raise AssertionError("the harness does not speak to the server itself")


class Node:
    name = "n"

    def __init__(self, plays: Callable[[Sandbox, str, bytes], None]) -> None:
        self.clock = Clock()
        self.box = Sandbox(self.clock, plays)
        self.specs: list[SandboxSpec] = []

    @contextmanager
    def open(self, spec: SandboxSpec) -> Iterator[Sandbox]:
        self.specs.append(spec)
        yield self.box


class Engine:
    def __init__(self) -> None:
        self.busy = 0.0

    def counters(self, http: Any) -> Counters:
        self.busy = max(0.0, self.busy - 1)
        return Counters(running=self.busy, queued=0.0, kv_use=0.2)


class Server:
    port, http, attention_s = 3210, None, 5.0

    def __init__(self, clock: Clock, dies_at: float = 1e9) -> None:
        self.clock, self.dies_at, self.process, self.engine = clock, dies_at, Process(), Engine()
        self.facts = BootFacts(ready_s=1, version="1", model_path="/m", resolved={"disable_radix_cache": True})

    def alive(self, seen: Counters | None = None) -> None:
        if self.clock.t >= self.dies_at:
            raise CandidateFailed("crashed", "Scheduler hit an exception")


def result(number: int, rows: int = 1, **changes: Any) -> bytes:
    row = {
        "planned": 0.0, "sent": 0.0, "ttft_ms": 5.0, "itl_ms": [1.0] * 7, "latency_ms": 12.0, "output_tokens": 8,
        "prompt_tokens": 64, "asked_tokens": 64, "cached_tokens": 0, "hash": "h", "ok": True, "error": "",
    }  # fmt: skip
    value = {
        "number": number, "early": False, "ended_s": 10.0, "wall_s": 10.0, "cpu_share": 0.1, "lag_p95_ms": 1.0,
        "chat": True, "primes": [], "requests": [row] * rows,
    }  # fmt: skip
    return json.dumps(value | changes).encode()


def loadgen(after_s: float = 5.0, **changes: Any) -> Callable[[Sandbox, str, bytes], None]:
    def plays(box: Sandbox, path: str, data: bytes) -> None:
        if path == "loadgen.py":
            box.later.append((2.0, "ready.json", b'{"import_s": 2.0}'))
        if path.startswith("go-"):
            number = path.removeprefix("go-")
            assert hashlib.sha256(box.files[f"plan-{number}.json"]).hexdigest() == data.decode()
            box.later.append((box.clock.t + after_s, f"result-{number}.json", result(int(number), **changes)))
        if path.startswith("cancel-"):
            box.later.append((box.clock.t + 0.5, f"result-{path[7:]}.json", result(int(path[7:]), early=True)))

    return plays


@contextmanager
def opened(plays: Callable[[Sandbox, str, bytes], None]) -> Iterator[tuple[Harness, Node]]:
    node = Node(plays)
    with Harness.open(node, "/env", "r.1", 2, (1,)) as harness:  # type: ignore[arg-type]
        yield harness, node


def test_two_points_on_one_load_generator() -> None:
    with opened(loadgen()) as (harness, node):
        server = Server(node.clock)
        first = harness.run(PLAN, server)  # type: ignore[arg-type]
        server.engine.busy = 5
        second = harness.run(PLAN, server)  # type: ignore[arg-type]
        assert harness.import_s == 2.0
        assert first.requests.count == second.requests.count == 1 and first.chat
        assert not first.cache_on and first.cut == ""
        assert [p for p in node.box.files if p.startswith("plan-")] == ["plan-1.json", "plan-2.json"]
        plan = json.loads(node.box.files["plan-2.json"])
        assert plan["base_url"] == "http://127.0.0.1:3210" and plan["tokenizer"] == "/m"
        assert len(node.box.spawned) == 1
    assert node.specs[0].role == "harness" and node.specs[0].cores == (1,) and node.specs[0].epoch == 2
    assert node.box.spawned[0][1].stopped


def test_samples_are_timed_from_the_window() -> None:
    with opened(loadgen(after_s=10.0)) as (harness, node):
        raw = harness.run(PLAN, Server(node.clock))  # type: ignore[arg-type]
    assert len(raw.samples) >= 10
    assert raw.samples[0].at_s == pytest.approx(0.0, abs=0.3) and raw.samples[-1].at_s == pytest.approx(10.0, abs=0.01)


def test_s31_a_server_that_dies_in_mid_point_leaves_partial_results() -> None:
    with opened(loadgen(after_s=60)) as (harness, node):
        with pytest.raises(CandidateFailed):
            harness.run(PLAN, Server(node.clock, dies_at=6.0))  # type: ignore[arg-type]
        assert harness.partial is not None
        assert harness.partial.requests.count == 1 and "Scheduler hit" in harness.partial.cut


def test_s31_a_point_past_its_deadline_is_cut_and_others_go_on() -> None:
    with opened(loadgen(after_s=1000)) as (harness, node):
        server = Server(node.clock)
        raw = harness.run(PLAN, server, deadline_s=20.0)  # type: ignore[arg-type]
        assert raw.cut == "the point did not end in its time" and raw.requests.count == 1
        found = summarise(PLAN, raw, RULES)
        assert found.void == f"cut: {raw.cut}" and not found.meets_slo, "what came is kept, and counts for nothing"
        assert node.clock.t < 30


def test_a_load_generator_that_ends_or_fails_is_infrastructure() -> None:
    with opened(loadgen(after_s=1000)) as (harness, node):
        harness.ready()
        process = node.box.spawned[0][1]
        process.exit, process.spool = Exit(1), b"ModuleNotFoundError: aiohttp\n"
        with pytest.raises(Infrastructure, match="aiohttp"):
            harness.run(PLAN, Server(node.clock))  # type: ignore[arg-type]

    def crash(box: Sandbox, path: str, data: bytes) -> None:
        loadgen()(box, path, data)
        if path.startswith("go-"):
            box.later = [(0.0, "result-1.json", b'{"number": 1, "crash": "ValueError: x"}')]

    with opened(crash) as (harness, node), pytest.raises(Infrastructure, match="ValueError: x"):
        harness.run(PLAN, Server(node.clock))  # type: ignore[arg-type]


def test_s37_a_changed_harness_program_is_noticed() -> None:
    with opened(loadgen()) as (harness, node):
        node.box.files["client.py"] += b"\n# faster\n"
        with pytest.raises(Infrastructure, match=r"client\.py changed"):
            harness.run(PLAN, Server(node.clock))  # type: ignore[arg-type]


def test_questions_come_back_in_order_with_their_errors() -> None:
    def plays(box: Sandbox, path: str, data: bytes) -> None:
        loadgen()(box, path, data)
        if path == "ask-1.json":
            asked = json.loads(data)
            answers = [{"key": q["key"], "text": q["prompt"][::-1]} for q in asked["questions"]]
            answers[1] = {"key": "b", "error": "HTTP 500"}
            box.later.append((box.clock.t + 1, "answers-1.json", json.dumps({"answers": answers}).encode()))

    with opened(plays) as (harness, node):
        questions = [Question(key="a", prompt="12"), Question(key="b", prompt="34")]
        got = harness.ask(questions, Server(node.clock), concurrency=2)  # type: ignore[arg-type]
        assert [(a.key, a.text, a.error) for a in got] == [("a", "21", ""), ("b", "", "HTTP 500")]
        assert node.box.spawned[-1][0][-2:] == ["ask.py", "1"]
        with pytest.raises(Infrastructure, match="not answered within"):
            harness.ask(questions, Server(node.clock), concurrency=2, deadline_s=5.0)  # type: ignore[arg-type]


def test_s33_compile_lines_are_known_from_ordinary_ones() -> None:
    ordinary = b"""[2026-11-30 18:40:59] Decode batch, #running-req: 3, #token: 885, gen throughput (token/s): 49.67
[2026-11-30 18:40:59] INFO:     127.0.0.1:42082 - "POST /generate HTTP/1.1" 200 OK
[2026-11-30 18:41:00] Prefill batch, #new-seq: 1, #new-token: 64, cuda graph: False
[aiter] [fused_moe] using 2stage default for (256, 1, 6144)
"""
    compiles = b"""[aiter] start build [module_moe_ck2stages] under /jit/build/module_moe_ck2stages
[aiter] waiting for baton release at /jit/lock_module_x
Autotuning kernel _fwd_kernel
"""
    assert JIT.findall(ordinary) == []
    assert len(JIT.findall(compiles)) == 3


def test_only_new_whole_lines_are_counted() -> None:
    process, clock = Process(), Clock()
    process.spool = b"ninja: no work to do.\n"
    sampler = Sampler(clock, Counters, process)
    process.spool += b"ninja: entering\nnin"
    sampler.take()
    process.spool += b"ja: [2/3]\n"
    sampler.take()
    sampler.due(1.0)
    assert [s.jit_lines for s in sampler.samples(None)] == [1, 1]
