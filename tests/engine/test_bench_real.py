"""The bench against a real SGLang server on this machine's processor: core 0 serves, core 1 loads.

Needs `day0 engine install cpu` in $DAY0_HOME; the small models are made there once (about 40 s each).
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from day0.runs.candidate import Candidate
from day0.runs.engine_facts import EngineFacts
from day0.runs.errors import CandidateFailed
from day0.runs.facts import FailureClass
from day0.runs.workload import MeasureRules, Slo, Target, Workload
from day0.sandboxes.local import LocalNode
from day0.sandboxes.spec import SandboxSpec
from day0.tools import canary, probes
from day0.tools.bench import Harness, summarise
from day0.tools.engines.base import Counters
from day0.tools.engines.sglang import Sglang
from day0.tools.install import EngineHome, find, tiny_model
from day0.tools.loadplan import PointPlan, closed_loop, open_loop
from day0.tools.serve import Server, serve

pytestmark = pytest.mark.timeout(400)
HOME = Path(os.environ.get("DAY0_HOME", "/nonexistent"))
RULES = MeasureRules(point_s=8, min_requests=1, p95_multiples=0, max_points=3, max_pairs=2, stability_s=0, short=True)
SLO = Slo(ttft_ms=5000, tpot_ms=500)
PLAIN = Workload(name="plain", input_tokens=192, output_tokens=24, slo=SLO)
SHARED = Workload(name="shared", input_tokens=256, output_tokens=24, prefixes=3, cached_share=0.75, slo=SLO)
FLAGS = {
    "device": "cpu",
    "attention-backend": "torch_native",
    "dtype": "float32",  # native everywhere; BF16 is emulated where a processor has AVX2 only
    "sampling-backend": "pytorch",
    "mem-fraction-static": 0.1,
    "max-total-tokens": 8192,
}
TARGET = Target(
    name="test",
    kind="local",
    accelerator="cpu",
    stall_s=20,
    boot_stall_s=60,
    boot_cap_s=300,
    measure=RULES,
    workload="t",
)


@pytest.fixture(scope="module")
def engines() -> EngineHome:
    found = find(HOME)
    if found is None:
        pytest.skip(f"no engine under DAY0_HOME={HOME}: run `day0 engine install cpu`")
    return found


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> LocalNode:
    return LocalNode("test", tmp_path_factory.mktemp("nodes"), cancel=lambda: False)


def model(node: LocalNode, engines: EngineHome, *, damaged: bool) -> Path:
    folder = HOME / "test-models" / ("damaged" if damaged else "tiny")
    return tiny_model(node, engines, folder, damaged=damaged, progress=lambda text: None)


@pytest.fixture(scope="module")
def facts(node: LocalNode, engines: EngineHome) -> EngineFacts:
    with node.open(SandboxSpec(role="job", environment=engines.engine, attempt="facts")) as sandbox:
        return Sglang().take_facts(sandbox, engines.build)


@contextmanager
def booted(node: LocalNode, engines: EngineHome, facts: EngineFacts, folder: Path) -> Iterator[tuple[Server, Harness]]:
    candidate = Candidate(engine="sglang", build=engines.build, model=str(folder), revision="r", flags=FLAGS)
    spec = SandboxSpec(
        role="server", environment=engines.engine, attempt="bench", cores=(0,), env={"OMP_NUM_THREADS": "1"}
    )
    with (
        Harness.open(node, engines.harness, "bench", 0, (1,)) as harness,
        serve(node, spec, Sglang(), candidate, facts, TARGET) as server,
    ):
        yield server, harness


def test_points_of_one_boot_and_a_killed_server(node: LocalNode, engines: EngineHome, facts: EngineFacts) -> None:
    folder = model(node, engines, damaged=False)
    with booted(node, engines, facts, folder) as (server, harness):
        # a boot's first point compiles kernels: it only has to end, however slow the machine
        probe = closed_loop(SHARED, RULES.model_copy(update={"point_s": 30.0}), concurrency=8, content_seed=1)
        first = summarise(probe, harness.run(probe, server), RULES)
        assert first.void is None and first.completed > 0 and first.output_tok_s > 0

        shared = open_loop(SHARED, RULES, rate_rps=1.5, seed=3, content_seed=2)
        raw = harness.run(shared, server)
        point = summarise(shared, raw, RULES)
        assert point.void is None and point.completed == point.offered == 12
        assert set(raw.requests.output_tokens) == {24.0} and set(raw.requests.prompt_tokens) == {256.0}
        assert point.cached_share == pytest.approx(0.75, abs=0.02)
        assert [p.cached_tokens for p in raw.primes[1::2]] == [192] * 3
        assert raw.cpu_share is not None and raw.cpu_share < 0.5
        assert server.facts.replicas == 1 and {p.replica for p in raw.primes} == {0}

        # no prefix to prime: every request that the server's histogram counts is one that the client timed
        plain = open_loop(PLAIN, RULES, rate_rps=1.5, seed=4, content_seed=3)
        raw = harness.run(plain, server)
        before, after = raw.samples[0], raw.samples[-1]
        assert after.ttft_count is not None and before.ttft_count is not None
        assert after.ttft_sum_s is not None and before.ttft_sum_s is not None
        count = after.ttft_count - before.ttft_count
        assert count == raw.requests.count
        servers = 1e3 * (after.ttft_sum_s - before.ttft_sum_s) / count
        clients = float(raw.requests.ttft_ms.mean())
        print(f"TTFT: client {clients:.1f} ms, server {servers:.1f} ms over {count:.0f} requests")
        # the client's clock starts before the connection and stops after the stream's first chunk was parsed
        assert -5.0 < clients - servers < 20.0 + 0.1 * servers

        long = open_loop(SHARED, RULES.model_copy(update={"point_s": 30.0}), rate_rps=2, seed=5, content_seed=4)
        alive = server.alive

        def kill_later(seen: Counters | None = None) -> None:
            if re.search(rb"(?m)^4 .* done=([3-9]|\d\d)", harness.process.output(0, 1 << 20)):
                for child in psutil.Process(server.process.pid).children(recursive=True):
                    child.send_signal(signal.SIGKILL)
            alive(seen)

        server.alive = kill_later  # type: ignore[method-assign]
        with pytest.raises(CandidateFailed):
            harness.run(long, server)
        assert harness.partial is not None and harness.partial.cut
        assert harness.partial.requests.ok.any()
        assert not harness.partial.requests.ok.all()


def test_s31_s32_a_server_that_stalls_in_a_point_leaves_the_other_points_valid(
    node: LocalNode, engines: EngineHome, facts: EngineFacts
) -> None:
    """Its scheduler is stopped in the middle of a point, as by a dead-lock."""
    with booted(node, engines, facts, model(node, engines, damaged=False)) as (server, harness):
        watch = server.alive

        def once(number: int, done: int, what: Callable[[], object]) -> None:
            """While plan `number` runs and so many of its requests are done, `what` happens, once."""
            left = [what]

            def alive(seen: Counters | None = None) -> None:
                told = re.findall(rb"(?m)^%d .* done=(\d+)" % number, harness.process.output(0, 1 << 20))
                if left and told and int(told[-1]) >= done:
                    left.pop()()
                watch(seen)

            server.alive = alive  # type: ignore[method-assign]

        def plan(seed: int) -> PointPlan:
            return open_loop(PLAIN, RULES, rate_rps=1.5, seed=seed, content_seed=seed)

        before = summarise(plan(1), harness.run(plan(1), server), RULES)
        assert before.void is None and before.meets_slo

        def freeze() -> None:
            for child in psutil.Process(server.process.pid).children(recursive=True):
                if "scheduler" in child.name():
                    child.send_signal(signal.SIGSTOP)

        once(2, 2, freeze)
        long = open_loop(PLAIN, RULES.model_copy(update={"point_s": 60.0}), rate_rps=1.5, seed=4, content_seed=4)
        with pytest.raises(CandidateFailed) as failed:
            harness.run(long, server)
        assert failed.value.failure == FailureClass.HANG_DEADLOCK
        assert harness.partial is not None and harness.partial.requests.ok.sum() >= 2
        stalled = summarise(long, harness.partial, RULES)
        assert stalled.void is not None and stalled.void.startswith("cut: ") and not stalled.meets_slo


def test_s34_the_damaged_model_is_refused_and_the_sound_one_is_not(
    node: LocalNode, engines: EngineHome, facts: EngineFacts
) -> None:
    sound, broken = (model(node, engines, damaged=d) for d in (False, True))
    task, kit = canary.task_of(sound), probes.Kit()
    assert len(task) == 200
    probe, paces = closed_loop(PLAIN, RULES, concurrency=8, content_seed=1), []
    with booted(node, engines, facts, sound) as (server, harness):
        paces.append(summarise(probe, harness.run(probe, server), RULES).output_tok_s)
        answered = canary.answer(harness, server, task=task, concurrency=8, long_chars=1500, kit=kit)
        assert answered.passed, answered.evidence
        judged = canary.accuracy(harness, server, task=task, concurrency=8)
        assert judged.passed and judged.score is not None and judged.score > 0.95, judged.detail
        reference = (*answered.answers, *judged.answers)
        before = time.monotonic()
        again = canary.answer(harness, server, task=task, concurrency=8, long_chars=1500, reference=reference, kit=kit)
        print(f"{time.monotonic() - before:.1f} s: {again.detail}")
        assert again.passed, again.evidence
        seen = {c.name: c for c in again.canaries}
        assert seen[probes.LOGPROBS].state == seen[probes.TEMPLATE].state == "passed"
        # a model that learned sums has no tools and thinks nothing: said, not passed
        assert seen[probes.TOOL].state == seen[probes.REASONING].state == "not applicable"
        assert "parser" in seen[probes.TOOL].why
    with booted(node, engines, facts, broken) as (server, harness):
        paces.append(summarise(probe, harness.run(probe, server), RULES).output_tok_s)
        for known in (None, reference):
            wrong = canary.answer(harness, server, task=task, concurrency=8, long_chars=1500, reference=known, kit=kit)
            assert not wrong.passed and wrong.failure == FailureClass.ACCURACY_WRONG_OUTPUT, wrong.detail
        states = {c.name: c.state for c in wrong.canaries}
        assert states[probes.LOGPROBS] == "failed", wrong.detail
        print(wrong.detail)
        lost = canary.accuracy(harness, server, task=task, concurrency=8, reference=reference)
        assert not lost.passed and lost.checked == 200
        assert [j.verdict for j in lost.judged] == ["lossy", "lossy"]
    print(f"sound {paces[0]:.1f} tok/s, damaged {paces[1]:.1f} tok/s")
    assert paces[1] > 0.7 * paces[0], "it is as fast: only its answers give it away"
