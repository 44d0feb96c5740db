"""What only this machine's node can show: namespaces, memory, cores, descriptors, a full disk."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from day0.runs.errors import Infrastructure, Timeout
from day0.sandboxes import identity
from day0.sandboxes.isolation import grants_network_namespace
from day0.sandboxes.local import LocalNode
from day0.sandboxes.spec import SandboxSpec

PYTHON = [sys.executable, "-IS", "-c"]
SERVER = SandboxSpec("server", "", "r1.1")


@pytest.fixture
def node(tmp_path):
    return LocalNode("n1", tmp_path / "home", cancel=lambda: False)


@pytest.fixture
def sandbox(node):
    with node.open(SERVER) as sandbox:
        yield sandbox


def text(process) -> str:
    return process.output(0, 1 << 20).decode()


def shown(process, mark: str) -> str:
    end = time.monotonic() + 10
    while mark not in text(process):
        assert time.monotonic() < end
        time.sleep(0.01)
    return text(process)


CONNECT = """
import socket, sys
for address in (("127.0.0.1", int(sys.argv[1])), ("192.0.2.1", 80)):
    try: socket.create_connection(address, 2); print("reached", address)
    except OSError as error: print("cut off:", error.strerror)
"""


@pytest.mark.skipif(not grants_network_namespace(), reason="this system grants no network namespace")
def test_a_job_without_network_reaches_nothing_not_even_this_machine(node):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        argv = [*PYTHON, CONNECT, str(listener.getsockname()[1])]
        with node.open(SandboxSpec("job", "", "r1.1", network="none")) as job:
            process = job.spawn(argv)
            assert process.wait(10).code == 0
            assert "reached" not in text(process)
        with node.open(SandboxSpec("job", "", "r1.1", network="loopback")) as job:
            process = job.spawn([*argv[:-1], argv[-1]])
            process.wait(10)
            assert "reached ('127.0.0.1'" in text(process)


def test_a_job_without_network_is_refused_in_one_sentence_where_none_can_be_had(tmp_path):
    node = LocalNode("n1", tmp_path, cancel=lambda: False, offline=lambda: False)
    with (
        pytest.raises(Infrastructure, match="network namespace"),
        node.open(SandboxSpec("job", "", "r", network="none")),
    ):
        pass
    with node.open(SandboxSpec("server", "", "r", network="none")):
        pass
    assert list((tmp_path / "n1/sandboxes").iterdir()) == []


def test_cores_are_those_that_were_asked_for(node):
    core = max(os.sched_getaffinity(0))
    with node.open(SandboxSpec("server", "", "r1.1", cores=(core,))) as sandbox:
        process = sandbox.spawn([*PYTHON, "import os; print(os.sched_getaffinity(0))"])
        process.wait(10)
        assert text(process) == f"{{{core}}}\n"
    with pytest.raises(Infrastructure, match="4095"), node.open(SandboxSpec("server", "", "r", cores=(4095,))):
        pass


def test_a_child_gets_no_descriptors_but_the_three(sandbox):
    process = sandbox.spawn([*PYTHON, "import os; print(sorted(map(int, os.listdir('/proc/self/fd')))[:-1])"])
    process.wait(10)
    assert text(process) == "[0, 1, 2]\n"


def test_memory_beyond_the_limit_is_an_error_inside_or_an_oom(node):
    spec = SandboxSpec("job", "", "r1.1", network="loopback", memory_bytes=200 << 20)
    with node.open(spec) as job:
        process = job.spawn([*PYTHON, "x = bytearray(400 << 20); print('had it')"])
        assert process.wait(10).code == 1
        assert "MemoryError" in text(process)
        several = "import os, time\nfor _ in range(3): os.fork()\nx = bytearray(b'1') * (60 << 20); time.sleep(60)"
        process = job.spawn([*PYTHON, several])
        end = process.wait(10)
        assert (end.code, end.oom) == (128 + 9, True)


def test_a_program_killed_by_a_signal_says_so(sandbox):
    process = sandbox.spawn([*PYTHON, "import os; os.kill(os.getpid(), 11)"])
    assert process.wait(10).code == 128 + 11


def test_a_stopped_tree_obeys_a_stop_without_waiting_for_the_grace(node, sandbox):
    process = sandbox.spawn([*PYTHON, "import os; os.fork(); print('up', flush=True); os.kill(os.getpid(), 19)"])
    shown(process, "up\nup")
    start = time.monotonic()
    process.stop(20)
    assert time.monotonic() - start < 10


def test_registry_settings_reach_only_jobs_that_ask(node, monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", "https://user:pw@index/simple")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:1")
    seen = {}
    for role, network in (("job", "registry"), ("job", "loopback"), ("server", "registry"), ("harness", "loopback")):
        with node.open(SandboxSpec(role, "", "r1.1", network=network)) as sandbox:
            process = sandbox.spawn(["env"])
            process.wait(10)
            seen[role, network] = {name for name in ("PIP_INDEX_URL", "HTTPS_PROXY") if name in text(process)}
    assert seen.pop(("job", "registry")) == {"PIP_INDEX_URL", "HTTPS_PROXY"}
    assert all(names == set() for names in seen.values())


BIND = """
import os, socket, sys, tempfile, uuid
name = os.path.join(tempfile.gettempdir(), str(uuid.uuid4()))
with socket.socket(socket.AF_UNIX) as sock: sock.bind(name)
print(tempfile.gettempdir())
"""


@pytest.mark.parametrize("more", [0, 120])
def test_sockets_have_room_below_a_home_of_any_length_and_nothing_of_them_is_left(tmp_path, more):
    node = LocalNode("n1", tmp_path / ("h" * (more + 1)), cancel=lambda: False)
    with node.open(SERVER) as sandbox:
        process = sandbox.spawn([*PYTHON, BIND])
        assert process.wait(10).code == 0, text(process)
        folder = Path(text(process).strip())
        assert [path.is_socket() for path in folder.iterdir()] == [True]
        assert folder.stat().st_mode & 0o77 == 0
    assert not folder.exists()


def test_names_that_look_like_secrets_cannot_be_allowed(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "s3cr3t-0123456789")
    monkeypatch.setenv("MY_SETTING", "yes")
    node = LocalNode("n1", tmp_path, cancel=lambda: False, env_allow=("HF_TOKEN", "MY_SETTING"))
    with node.open(SERVER) as sandbox:
        process = sandbox.spawn(["env"])
        process.wait(10)
        assert "MY_SETTING=yes" in text(process)
        assert "s3cr3t" not in text(process)


def test_s58_the_warden_knows_no_secret_either(sandbox, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "s3cr3t-0123456789")
    process = sandbox.spawn(["sleep", "60"])
    end = time.monotonic() + 10
    while not (seen := identity.environment(process.pid)):
        assert time.monotonic() < end
    assert set(seen) == {"PATH"}


def test_host_commands_read_the_kernel_and_time_out(node):
    assert b"MemTotal" in node.host(["cat", "/proc/meminfo"], timeout_s=10).output
    with pytest.raises(Timeout, match="uname -r"):
        node.host(["uname", "-r"], timeout_s=0.0)
    assert list(Path(node.root, "sandboxes").iterdir()) == []


FULL = """
import resource, sys, time
from pathlib import Path
from day0.runs.errors import DiskFull
from day0.sandboxes.local import LocalNode
from day0.sandboxes.spec import SandboxSpec
node = LocalNode("n1", Path(sys.argv[1]), cancel=lambda: False)
with node.open(SandboxSpec("server", "", "r1.1")) as sandbox:
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
    process = sandbox.spawn(["sh", "-c", "while :; do echo aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa; done"])
    try: process.wait(20)
    except DiskFull as error: print("DiskFull:", error)
    try: process.vitals()
    except DiskFull as error: print("again")
    try: sandbox.http(9).get("/")
    except DiskFull as error: print("not the server's fault")
    print("stopped", process.stop(5).code)
    try: sandbox.write("big", b"x" * 300_000)
    except DiskFull as error: print("DiskFull:", error)
