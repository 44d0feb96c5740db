"""A server's whole life on the scripted node: the same log lines and endpoints as SGLang, in virtual time."""

import json
import math

import pytest
from day0.runs.candidate import Candidate
from day0.runs.engine_facts import EngineFacts
from day0.runs.errors import CandidateFailed, DiskFull, Infrastructure
from day0.runs.workload import MeasureRules, Target
from day0.sandboxes.scripted import ScriptedNode
from day0.sandboxes.simulated.steps import Body, Exit, Head, Listen, Out, Start, Terminated, Wait
from day0.sandboxes.spec import SandboxSpec
from day0.tools.deaths import PortTaken
from day0.tools.engines.sglang import Sglang
from day0.tools.serve import serve

FACTS = EngineFacts(engine="sglang", build="b", version="0.5.23", flags=(), packages={"sglang": "0.5.23"})
CANDIDATE = Candidate(engine="sglang", build="b", model="/m", revision="r")
RULES = MeasureRules(point_s=8, min_requests=1, p95_multiples=0, max_points=3, max_pairs=2, stability_s=0)
TARGET = Target(
    name="t", kind="local", accelerator="cpu", stall_s=20, boot_stall_s=60, boot_cap_s=1200, measure=RULES, workload="w"
)
READY = b"[x] The server is fired up and ready to roll!\n"
FOREVER = Wait(math.inf)


class World:
    """What the simulated SGLang says; one dict for all tests, so that each changes one thing."""

    def __init__(self):
        self.info = {"version": "0.5.23", "model_path": "/m", "internal_states": []}
        self.text, self.status, self.slow_s = " Paris", 200, 0.05
        self.tokens, self.active, self.launches = 0.0, 0.0, 0

    def handler(self, request):
        match request.path.split("?")[0]:
            case "/generate":
                yield Wait(self.slow_s)
                yield Head(self.status)
                yield Body(json.dumps({"text": self.text, "meta_info": {"completion_tokens": 8}}).encode())
            case "/server_info":
                yield Body(json.dumps(self.info).encode())
            case "/metrics":
                line = 'sglang:http_requests_active{endpoint="/generate"} %s\nsglang:realtime_tokens_total %s\n'
                yield Body((line % (self.active, self.tokens)).encode())
            case _:
                yield Head(404)

    def server(self, ctx):
        self.launches += 1
        yield Out(b"loading\n")
        yield Wait(20.0, cpu=1.0)
        yield Listen(int(ctx.argv[ctx.argv.index("--port") + 1]), self.handler)
        yield Out(READY)
        yield FOREVER


@pytest.fixture
def world():
    return World()


def run(tmp_path, program, *, target=TARGET, cancel=lambda: False):
    node = ScriptedNode("n", tmp_path, {"python -m sglang.launch_server": program}, cancel=cancel)
    return node, serve(node, SandboxSpec("server", "env", "r1.1"), Sglang(), CANDIDATE, FACTS, target)


def failed(tmp_path, program, kind=CandidateFailed, target=TARGET):
    node, served = run(tmp_path, program, target=target)
    with pytest.raises(kind) as error, served:
        pytest.fail("it became ready")
    assert not [p for tree in node.machine.trees for p in tree.living()]
    return node, error.value


def test_s20_ready_is_a_real_generation_and_the_end_leaves_nothing(tmp_path, world):
    node, served = run(tmp_path, world.server)
    with served as server:
        assert server.facts.version == "0.5.23"
        assert 20 <= server.facts.ready_s < 22
        assert server.argv[-1] == "--enable-metrics"
        assert server.log().endswith(READY)
        server.alive()
    assert server.ended is not None
    assert not [p for tree in node.machine.trees for p in tree.living()]
    assert not list((tmp_path / "n" / "sandboxes").iterdir())


def test_s28_a_slow_but_busy_start_is_not_killed(tmp_path, world):
    def slow(ctx):
        yield Wait(900.0, cpu=1.0)
        yield from world.server(ctx)

    _, served = run(tmp_path, slow)
    with served as server:
        assert server.facts.ready_s > 900


def test_a_silent_start_is_a_hang_within_the_targets_limit(tmp_path):
    def silent(ctx):
        yield Out(b"Load weight begin.\n")
        yield FOREVER

    node, error = failed(tmp_path, silent)
    assert error.failure == "hang_deadlock"
    assert "Load weight begin." in error.evidence
    assert 60 <= node.clock.now() < 70
    assert error.log == b"Load weight begin.\n"


def test_a_start_without_end_meets_the_cap(tmp_path):
    def chatty(ctx):
        while True:
            yield Out(b"still loading\n")
            yield Wait(1.0)

    node, error = failed(tmp_path, chatty)
    assert error.failure == "hang_deadlock"
    assert "hard cap" in error.evidence
    assert 1200 <= node.clock.now() < 1220


