"""One real server for many tests: a boot costs half a minute on a slow core, a load point eight seconds."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import psutil
from day0.runs.candidate import Candidate
from day0.runs.engine_facts import EngineFacts
from day0.runs.facts import LoadPoint
from day0.runs.workload import FlagValue, MeasureRules, Slo, Target, Workload
from day0.sandboxes.base import Clock, Sandbox
from day0.sandboxes.local import LocalNode
from day0.sandboxes.spec import SandboxSpec
from day0.tools import canary, probes
from day0.tools.bench import Harness, summarise
from day0.tools.engines.base import Counters
from day0.tools.engines.sglang import Sglang
from day0.tools.environments import EngineHome
from day0.tools.loadplan import PointPlan, closed_loop, open_loop
from day0.tools.serve import Server, serve

RULES = MeasureRules(point_s=8, min_requests=1, p95_multiples=0, max_points=3, max_pairs=2, stability_s=0, short=True)
SLO = Slo(ttft_ms=5000, tpot_ms=500)
PLAIN = Workload(name="plain", input_tokens=192, output_tokens=24, slo=SLO)
BRIEF_S = 4.0
"""of a point that only has to be valid"""
QUEUE = 8
"""requests that run, and as many that may wait: the next one is refused"""
FLAGS: dict[str, FlagValue] = {
    "device": "cpu",
    "attention-backend": "torch_native",
    "dtype": "float32",  # native everywhere; BF16 is emulated where a processor has AVX2 only
    "sampling-backend": "pytorch",
    "mem-fraction-static": 0.1,
    "max-total-tokens": 16384,
    "max-running-requests": QUEUE,
    "max-queued-requests": QUEUE,
}
TARGET = Target(
    name="test",
    kind="local",
    accelerator="cpu",
    stall_s=45,
    boot_stall_s=60,
    boot_cap_s=300,
    stop_grace_s=0.5,
    measure=RULES,
    workload="t",
)
PROBE = closed_loop(PLAIN, RULES, concurrency=QUEUE, content_seed=51)


class TakenPort:
    """The node, but the first port that it gives is a stranger's."""

    def __init__(self, node: LocalNode, port: int) -> None:
        self.node, self.clock, self.ports = node, node.clock, [port]

    @contextmanager
    def open(self, spec: SandboxSpec) -> Iterator[Sandbox]:
        """A sandbox of the node's."""
        with self.node.open(spec) as sandbox:
            given = sandbox.free_port
            sandbox.free_port = lambda: self.ports.pop() if self.ports else given()  # type: ignore[method-assign]
            yield sandbox


class Place(Protocol):
    """Where a server boots."""

    clock: Clock

    def open(self, spec: SandboxSpec) -> AbstractContextManager[Sandbox]: ...


@dataclass
class Boots:
    """A server of the model on core 0 with its load generator on core 1, booted when first asked for and again when it
    is gone.
    """

    node: LocalNode
    engines: EngineHome
    facts: EngineFacts
    model: Path
    flags: Mapping[str, FlagValue] = field(default_factory=dict)
    """beside `FLAGS`"""
    place: Place | None = None
    """where the server boots, if not on the node itself"""
    _open: ExitStack = field(default_factory=ExitStack)
    _pair: tuple[Server, Harness] | None = None

    def get(self) -> tuple[Server, Harness]:
        """The running pair."""
        if self._pair is None:
            self._pair = self._open.enter_context(self._booted())
        return self._pair

    def close(self) -> None:
        """Ends it; an idle server keeps its core busy."""
        self._pair = None
        self._open.close()

    @contextmanager
    def _booted(self) -> Iterator[tuple[Server, Harness]]:
        candidate = Candidate(
            engine="sglang",
            build=self.engines.build,
            model=str(self.model),
            revision="r",
            flags={**FLAGS, **self.flags},
        )
        spec = SandboxSpec(
            role="server", environment=self.engines.engine, attempt="bench", cores=(0,), env={"OMP_NUM_THREADS": "1"}
        )
        with (
            Harness.open(self.node, self.engines.harness, "bench", 0, (1,)) as harness,
            serve(self.place or self.node, spec, Sglang(), candidate, self.facts, TARGET) as server,
        ):
            yield server, harness


