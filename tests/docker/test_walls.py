"""What a container keeps in and out, on a real daemon."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from day0.runs.errors import Infrastructure, NodeLost, Refused
from day0.sandboxes.docker_janitor import NODE
from day0.sandboxes.spec import SandboxSpec

from tests.contract.node_worlds.contained import BASE, SOCKET
from tests.contract.test_node_contract import serving, until, up, whole

PYTHON = ["python3", "-IS", "-c"]


def said(sandbox, code: str, *argv: str, limit_s: float = 30) -> str:
    process = sandbox.spawn([*PYTHON, code, *argv])
    process.wait(limit_s)
    return whole(process).decode()


CONNECT = """
import socket, sys
for address in (("127.0.0.1", int(sys.argv[1])), ("192.0.2.1", 80), ("172.17.0.1", int(sys.argv[1]))):
    try: socket.create_connection(address, 2); print("reached", address)
    except OSError as error: print("cut off:", error.strerror)
print(open("/proc/net/dev").read().count(":"), "interfaces")
"""


@pytest.mark.parametrize("role", ["server", "harness", "job"])
def test_s62_s60_a_container_has_a_loopback_of_its_own_and_nothing_else(node, role):
    with socket.create_server(("0.0.0.0", 0)) as listener:
        port = str(listener.getsockname()[1])
        with node.open(SandboxSpec(role, "", "r1.1", network="loopback")) as sandbox:
            text = said(sandbox, CONNECT, port)
    assert "reached" not in text
    assert "1 interfaces" in text


def test_s62_the_server_is_reached_by_its_harness_and_by_day0_and_by_nobody_on_the_host(world, node):
    server, harness = (SandboxSpec(role, world.environment, "r1.1") for role in ("server", "harness"))
    with node.open(harness) as loader, node.open(server) as sandbox:
        _, http = serving(node, sandbox)
        assert http.get("/ok").text == "ok"
        port = http.base_url.port
        get = "import socket,sys; s=socket.create_connection(('127.0.0.1', int(sys.argv[1]))); "
        get += "s.sendall(b'GET /ok HTTP/1.1\\r\\n\\r\\n'); print(s.recv(999).decode())"
        assert said(loader, get, str(port)).endswith("ok\n")
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), 2)
        with node.open(SandboxSpec("server", world.environment, "r1.2")) as other:
            assert "refused" in said(other, get, str(port)), "another attempt's namespace is another one"


def test_s37_s58_environments_weights_and_day0s_own_programs_are_read_only_and_the_home_is_not_there(
    world, node, tmp_path
):
    weights = tmp_path / "weights"
    weights.mkdir()
    (weights / "model.safetensors").write_text("w")
    (tmp_path / "secret").write_text("s3cr3t")
    spec = SandboxSpec("server", world.environment, "r1.1", mounts=((str(weights), str(weights)),))
    with node.open(spec) as sandbox:
        write = """
import sys
for path in sys.argv[1:]:
    try: open(path, "a").write("x"); print("wrote", path)
    except OSError as error: print(error.strerror)"""
        program = str(next(node.root.glob("inside-*")) / "sandboxes/warden.py")
        text = said(sandbox, write, f"{weights}/model.safetensors", f"{world.environment}/bin/say", program)
        assert text.count("Read-only file system") == 3
        look = "import os, sys; print([p for p in sys.argv[1:] if os.path.exists(p)])"
        hidden = (
            tmp_path / "secret", SOCKET.removeprefix("unix://"), "/var/run/docker.sock", Path.home() / ".ssh",
            node.root / "ports.json", __file__,
        )  # fmt: skip
        assert said(sandbox, look, *map(str, hidden)) == "[]\n"
    assert (weights / "model.safetensors").read_text() == "w"


def test_s37_a_server_sees_nothing_of_what_measures_it(world, node):
    with (
        node.open(SandboxSpec("harness", world.environment, "r1.1")) as harness,
        node.open(SandboxSpec("server", world.environment, "r1.1")) as server,
    ):
        harness.write("loadgen.py", b"measures")
        up(node, harness.spawn(["polite"]))
        look = "import os, sys; print(os.path.exists(sys.argv[1]), sum(n.isdigit() for n in os.listdir('/proc')))"
        found, count = said(server, look, f"{harness.root}/loadgen.py").split()
        assert found == "False"
        assert int(count) < 8, "its own processes alone"


def test_privileges_are_gone(node):
    code = """