print("left", sum(1 for p in Path(sys.argv[1]).rglob("big*")))
"""


def test_s11_a_full_disk_is_told_as_such_and_the_server_is_not_blocked(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path)], capture_output=True, text=True, timeout=50, check=False
    )
    lines = done.stdout.splitlines()
    assert [line.split(":")[0] for line in lines] == [
        "DiskFull", "again", "not the server's fault", "stopped 143", "DiskFull", "left 0",
    ], done.stderr  # fmt: skip
    assert "File too large" in lines[0]


def test_nothing_is_left_of_many_spawns(node):
    before = sorted(Path("/proc/self/fd").iterdir())
    with node.open(SERVER) as sandbox:
        for _ in range(10):
            assert sandbox.spawn(["true"]).wait(10).code == 0
            sandbox.http(1).close()
    assert sorted(Path("/proc/self/fd").iterdir()) == before
    me = os.getpid()
    assert [p for p in identity.table().values() if p.ppid == me] == []
    assert list(Path(node.root, "wardens").iterdir()) == []
    assert signal.getsignal(signal.SIGCHLD) == signal.SIG_DFL


def test_a_stop_at_any_moment_of_a_start_is_obeyed_and_not_lost(sandbox):
    for step in range(16):
        process = sandbox.spawn(["sleep", "60"])
        time.sleep(0.004 * step)
        start = time.monotonic()
        assert process.stop(20).code == 128 + 15
        assert time.monotonic() - start < 15
