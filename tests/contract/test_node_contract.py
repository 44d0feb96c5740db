"""What every node keeps, real or simulated: one set of bodies over all implementations."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from day0.runs.errors import Cancelled, Infrastructure, Refused, Timeout
from day0.sandboxes.base import Node, Process, Sandbox
from day0.sandboxes.spec import SandboxSpec

from tests.contract.node_worlds.contained import DockerWorld, with_docker
from tests.contract.node_worlds.played import PlayedWorld
from tests.contract.node_worlds.real import RealWorld
from tests.contract.node_worlds.twin import TwinWorld

World = RealWorld | PlayedWorld | TwinWorld | DockerWorld
WORLDS = [
    pytest.param(RealWorld, id="local"),
    pytest.param(PlayedWorld, id="scripted"),
    pytest.param(TwinWorld, id="twin"),
    pytest.param(DockerWorld, id="docker", marks=with_docker),
]


@pytest.fixture(params=WORLDS)
def world(request, tmp_path):
    world = request.param(tmp_path / "home")
    yield world
    left = world.living()
    world.close()
    assert left == 0, "a test left processes behind"


@pytest.fixture
def node(world: World) -> Node:
    return world.node


@pytest.fixture
def sandbox(world: World):
    with world.node.open(SandboxSpec("server", world.environment, "r1.1", epoch=2)) as sandbox:
        yield sandbox


def until(node: Node, done: Callable[[], object], limit_s: float = 10.0) -> float:
    """Node seconds until `done`."""
    start = node.clock.now()
    while not done():
        assert node.clock.now() < start + limit_s, "it never happened"
        node.clock.sleep(0.02)
    return node.clock.now() - start


def up(node: Node, process: Process) -> Process:
    until(node, lambda: b"up" in process.output(0, 100))
    return process


def whole(process: Process) -> bytes:
    return process.output(0, 1 << 20)


def serving(node: Node, sandbox: Sandbox, late: float = 0.0) -> tuple[Process, httpx.Client]:
    port = sandbox.free_port()
    process = sandbox.spawn(["serve", str(port), str(late)])
    until(node, lambda: b"listening" in whole(process))
    return process, sandbox.http(port)


# -- ends ------------------------------------------------------------------------------------------------------------


def test_a_program_runs_and_its_output_and_code_are_kept(sandbox):
    process = sandbox.spawn(["say", "hello", "$HOME; rm -rf /"])
    assert process.wait(10).code == 0
    assert whole(process) == b"hello $HOME; rm -rf /\n"
    assert process.poll() == process.wait(0)


def test_a_failing_program_is_a_result_and_no_exception(sandbox):
    process = sandbox.spawn(["fail", "5"])
    assert (process.wait(10).code, process.wait(0).oom) == (5, False)
    assert whole(process) == b"it broke\n"


def test_an_unknown_program_exits_127_and_says_so(sandbox):
    process = sandbox.spawn(["no-such-program", "--flag"])
    assert process.wait(10).code == 127
    assert b"no-such-program" in whole(process)


def test_wait_times_out_and_the_program_goes_on(node, sandbox):
    process = sandbox.spawn(["nap", "300"])
    start = node.clock.now()
    with pytest.raises(Timeout):
        process.wait(0.15)
    assert 0.15 <= node.clock.now() - start < 1.0
    assert process.poll() is None


def test_stdin_arrives_whole_and_ends(sandbox):
    data = bytes(range(256)) * 1000
    process = sandbox.spawn(["echo"], stdin=data)
    assert process.wait(10).code == 0
    assert process.output(0, 1 << 20) == data


# -- stop ------------------------------------------------------------------------------------------------------------


def test_stop_lets_a_program_say_goodbye(node, sandbox):
    process = up(node, sandbox.spawn(["polite"]))
    assert process.stop(5).code == 7
    assert whole(process) == b"up\nbye\n"


def test_stop_is_idempotent(node, sandbox):
    process = up(node, sandbox.spawn(["polite"]))
    assert process.stop(5) == process.stop(5) == process.stop(0)


def test_stop_after_the_end_keeps_the_code(sandbox):
    process = sandbox.spawn(["fail", "9"])
    process.wait(10)
    assert process.stop(5).code == 9


def test_stop_kills_what_ignores_sigterm_after_the_grace(node, sandbox):
    process = up(node, sandbox.spawn(["stubborn"]))
    start = node.clock.now()
    assert process.stop(0.3).code == 128 + 9
    assert 0.3 <= node.clock.now() - start < 2.0


def test_s18_stop_takes_the_grandchildren_along(world, node, sandbox):
    process = sandbox.spawn(["family", "5"])
    until(node, lambda: process.vitals().children == 7)
    process.stop(5)
    assert world.living() == 0
    assert process.vitals().children == 0


def test_s18_a_double_forked_daemon_does_not_get_away(world, node, sandbox):
    process = sandbox.spawn(["daemon"])
    assert process.wait(10).code == 0
    up(node, process)
    assert process.vitals().children == 1
    process.stop(0)
    assert world.living() == 0


def test_leaving_the_sandbox_stops_everything_and_removes_its_files(world, node):
    with node.open(SandboxSpec("harness", world.environment, "r1.1")) as sandbox:
        for _ in range(3):
            up(node, sandbox.spawn(["stubborn"]))
        sandbox.write("a/b", b"x")
        root = sandbox.root
        assert Path(root).is_dir()
    assert world.living() == 0
    assert not Path(root).exists()


def test_an_error_inside_the_block_stops_everything_too(world, node):
    with (
        pytest.raises(ZeroDivisionError),
        node.open(SandboxSpec("server", world.environment, "r1.1")) as sandbox,
    ):
        up(node, sandbox.spawn(["stubborn"]))
        raise ZeroDivisionError
    assert world.living() == 0


# -- signs of life ---------------------------------------------------------------------------------------------------


def test_s28_a_silent_but_busy_program_shows_cpu(node, sandbox):
    process = sandbox.spawn(["burn"])
    before = process.vitals()
    node.clock.sleep(0.5)
    after = process.vitals()
    assert after.output_bytes == before.output_bytes == 0
    assert after.cpu_s - before.cpu_s > 0.05


def test_a_sleeping_program_shows_none(node, sandbox):
    process = sandbox.spawn(["nap", "300"])
    node.clock.sleep(0.3)
    before = process.vitals()
    node.clock.sleep(0.3)
    after = process.vitals()
    assert after.cpu_s - before.cpu_s < 0.05
    assert after.children == 1


def test_output_is_readable_from_any_offset_while_it_grows(node, sandbox):
    process = up(node, sandbox.spawn(["polite"]))
    assert process.output(1, 1) == b"p"
    assert process.output(3, 100) == process.output(99, 100) == b""
    process.stop(5)
    assert process.output(3, 100) == b"bye\n"
    assert process.vitals().output_bytes == 7


def test_a_log_flood_keeps_head_and_tail_at_their_offsets(sandbox):
    process = sandbox.spawn(["flood", "80"])
    assert process.wait(30).code == 0
    total = process.vitals().output_bytes
    assert total == 80 * (1 << 20) + len(b"the end\n")
    assert process.output(total - 8, 100) == b"the end\n"
    assert process.output(3 << 20, 16) == b"000000000000003\n"
    assert process.output(75 << 20, 16) == b"000000000000075\n"
    offset, marks, kept = 0, 0, 0
    while data := process.output(offset, 4 << 20):
        offset += len(data)
        marks += data.count(b"bytes of output not kept]")
        kept += 0 if data.isspace() or b"not kept]" in data else len(data)
    assert (offset, marks) == (total, 1)
    assert kept <= 64 << 20


# -- http ------------------------------------------------------------------------------------------------------------


def test_late_ready_refuses_until_it_listens(node, sandbox):
    port = sandbox.free_port()
    process = sandbox.spawn(["serve", str(port), "0.3"])
    with sandbox.http(port) as http:
        with pytest.raises(httpx.ConnectError):
            http.get("/ok")
        until(node, lambda: b"listening" in whole(process))
        assert http.get("/ok").text == "ok"
        assert http.get("/error").status_code == 500
        assert str(http.base_url) == f"http://127.0.0.1:{port}"


def test_a_silent_server_is_a_read_timeout(node, sandbox):
    _, http = serving(node, sandbox)
    start = node.clock.now()
    with pytest.raises(httpx.ReadTimeout):
        http.get("/hang", timeout=0.25)
    assert 0.25 <= node.clock.now() - start < 1.5


def test_half_a_response_is_a_protocol_error(node, sandbox):
    process, http = serving(node, sandbox)
    with pytest.raises(httpx.RemoteProtocolError):
        http.get("/half")
    assert process.poll() is None


def test_death_in_mid_stream_is_a_protocol_error_and_shows_in_the_process(node, sandbox):
    process, http = serving(node, sandbox)
    got = b""
    with pytest.raises(httpx.RemoteProtocolError), http.stream("GET", "/die") as answer:
        for chunk in answer.iter_raw():
            got += chunk
    assert got == b"0123456789"
    assert process.wait(5).code == 3
    with pytest.raises(httpx.ConnectError):
        http.get("/ok")


def test_a_stream_arrives_chunk_by_chunk_as_time_passes(node, sandbox):
    _, http = serving(node, sandbox)
    times = []
    with http.stream("GET", "/stream") as answer:
        lines = [(times.append(node.clock.now()), line)[1] for line in answer.iter_lines()]
    assert lines == ["a0", "a1", "a2"]
    assert times[2] - times[0] >= 0.09


def test_a_proxy_in_the_environment_is_ignored(node, sandbox, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    _, http = serving(node, sandbox)
    assert http.get("/ok").text == "ok"


# -- cancel ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["wait", "http", "sleep"])
def test_s06_cancel_ends_a_blocked_call_within_a_second(world, node, sandbox, how):
    process, http = serving(node, sandbox)
    calls = {
        "wait": lambda: process.wait(300),
        "http": lambda: http.get("/hang", timeout=300),
        "sleep": lambda: node.clock.sleep(300),
    }
    world.cancel_after(0.1)
    start = node.clock.now()
    with pytest.raises(Cancelled):
        calls[how]()
    assert node.clock.now() - start < 1.1
    with pytest.raises(Cancelled):
        sandbox.spawn(["nap", "1"])


def test_s06_stop_works_after_a_cancel_and_cuts_a_long_grace(world, node, sandbox):
    process = up(node, sandbox.spawn(["stubborn"]))
    world.cancel_after(0.0)
    if isinstance(world, RealWorld | DockerWorld):
        time.sleep(0.05)
    start = node.clock.now()
    assert process.stop(0.2).code == 128 + 9
    assert node.clock.now() - start < 2


# -- files, environment, ports -----------------------------------------------------------------------------------------


def test_files_go_in_and_come_out(node, sandbox):
    sandbox.write("in/data.bin", b"\0\xff" * 10)
    assert sandbox.read("in/data.bin", 100) == b"\0\xff" * 10
    assert sandbox.read("in/data.bin", 3) == b"\0\xff\0"
    assert sandbox.read(sandbox.root + "/in/data.bin", 2) == b"\0\xff"
    sandbox.spawn(["note", "out.txt", "written inside"]).wait(10)
    assert sandbox.read("out.txt", 100) == b"written inside"
    with pytest.raises(FileNotFoundError):
        sandbox.read("not/there", 10)


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a/../../x", "../../../../etc/passwd", "a\0b"])
def test_paths_that_leave_the_sandbox_are_refused(sandbox, path):
    with pytest.raises(Refused):
        sandbox.read(path, 10)
    with pytest.raises(Refused):
        sandbox.write(path, b"x")


def test_a_planted_link_leads_nowhere(sandbox):
    for target, name in (("/etc", "etc"), ("/etc/passwd", "file"), ("..", "up")):
        sandbox.spawn(["plant", target, name]).wait(10)
    for path in ("etc/passwd", "file", "up/x"):
        with pytest.raises(Refused):
            sandbox.read(path, 10)
        with pytest.raises(Refused):
            sandbox.write(path, b"x")


def test_s58_secrets_of_the_parent_never_reach_a_child(world, monkeypatch):
    secret = "s3cr3t-value-0123456789"
    for name in ("HF_TOKEN", "DAY0_LLM_API_KEY", "AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "UNHEARD_OF"):
        monkeypatch.setenv(name, secret)
    monkeypatch.setenv("LANG", "C.UTF-8")
    for role, network in (("server", "loopback"), ("harness", "loopback"), ("job", "registry")):
        spec = SandboxSpec(
            role, world.environment, "r1.7", epoch=3, network=network, env={"FLAG": "1"}, caches=("jit",)
        )
        with world.node.open(spec) as sandbox:
            process = sandbox.spawn(["show-env"], env={"EXTRA": "2"})
            process.wait(10)
            text = whole(process).decode()
            seen = dict(line.split("=", 1) for line in text.splitlines())
        assert secret not in text
        assert (seen["FLAG"], seen["EXTRA"], seen["LANG"]) == ("1", "2", "C.UTF-8")
        assert (seen["DAY0_ATTEMPT"], seen["DAY0_EPOCH"]) == ("r1.7", "3")
        assert seen["HOME"].startswith(sandbox.root)
        # below a long home sockets would find no room: then it is a short folder of this user's alone
        assert seen["TMPDIR"].startswith((sandbox.root, f"/tmp/day0-{os.geteuid()}/"))
        assert seen["PATH"].startswith(world.environment + "/bin:")
        assert Path(seen["DAY0_CACHE_JIT"]).is_dir(), "a cache outlives its sandbox"


def test_two_sandboxes_share_no_files(world, node):
    spec = SandboxSpec("job", world.environment, "r1.1", network="loopback")
    with node.open(spec) as one, node.open(spec) as two:
        one.write("x", b"1")
        assert one.root != two.root
        with pytest.raises(FileNotFoundError):
            two.read("x", 1)


def test_a_mount_is_readable_and_nothing_beside_it(world, node, tmp_path):
    model = tmp_path / "models" / "tiny"
    model.mkdir(parents=True)
    (model / "config.json").write_text("{}")
    (tmp_path / "models" / "other").write_text("secret")
    spec = SandboxSpec("server", world.environment, "r1.1", mounts=((str(model), "model"),))
    with node.open(spec) as sandbox:
        assert sandbox.read("model/config.json", 10) == b"{}"
        with pytest.raises(Refused):
            sandbox.read("model/../../other", 10)
        with pytest.raises(Refused):
            sandbox.write("model/config.json", b"changed")
    assert (model / "config.json").read_text() == "{}"


def test_an_environment_that_is_not_installed_is_infrastructure(node):
    with pytest.raises(Infrastructure), node.open(SandboxSpec("server", "/not/installed", "r1.1")):
        pass


def test_s20_a_port_is_never_given_twice(world, sandbox):
    ports = [sandbox.free_port() for _ in range(30)]
    with world.restarted().open(SandboxSpec("harness", world.environment, "r1.2")) as other:
        ports += [other.free_port() for _ in range(30)]
    assert len(set(ports)) == 60


def test_s25_a_port_held_by_a_stranger_is_passed_over(world, node, sandbox):
    taken = sandbox.free_port() + 1
    with world.stranger_on(taken):
        assert sandbox.free_port() != taken
        process = sandbox.spawn(["serve", str(taken), "0"])
        assert process.wait(10).code == 1
        assert b"in use" in whole(process)


# -- host and sweep ----------------------------------------------------------------------------------------------------


def test_host_runs_what_is_allowed_and_nothing_else(node):
    assert node.host(["uname"], timeout_s=10).exit_code == 0
    assert node.host(["amd-smi", "list"], timeout_s=10).exit_code == 127
    for argv in (["rm", "-rf", "/"], ["sh", "-c", "true"], ["cat", "/etc/passwd"], ["cat", "/proc/../etc/passwd"]):
        with pytest.raises(Refused):
            node.host(argv, timeout_s=10)


@pytest.mark.parametrize("argv", [("daemon",), ("family", "4")])
def test_s01_sweep_stops_what_a_killed_owner_left(world, argv):
    world.leave_behind(*argv)
    assert world.living() > 0
    swept = world.restarted().sweep()
    assert world.living() == 0
    assert {attempt for _, attempt in swept.stopped} == {"r1.9"}
    assert swept.failed == ()
    assert world.restarted().sweep().stopped == ()


def test_sweep_leaves_what_has_a_living_owner(world, node, sandbox):
    process = up(node, sandbox.spawn(["stubborn"]))
    world.leave_behind("daemon")
    swept = world.restarted().sweep()
    assert [attempt for _, attempt in swept.stopped] == ["r1.9"]
    assert process.poll() is None
    assert Path(sandbox.root).is_dir()
