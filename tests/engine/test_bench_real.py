"""The bench against a real SGLang server on this machine's processor: core 0 serves, core 1 loads.

One boot serves all tests of the sound model, a second one speculates, a third one has damaged weights; what ends a
server comes last. Each point has a content seed of its own: what an earlier one asked is in the cache.
"""

from __future__ import annotations

import json
import signal
import socket
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from day0.runs import trace
from day0.runs.documents import workload
from day0.runs.engine_facts import EngineFacts
from day0.runs.errors import CandidateFailed
from day0.runs.facts import FailureClass
from day0.runs.workload import FlagValue
from day0.sandboxes.local import LocalNode
from day0.sandboxes.spec import SandboxSpec
from day0.tools import canary, evals, probes
from day0.tools.bench import summarise
from day0.tools.environments import EngineHome, evals_of
from day0.tools.evals import Scores
from day0.tools.evaluating import evaluate
from day0.tools.install import tiny_model
from day0.tools.loadplan import arrivals, closed_loop, expected, open_loop
from day0.tools.serve import GRACE_S
from day0.tools.vendor import Vendor

from tests.engine.commands import ASKS
from tests.engine.conftest import HOME
from tests.engine.served import (
    BRIEF_S,
    FLAGS,
    PLAIN,
    PROBE,
    QUEUE,
    RULES,
    Boots,
    Sound,
    TakenPort,
    ask,
    conversations,
    nothing_is_left,
    once,
    plain,
    point,
    processes,
    valid,
)

pytestmark = pytest.mark.timeout(400)
SHARED = PLAIN.model_copy(update={"name": "shared", "input_tokens": 256, "prefixes": 3, "cached_share": 0.75})
SPECULATION: dict[str, FlagValue] = {
    "attention-backend": "torch_grouped",
    "speculative-algorithm": "NGRAM",
    "speculative-num-draft-tokens": 4,
    "speculative-ngram-max-bfs-breadth": 1,
}
STALL_S = 8.0


@pytest.fixture(scope="module")
def sound(node: LocalNode, engines: EngineHome, facts: EngineFacts, model: Path) -> Iterator[Sound]:
    boots = Sound(node, engines, facts, model)
    yield boots
    boots.close()


def test_points_of_one_boot(sound: Sound) -> None:
    server, harness = sound.get()
    # a boot's first point compiles kernels: it only has to end, however slow the machine
    first = point(server, harness, closed_loop(SHARED, RULES, concurrency=QUEUE, content_seed=1, window_s=BRIEF_S))
    assert first.void is None and first.completed > 0 and first.output_tok_s > 0

    shared = open_loop(SHARED, RULES, rate_rps=1.5, seed=3, content_seed=2)
    raw = harness.run(shared, server)
    found = summarise(shared, raw, RULES)
    assert found.void is None and found.completed == found.offered == 12
    assert set(raw.requests.output_tokens) == {24.0} and set(raw.requests.prompt_tokens) == {256.0}
    assert found.cached_share == pytest.approx(0.75, abs=0.02)
    assert [p.cached_tokens for p in raw.primes[1::2]] == [192] * 3
    assert raw.cpu_share is not None and raw.cpu_share < 0.5
    assert server.facts.replicas == 1 and {p.replica for p in raw.primes} == {0}


def test_the_client_and_the_servers_own_histogram_tell_the_same(sound: Sound) -> None:
    """No prefix to prime: every request that the server's histogram counts is one that the client timed."""
    server, harness = sound.get()
    raw = harness.run(plain(4, window_s=RULES.point_s), server)
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