import os
status = dict(l.split(":\\t") for l in open("/proc/self/status").read().splitlines() if ":\\t" in l)
print(status["CapEff"], status["CapBnd"], status["NoNewPrivs"], status["Seccomp"], os.path.exists("/dev/kfd"))"""
    with node.open(SandboxSpec("server", "", "r1.1")) as sandbox:
        assert said(sandbox, code).split() == ["0" * 16, "0" * 16, "1", "2", "False"]


def test_s65_a_mount_outside_of_the_allowed_is_refused_and_nothing_is_left(world, node):
    for path in ("/etc", SOCKET.removeprefix("unix://"), "/usr/share"):
        with pytest.raises(Refused), node.open(SandboxSpec("server", "", "r1.1", mounts=((path, path),))):
            pass
    assert world.containers() == []
    assert list((node.root / "shown").iterdir()) == []


def test_memory_beyond_the_limit_is_an_oom_of_the_program_and_the_sandbox_goes_on(node):
    with node.open(SandboxSpec("job", "", "r1.1", memory_bytes=200 << 20)) as sandbox:
        process = sandbox.spawn([*PYTHON, "x = bytearray(b'1') * (400 << 20); print('had it')"])
        end = process.wait(60)
        assert (end.code, end.oom) == (128 + 9, True)
        assert said(sandbox, "print('still here')") == "still here\n"
        assert (sandbox.spawn(["false"]).wait(10).oom) is False


def test_a_fork_bomb_ends_at_the_limit_of_tasks(daemon, world, node):
    with node.open(SandboxSpec("job", "", "r1.1")) as sandbox:
        limit = daemon.inspect(sandbox.container)["HostConfig"]["PidsLimit"]
        assert 0 < limit <= 32768
        assert daemon.inspect(sandbox.container)["HostConfig"]["Init"] is True


def test_cores_are_those_that_were_asked_for(node):
    core = max(os.sched_getaffinity(0))
    with node.open(SandboxSpec("server", "", "r1.1", cores=(core,))) as sandbox:
        assert said(sandbox, "import os; print(os.sched_getaffinity(0))") == f"{{{core}}}\n"
    with pytest.raises(Infrastructure, match="4095"), node.open(SandboxSpec("server", "", "r", cores=(4095,))):
        pass


def test_a_container_that_somebody_kills_is_the_nodes_fault(daemon, node):
    with node.open(SandboxSpec("server", "", "r1.1")) as sandbox:
        process = sandbox.spawn(["sleep", "60"])
        daemon.remove(sandbox.container)
        with pytest.raises(NodeLost):
            process.wait(20)


def test_s18_a_killed_warden_takes_the_whole_container_along(world, node):
    with node.open(SandboxSpec("server", world.environment, "r1.1")) as sandbox:
        process = up(node, sandbox.spawn(["family", "4"]))
        os.kill(process.pid, signal.SIGKILL)
        with pytest.raises(NodeLost, match="warden"):
            process.wait(20)
        until(node, lambda: world.living() == 0)


OWNER = """
import os, sys, time
from pathlib import Path
from day0.sandboxes.spec import SandboxSpec
from tests.contract.node_worlds.contained import node_in
node = node_in(Path(sys.argv[1]), lambda: False)
with node.open(SandboxSpec("server", sys.argv[2], "r1.9")) as sandbox:
    process = sandbox.spawn(["family", "3"])
    while b"up" not in process.output(0, 99): time.sleep(0.01)
    print("up", flush=True); time.sleep(300)