class Sound(Boots):
    """The sound model's server, with what it answered when it was asked first."""

    pace = 0.0
    answers: canary.Reference = ()

    def asked(self) -> canary.Reference:
        """The model's own answers, which later ones are held against; asked once."""
        if not self.answers:
            server, harness = self.get()
            task, kit = canary.task_of(self.model), probes.Kit()
            self.pace = point(server, harness, PROBE).output_tok_s
            answered = canary.answer(harness, server, task=task, concurrency=QUEUE, long_chars=1500, kit=kit)
            assert answered.passed, answered.evidence
            judged = canary.accuracy(harness, server, task=task, concurrency=QUEUE)
            assert judged.passed and judged.score is not None and judged.score > 0.95, judged.detail
            self.answers = (*answered.answers, *judged.answers)
        return self.answers


def plain(seed: int, rate_rps: float = 1.5, window_s: float = BRIEF_S) -> PointPlan:
    """A light open-loop point without shared prefixes."""
    rules = RULES.model_copy(update={"point_s": window_s})
    return open_loop(PLAIN, rules, rate_rps=rate_rps, seed=seed, content_seed=seed)


def point(server: Server, harness: Harness, plan: PointPlan) -> LoadPoint:
    """Run and summed up."""
    return summarise(plan, harness.run(plan, server), RULES)


def valid(found: LoadPoint) -> bool:
    """It counts, and all that was asked came."""
    return found.void is None and found.completed == found.offered


def conversations(file: Path) -> None:
    """Two agents whose prompts begin alike at each turn, and strangers in between."""
    lines = []
    for turn in range(8):
        for agent in (0, 1):
            call = {"timestamp": 1000 * turn + 3 * agent, "input_length": 600 + 5 * turn, "output_length": 8 + turn}
            lines.append(json.dumps(call | {"hash_ids": [agent, 10 + 2 * turn + agent]}))
        lines.append(json.dumps({"timestamp": 1000 * turn + 400, "input_length": 130, "output_length": 6}))
    file.write_text("\n".join(lines))


@contextmanager
def once(server: Server, harness: Harness, done: int, what: Callable[[], object]) -> Iterator[None]:
    """When so many requests of the next point are done, `what` happens, once."""
    watch, left, number = server.alive, [what], harness._number + 1

    def alive(seen: Counters | None = None) -> None:
        told = re.findall(rb"(?m)^%d .* done=(\d+)" % number, harness.process.output(0, 1 << 20))
        if left and told and int(told[-1]) >= done:
            left.pop()()
        watch(seen)

    server.alive = alive  # type: ignore[method-assign]
    try:
        yield
    finally:
        server.alive = watch  # type: ignore[method-assign]


def ask(server: Server, question: str, tokens: int = 5) -> str:
    """One answer, greedily."""
    body = {"text": question, "sampling_params": {"temperature": 0, "max_new_tokens": tokens}}
    return str(server.http.post("/generate", json=body, timeout=60).raise_for_status().json()["text"])


def nothing_is_left() -> None:
    """No server of this test process' wardens lives, nor a scheduler that renamed itself."""
    mine = psutil.Process().children(recursive=True)
    left = [title for p in mine if "sglang" in (title := _title(p))]
    assert not left, left


def _title(process: psutil.Process) -> str:
    try:
        gone = not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
        return "" if gone else f"{process.name()} {' '.join(process.cmdline())}"
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return ""


def processes(server: Server, name: str = "") -> list[psutil.Process]:
    """Of the server, by a part of their names."""
    return [p for p in psutil.Process(server.process.pid).children(recursive=True) if name in p.name()]