def test_s45_a_trace_is_what_the_server_sees(sound: Sound, tmp_path: Path) -> None:
    """Lengths, bursts and shared prompts as the server counts them."""
    conversations(tmp_path / "t.jsonl")
    (tmp_path / "w.yaml").write_text("schema: day0/workload/v1\nname: agents\narrival: trace\ntrace: t.jsonl\n")
    work = workload(str(tmp_path / "w.yaml"))
    server, harness = sound.get()
    first = point(
        server,
        harness,
        closed_loop(work, RULES, concurrency=2, content_seed=41, window_s=BRIEF_S, trace=trace.of(work)),
    )
    assert first.void is None and first.completed > 0
    plan = open_loop(work, RULES, rate_rps=1.0, seed=2, content_seed=42, trace=trace.of(work))
    raw = harness.run(plan, server)
    found = summarise(plan, raw, RULES)
    assert found.void is None and found.completed == found.offered == 8
    asked = raw.requests
    order = asked.planned.argsort(kind="stable")
    assert asked.planned[order] == pytest.approx(arrivals(plan))
    assert sorted(asked.prompt_tokens) == sorted(float(c.input_tokens) for c in plan.calls)
    assert sorted(asked.output_tokens) == sorted(float(c.output_tokens) for c in plan.calls)
    share = expected(plan).cached_share
    assert share > 0.4
    # who comes while the prompt that it shares with is still being computed finds nothing: at least half do
    assert 0.5 * share < found.cached_share < share + 0.01


def test_s32_a_server_that_errs_in_a_point_leaves_the_other_points_valid(sound: Sound) -> None:
    """Its queue is full: it takes the first requests and answers 503 to later ones, in a stream whose status is 200."""
    server, harness = sound.get()
    assert valid(point(server, harness, plain(11)))
    dense = plain(12, rate_rps=24.0, window_s=4.0)
    raw = harness.run(dense, server)
    erred = summarise(dense, raw, RULES)
    print(f"erred: {erred.void}")
    assert erred.void is not None and erred.void.startswith("failures: ") and not erred.meets_slo
    assert "503 The request queue is full" in erred.void
    order = raw.requests.planned.argsort(kind="stable")
    assert raw.requests.ok[order][:4].all() and not raw.requests.ok.all()
    assert valid(point(server, harness, plain(13)))


def test_s34_the_sound_model_passes_against_itself(sound: Sound) -> None:
    reference, (server, harness) = sound.asked(), sound.get()
    task, began = canary.task_of(sound.model), time.monotonic()
    assert len(task) == 200
    again = canary.answer(
        harness, server, task=task, concurrency=QUEUE, long_chars=1500, reference=reference, kit=probes.Kit()
    )
    print(f"{time.monotonic() - began:.1f} s: {again.detail}")
    assert again.passed, again.evidence
    seen = {c.name: c for c in again.canaries}
    assert seen[probes.LOGPROBS].state == seen[probes.TEMPLATE].state == "passed"
    # a model that learned sums has no tools and thinks nothing: said, not passed
    assert seen[probes.TOOL].state == seen[probes.REASONING].state == "not applicable"
    assert "parser" in seen[probes.TOOL].why


def scores(sound: Sound, environment: str, task: evals.Eval) -> Scores:
    """What the running server scores in a full eval."""
    server, _ = sound.get()
    spec = SandboxSpec(role="harness", environment=environment, attempt="evals", cores=(1,))
    began = time.monotonic()
    found = evaluate(sound.node, spec, server, task, concurrency=QUEUE, max_tokens=16)
    print(f"{task.name}: {found.share:.0%} of {len(found.rows)} in {time.monotonic() - began:.1f} s")
    return found


def test_s34_lm_eval_asks_a_task_from_a_file(sound: Sound, tmp_path: Path) -> None:
    """Sums that the model knows by heart, and some whose stated answer is wrong: both are told, by question."""
    environment = evals_of(HOME)
    if not environment:
        pytest.skip(f"no lm-eval under DAY0_HOME={HOME}: run `day0 engine install evals`")
    lines = (sound.model / "day0-task.jsonl").read_text().splitlines()[:32]
    wrong = [json.dumps(json.loads(line) | {"answer": "no"}) for line in lines[24:]]
    (tmp_path / "sums.jsonl").write_text("\n".join([*lines[:24], *wrong]))
    (task,) = evals.asked([f"sums={tmp_path / 'sums.jsonl'}"], [], None)
    found = scores(sound, environment, task)
    assert len(found.rows) == 32 and all(row.answered for row in found.rows)
    assert sum(row.right for row in found.rows) == 24 and not evals.broken(found)