"""


def owner_of(world) -> subprocess.Popen:
    root = Path(__file__).parents[2]
    started = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(world.folder), world.environment], stdout=subprocess.PIPE, cwd=root
    )
    assert started.stdout is not None and started.stdout.readline() == b"up\n"
    return started


def test_s01_a_killed_day0_leaves_no_running_program_and_in_the_end_no_running_container(world, node, daemon):
    owner = owner_of(world)
    assert world.living() > 0
    owner.kill()
    owner.wait()
    owner.stdout.close()
    until(node, lambda: world.living() == 0, 10.0)  # its wardens, within their grace
    running = lambda: [c for c in world.containers() if c["State"] == "running"]  # noqa: E731
    until(node, lambda: not running(), 30.0)  # then the containers by themselves
    world.restarted().sweep()
    assert world.containers() == []


def test_a_sweep_touches_nothing_but_containers_with_our_label_and_a_dead_owner(world, node, daemon):
    made = daemon.api.create_container(BASE, ["sleep", "60"], labels={NODE: "/another/home/nodes/n1"})["Id"]
    plain = daemon.api.create_container(BASE, ["sleep", "60"])["Id"]
    unsigned = daemon.api.create_container(BASE, ["sleep", "60"], labels={NODE: str(node.root)})["Id"]
    try:
        with node.open(SandboxSpec("server", world.environment, "r1.1")) as sandbox:
            owner = owner_of(world)
            assert world.restarted().sweep().stopped == (), "both owners live"
            owner.kill()
            owner.wait()
            owner.stdout.close()
            assert {attempt for _, attempt in world.restarted().sweep().stopped} == {"r1.9"}
            assert said(sandbox, "print(1)") == "1\n"
        for container in (made, plain, unsigned):
            daemon.inspect(container)
    finally:
        for container in (made, plain, unsigned):
            daemon.remove(container)
        until(node, lambda: world.living() == 0, 10.0)


NOBODY = """
import os, sys
from pathlib import Path
from day0.sandboxes import environment, redact
from day0.sandboxes.docker import DockerNode
from day0.sandboxes.docker_engine import DockerEngine
from day0.sandboxes.spec import SandboxSpec
home, socket, base = sys.argv[1:]
write = "import os; [open(os.environ[f] + '/made', 'w').write('x') for f in ('HOME', 'DAY0_CACHE_JIT', 'TMPDIR')]"
def cycle(home):
    node = DockerNode("n1", Path(home), engine=DockerEngine(socket), base=base, allowed=(), cancel=lambda: False)
    with node.open(SandboxSpec("server", "", "r1.1", caches=("jit",))) as sandbox:
        sandbox.write("in.txt", b"1")
        done = sandbox.spawn(["python3", "-c", write])
        assert done.wait(30).code == 0, done.output(0, 9999)
        port = sandbox.free_port()
        sandbox.spawn(["python3", "-m", "http.server", str(port), "--bind", "127.0.0.1"])
        while True:
            try: answer = sandbox.http(port).get("/in.txt"); break
            except Exception: node.clock.sleep(0.1)
        print(answer.text, {os.lstat(p).st_uid for p in Path(home).rglob("*")}, flush=True)
    node.close()
cycle(home + "-root")  # as root, so that all that is imported is: this checkout may lie where no other user can look
os.setgroups([]); os.setgid(65534); os.setuid(65534)
cycle(home)
"""


def test_s21_an_ordinary_user_needs_no_root_and_nothing_of_roots_is_left(world):
    path, root = Path(SOCKET.removeprefix("unix://")), Path(__file__).parents[2]
    if shut := [folder for folder in path.parents if folder.stat().st_mode & 0o001 == 0]:
        pytest.skip(f"another user can't enter {shut[0]}, where the daemon's socket lies")
    home, before = Path("/var/tmp") / f"day0-nobody-{os.getpid()}", path.stat().st_mode
    home.mkdir()
    os.chown(home, 65534, 65534)
    try:
        path.chmod(0o666)
        argv = [sys.executable, "-c", NOBODY, str(home), SOCKET, BASE]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=90, cwd=root)
        assert done.returncode == 0, done.stderr
        assert done.stdout == "1 {0}\n1 {65534}\n"
        assert {p.lstat().st_uid for p in home.rglob("*")} == {65534}
    finally:
        path.chmod(before)
        shutil.rmtree(home)
        shutil.rmtree(f"{home}-root", ignore_errors=True)