@pytest.mark.parametrize(
    ("line", "failure", "issue"),
    [
        (b"sglang serve: error: unrecognized arguments: --x 3", "bad_argument", "argument-unknown"),
        (b"SafetensorError: Error while deserializing header: incomplete", "bad_checkpoint", "weights-truncated"),
        (b"QueerError: never seen", "crashed", "unknown"),
        (b"", "crashed", "unknown"),
    ],
)
def test_a_death_is_diagnosed_with_its_line(tmp_path, line, failure, issue):
    def dies(ctx):
        yield Wait(3.0)
        yield Out(line + b"\n")
        yield Exit(2)

    _, error = failed(tmp_path, dies)
    assert (error.failure, error.issue) == (failure, issue)
    assert line.decode() in error.evidence
    if issue == "unknown":
        assert "exit code 2" in error.evidence


def test_s11_a_full_disk_is_not_the_candidates_fault(tmp_path):
    def full(ctx):
        yield Out(b"OSError: [Errno 28] No space left on device: '/tmp/x'\n")
        yield Exit(1)

    _, error = failed(tmp_path, full, DiskFull)
    assert "No space left" in str(error)


def test_s25_a_taken_port_is_left_alone_and_another_is_tried_once(tmp_path, world):
    def taken(ctx):
        if world.launches == 0:
            world.launches += 1
            yield Out(
                b"[Errno 98] error while attempting to bind on address ('127.0.0.1', 1): address already in use\n"
            )
            yield FOREVER  # SGLang stays
        yield from world.server(ctx)

    _, served = run(tmp_path, taken)
    with served:
        assert world.launches == 2

    def always(ctx):
        yield Out(b"Port 31000 is already in use.\n")
        yield FOREVER

    failed(tmp_path / "again", always, PortTaken)


def test_an_unusable_server_is_no_server(tmp_path, world):
    world.status = 500
    _, error = failed(tmp_path, world.server)
    assert error.failure == "crashed"
    assert "generation answered 500" in error.evidence


def test_text_must_come_of_a_generation(tmp_path, world):
    world.text = ""
    _, error = failed(tmp_path, world.server)
    assert error.failure == "accuracy_wrong_output"


def test_a_first_answer_may_take_minutes(tmp_path, world):
    world.slow_s = 130.0
    target = TARGET.model_copy(update={"boot_stall_s": 400.0})
    _, served = run(tmp_path, world.server, target=target)
    with served as server:
        assert server.facts.ready_s > 150


def test_s43_another_model_fails_on_identity(tmp_path, world):
    world.info["model_path"] = "/other"
    _, error = failed(tmp_path, world.server)
    assert error.failure == "identity"
    assert READY in error.log


def watch(node, server, seconds):
    end = node.clock.now() + seconds
    while node.clock.now() < end:
        server.alive()
        node.clock.sleep(0.5)


def test_s01_a_stopped_scheduler_is_noticed_within_the_stall_limit(tmp_path, world):
    node, served = run(tmp_path, world.server)
    with pytest.raises(CandidateFailed) as error, served as server:
        world.active = 3.0  # requests wait, and no token comes any more
        began = node.clock.now()
        watch(node, server, 100)
    assert error.value.failure == "hang_deadlock"
    assert 20 <= node.clock.now() - began < 35


def test_an_idle_or_working_server_is_well(tmp_path, world):
    node, served = run(tmp_path, world.server)
    with served as server:
        watch(node, server, 60)
        world.active = 2.0
        for _ in range(12):
            world.tokens += 1
            watch(node, server, 10)
        node.clock.sleep(500)  # nobody looks between load points
        server.alive()


def test_a_killed_scheduler_is_a_crash_with_its_line(tmp_path, world):
    def dies(ctx):
        yield Listen(int(ctx.argv[ctx.argv.index("--port") + 1]), world.handler)
        yield Out(READY)
        yield Wait(30.0)
        yield Out(b"Subprocess scheduler_0 (pid=77) crashed with exit code -9. Triggering SIGQUIT for cleanup...\n")
        yield Exit(137)

    node, served = run(tmp_path, dies)
    with pytest.raises(CandidateFailed) as error, served as server:
        watch(node, server, 60)
    assert (error.value.failure, error.value.issue) == ("crashed", "scheduler-killed")
    assert "crashed with exit code -9" in error.value.evidence


def test_s18_a_server_that_ignores_its_end_and_leaves_children_is_gone_all_the_same(tmp_path, world):
    def child(ctx):
        yield FOREVER

    def stubborn(ctx):
        yield Start(child)
        yield Listen(int(ctx.argv[ctx.argv.index("--port") + 1]), world.handler)
        yield Out(READY)
        while True:
            try:
                yield FOREVER
            except Terminated:
                yield Out(b"no\n")

    node, served = run(tmp_path, stubborn)
    with served:
        pass
    assert not [p for tree in node.machine.trees for p in tree.living()]


def test_an_environment_that_is_not_there_is_infrastructure(tmp_path):
    node = ScriptedNode("n", tmp_path, {}, cancel=lambda: False, environments=("other",))
    spec = SandboxSpec("server", "env", "r1.1")
    with pytest.raises(Infrastructure), serve(node, spec, Sglang(), CANDIDATE, FACTS, TARGET):
        pass


def test_a_program_that_is_not_there_is_told(tmp_path):
    node = ScriptedNode("n", tmp_path, {}, cancel=lambda: False)
    spec = SandboxSpec("server", "env", "r1.1")
    with pytest.raises(CandidateFailed) as error, serve(node, spec, Sglang(), CANDIDATE, FACTS, TARGET):
        pass
    assert "exit code 127" in error.value.evidence