def test_s34_a_command_of_the_users_own_asks_the_server(sound: Sound, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(ASKS)
    lines = (sound.model / "day0-task.jsonl").read_text().splitlines()[:8]
    (tmp_path / "sums.jsonl").write_text("\n".join(lines))
    words = f"mine={sys.executable} {tmp_path / 'mine.py'} {{base_url}} {{model}} {{out}} {tmp_path / 'sums.jsonl'}"
    (task,) = evals.asked([], [words], None)
    found = scores(sound, sound.engines.harness, task)
    assert [row.key for row in found.rows] == [f"mine:{n}" for n in range(8)] and found.share == 1.0


def test_an_endpoint_as_the_reference_answers_what_it_is_asked(sound: Sound) -> None:
    """Any OpenAI-compatible server is one, this one too."""
    server, _ = sound.get()
    vendor = Vendor(f"http://127.0.0.1:{server.port}/v1", str(sound.model))
    task = canary.task_of(sound.model)
    asked = [*canary.whole(task, 16)[:20], *probes.questions(probes.Kit(forced=("1+1=2",)))]
    answers = vendor.ask(asked)
    assert not [a for a in answers if a.error]
    told = {a.key for a in answers}
    assert f"{probes.PREFIX}{probes.SCHEMA}" in told and f"{probes.PREFIX}{probes.TEMPLATE}" not in told
    control = canary.judge_accuracy(task, [a for a in answers if a.key.startswith("task:")], None)
    assert control.passed and control.score == 1.0, control.evidence


def test_s31_a_server_that_stalls_in_a_point_is_noticed_and_once_awake_its_points_are_valid(sound: Sound) -> None:
    """Its scheduler is stopped in the middle of a point, as by a dead-lock."""
    server, harness = sound.get()
    assert valid(point(server, harness, plain(21)))
    limits = server.liveness.limits
    server.liveness.limits = replace(limits, stall_s=STALL_S)

    def send(number: signal.Signals) -> None:
        for process in processes(server, "scheduler"):
            process.send_signal(number)

    long = plain(22, window_s=60.0)
    with once(server, harness, 2, lambda: send(signal.SIGSTOP)), pytest.raises(CandidateFailed) as failed:
        harness.run(long, server)
    assert failed.value.failure == FailureClass.HANG_DEADLOCK
    assert harness.partial is not None and harness.partial.requests.ok.sum() >= 2
    stalled = summarise(long, harness.partial, RULES)
    assert stalled.void is not None and stalled.void.startswith("cut: ") and not stalled.meets_slo

    send(signal.SIGCONT)
    assert server.engine.answers(server.http)
    server.liveness.limits = limits
    server.liveness.ready(server.clock.now())
    assert valid(point(server, harness, plain(23)))


def test_a_server_counts_what_it_answers_and_ends_in_order(sound: Sound) -> None:
    sums = [json.loads(line) for line in (sound.model / "day0-task.jsonl").read_text().splitlines()][:20]
    server, _ = sound.get()
    assert (server.facts.version, server.facts.model_path) == ("0.5.23", str(sound.model))
    assert server.facts.resolved["attention_backend"] == "torch_native"
    assert server.facts.kv_tokens == FLAGS["max-total-tokens"]
    before = server.engine.counters(server.http)
    assert [ask(server, s["prompt"]) for s in sums] == [s["answer"] for s in sums]
    server.engine.flush(server.http)
    after = server.engine.counters(server.http)
    assert after.finished_requests is not None and before.finished_requests is not None
    assert after.finished_requests - before.finished_requests == len(sums)
    assert (after.in_flight, after.running) == (0, 0)
    assert after.generated_tokens is not None and before.generated_tokens is not None
    assert after.generated_tokens > before.generated_tokens + len(sums)
    server.alive()
    server.grace_s, stopping = GRACE_S, time.monotonic()
    sound.close()
    took = time.monotonic() - stopping
    print(f"stopped in {took:.1f} s")
    assert server.ended is not None and took < GRACE_S, "by itself: nobody had to kill it"
    nothing_is_left()


@pytest.fixture(scope="module")
def fast(sound: Sound) -> Iterator[Boots]:
    """The sound model with n-gram speculation, booted beside a stranger that holds the port it is given first."""
    sound.asked()
    sound.close()
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        port = stranger.getsockname()[1]
        boots = Boots(
            sound.node, sound.engines, sound.facts, sound.model, flags=SPECULATION, place=TakenPort(sound.node, port)
        )
        try:
            server, _ = boots.get()
            assert server.port != port
            assert stranger.getsockname()[1] == port  # the stranger was left alone
            yield boots
        finally:
            boots.close()


def test_s25_s34_with_speculation_on_and_a_port_taken_answers_and_canaries_are_the_references(
    sound: Sound, fast: Boots
) -> None:
    """And a defect of speculation would be seen: its drafts are right often enough to be kept."""
    (server, harness), task = fast.get(), canary.task_of(sound.model)
    resolved = server.facts.resolved
    assert (resolved["attention_backend"], resolved["speculative_algorithm"]) == ("torch_grouped", "NGRAM")
    shared = "It was the best of times, it was the worst of times. " * 20
    assert ask(server, shared + "And", 12) == ask(server, shared + "And", 12)  # the second finds a cached prefix
    found = canary.answer(
        harness, server, task=task, concurrency=QUEUE, long_chars=1500, reference=sound.asked(), kit=probes.Kit()
    )
    print(found.detail)
    assert found.passed, found.evidence
    seen = {c.name: c.state for c in found.canaries}
    assert seen[probes.LOGPROBS] == seen[probes.TEMPLATE] == "passed" and "failed" not in seen.values()
    judged = canary.accuracy(harness, server, task=task, concurrency=QUEUE, reference=sound.asked())
    assert judged.passed and judged.score == 1.0 and judged.checked == 200, judged.detail
    drafted = point(server, harness, PROBE)
    print(f"acceptance {drafted.acceptance_length}, {drafted.output_tok_s:.1f} tok/s, without {sound.pace:.1f} tok/s")
    assert drafted.void is None and drafted.acceptance_length is not None and drafted.acceptance_length > 1.05


def test_s31_s18_a_scheduler_killed_in_a_point_leaves_what_was_done_and_ends_the_server(fast: Boots) -> None:
    server, harness = fast.get()
    assert valid(point(server, harness, plain(31)))

    def kill() -> None:
        (scheduler,) = processes(server, "sglang::scheduler")
        scheduler.kill()

    long = open_loop(SHARED, RULES.model_copy(update={"point_s": 30.0}), rate_rps=2, seed=5, content_seed=4)
    try:
        with once(server, harness, 3, kill), pytest.raises(CandidateFailed) as failed:
            harness.run(long, server)
    finally:
        fast.close()
    assert harness.partial is not None and harness.partial.cut
    assert harness.partial.requests.ok.any(), harness.partial.requests.errors
    assert not harness.partial.requests.ok.all()
    assert (failed.value.failure, failed.value.issue) == ("crashed", "scheduler-killed")
    assert "crashed with exit code -9" in failed.value.evidence
    nothing_is_left()


def test_s34_the_damaged_model_is_refused_though_it_is_as_fast(sound: Sound) -> None:
    reference, task, kit = sound.asked(), canary.task_of(sound.model), probes.Kit()
    sound.close()
    folder = HOME / "test-models" / "damaged"
    tiny_model(sound.node, sound.engines, folder, damaged=True, progress=lambda text: None)
    boots = Boots(sound.node, sound.engines, sound.facts, folder)
    try:
        server, harness = boots.get()
        pace = point(server, harness, PROBE).output_tok_s
        for known in (None, reference):
            wrong = canary.answer(
                harness, server, task=task, concurrency=QUEUE, long_chars=1500, reference=known, kit=kit
            )
            assert not wrong.passed and wrong.failure == FailureClass.ACCURACY_WRONG_OUTPUT, wrong.detail
        states = {c.name: c.state for c in wrong.canaries}
        assert states[probes.LOGPROBS] == "failed", wrong.detail
        print(wrong.detail)
        lost = canary.accuracy(harness, server, task=task, concurrency=QUEUE, reference=reference)
    finally:
        boots.close()
    assert not lost.passed and lost.checked == 200
    assert [j.verdict for j in lost.judged] == ["lossy", "lossy"]
    print(f"sound {sound.pace:.1f} tok/s, damaged {pace:.1f} tok/s")
    assert pace > 0.7 * sound.pace, "it is as fast: only its answers give it away"
