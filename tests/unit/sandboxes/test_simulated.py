from __future__ import annotations

import itertools
import math

import httpx
import pytest
from day0.runs.errors import Cancelled
from day0.sandboxes.scripted import ScriptedNode, find
from day0.sandboxes.simulated.kernel import Kernel
from day0.sandboxes.simulated.steps import Await, Body, Exit, Listen, Out, Start, Use, Wait
from day0.sandboxes.spec import SandboxSpec

FOREVER = Wait(math.inf)
SPEC = SandboxSpec("server", "", "r1.1")


def never() -> None:
    pass


def test_events_of_one_moment_happen_in_the_order_they_were_planned():
    kernel, seen = Kernel(), []
    kernel.after(1, lambda: seen.append("b"))
    kernel.after(0, lambda: (seen.append("a"), kernel.after(0, lambda: seen.append("a2"))))
    kernel.after(1, lambda: seen.append("c"))
    kernel.after(2, lambda: seen.append("never")).drop()
    assert not kernel.run(10, lambda: False, never)
    assert (seen, kernel.now) == (["a", "a2", "b", "c"], 10)


def test_time_stops_where_the_condition_holds():
    kernel, seen = Kernel(), []
    for n in range(5):
        kernel.after(n, lambda n=n: seen.append(n))
    assert kernel.run(100, lambda: len(seen) == 3, never)
    assert kernel.now == 2


def test_the_check_is_called_at_least_once_per_virtual_second():
    kernel, times = Kernel(), []
    kernel.after(50.5, never)
    kernel.run(100, lambda: False, lambda: times.append(kernel.now))
    assert max(b - a for a, b in itertools.pairwise(times)) <= 1.0
    assert len(times) == 100


def server(ctx):
    def handler(request):
        for n in range(20):
            yield Wait(30.3)
            yield Body(b"%d " % n)

    yield Wait(600.0, cpu=1.0)
    yield Use(io_bytes=1 << 30, vram_bytes=200 << 30)
    yield Listen(8000, handler)
    yield Out(b"ready\n")
    yield FOREVER


def test_twenty_minutes_pass_while_a_stream_is_read(tmp_path):
    node = ScriptedNode("n1", tmp_path, {"serve": server}, cancel=lambda: False)
    with node.open(SPEC) as sandbox:
        process = sandbox.spawn(["/opt/bin/serve", "--flag"])
        node.clock.sleep(300)
        assert process.vitals().cpu_s == 300
        node.clock.sleep(300)
        assert process.vitals().vram_bytes == 200 << 30
        with sandbox.http(8000) as http, http.stream("GET", "/", timeout=31) as answer:
            assert b"".join(answer.iter_raw()).split() == [b"%d" % n for n in range(20)]
        assert node.clock.now() == pytest.approx(1206)
        with sandbox.http(8000) as http, pytest.raises(httpx.ReadTimeout):
            http.get("/", timeout=30)
        assert node.clock.now() == pytest.approx(1236)
        process.stop(5)
        assert process.vitals().vram_bytes == 0


def test_a_client_that_goes_away_ends_the_handler(tmp_path):
    closed = []

    def serve(ctx):
        def handler(request):
            try:
                yield Body(b"x")
                yield FOREVER
            finally:
                closed.append(request.path)

        yield Listen(1, handler)
        yield FOREVER

    node = ScriptedNode("n1", tmp_path, {"serve": serve}, cancel=lambda: False)
    with node.open(SPEC) as sandbox:
        sandbox.spawn(["serve"])
        node.clock.sleep(0)
        with sandbox.http(1) as http, http.stream("GET", "/a"):
            assert closed == []
        assert closed == ["/a"]


def test_a_program_can_wait_for_anything(tmp_path):
    def child(ctx):
        yield Exit(0)

    def waits(ctx):
        value = yield Await(lambda resume: [ctx.machine.kernel.after(5, lambda: resume("a")), resume and None])
        again = yield Await(lambda resume: [resume("b"), resume("never")])
        pid = yield Start(child)
        yield Out(f"{value}{again} {pid - ctx.pid}".encode())

    node = ScriptedNode("n1", tmp_path, {"waits": waits}, cancel=lambda: False)
    with node.open(SPEC) as sandbox:
        process = sandbox.spawn(["waits"])
        process.wait(100)
        assert process.output(0, 99) == b"ab 1"
        assert node.clock.now() == 5


def test_an_error_in_a_program_ends_it_like_a_crash(tmp_path):
    def taken(ctx):
        yield Listen(7, lambda request: iter(()))
        yield Listen(7, lambda request: iter(()))

    node = ScriptedNode("n1", tmp_path, {"taken": taken}, cancel=lambda: False)
    with node.open(SPEC) as sandbox:
        process = sandbox.spawn(["taken"])
        assert process.wait(1).code == 1
        assert b"address already in use" in process.output(0, 999)
        assert node.machine.is_free(7)


def test_equal_scripts_give_equal_histories(tmp_path):
    def history(folder):
        node = ScriptedNode("n1", folder, {"serve": server}, cancel=lambda: False)
        seen = []
        with node.open(SPEC) as sandbox:
            seen.append(sandbox.free_port())
            one, two = sandbox.spawn(["serve"]), sandbox.spawn(["serve"])
            node.clock.sleep(601)
            seen += [one.poll(), two.poll(), one.vitals(), two.output(0, 99), node.clock.now()]
        return seen

    first = history(tmp_path / "a")
    assert first == history(tmp_path / "b")
    assert first[2].code == 1, "the second server found the port taken"


def test_a_cancel_inside_a_request_closes_it(tmp_path):
    def serve(ctx):
        def handler(request):
            yield FOREVER

        yield Listen(1, handler)
        yield FOREVER

    cancelled = []
    node = ScriptedNode("n1", tmp_path, {"serve": serve}, cancel=lambda: node.clock.now() > 9.5 and not cancelled)
    with node.open(SPEC) as sandbox:
        sandbox.spawn(["serve"])
        node.clock.sleep(1)
        with pytest.raises(Cancelled):
            sandbox.http(1).get("/", timeout=None)
        cancelled.append(True)
        assert node.clock.now() <= 10.5
        assert node.machine.trees[0].members[0].exchanges == []


def test_programs_are_found_by_the_longest_beginning():
    a, b = (lambda ctx: iter(())), (lambda ctx: iter(()))
    programs = {"python": a, "python -m sglang.launch_server": b}
    assert find(programs, ["/x/python", "-m", "sglang.launch_server", "--port", "1"]) is b
    assert find(programs, ["python", "-m", "other"]) is a
    assert find(programs, ["python3"]) is None
