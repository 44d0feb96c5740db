"""kill -9 of day0, of wardens, of both: nothing of a server may be left, and nothing else may be hit."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from day0.runs.errors import NodeLost
from day0.sandboxes import identity, local_process, record, scratch
from day0.sandboxes.identity import Known
from day0.sandboxes.local import LocalNode
from day0.sandboxes.spec import SandboxSpec

SPEC = SandboxSpec("server", "", "r1.3")
# A server as SGLang builds it: a scheduler in the same session and one of its own, both renamed, so that nothing of
# their environment is left to see.
SERVER = """
import ctypes, os, signal, sys, time
def rename():
    fields = open("/proc/self/stat").read().rsplit(")", 1)[1].split()
    ctypes.memset(int(fields[47]), 0, int(fields[48]) - int(fields[47]))
def scheduler(own_session):
    if os.fork(): return
    if own_session: os.setsid()
    rename(); print("up", flush=True)
    if "stubborn" in sys.argv: signal.signal(15, signal.SIG_IGN)
    time.sleep(600)
    os._exit(0)
scheduler(False); scheduler(True); rename(); print("up", flush=True)
signal.signal(15, (lambda *_: None) if "stubborn" in sys.argv else (lambda *_: (print("bye", flush=True), os._exit(0))))
while True: time.sleep(600)
"""
OWNER = """
import os, signal, sys, time
from pathlib import Path
from day0.sandboxes.local import LocalNode
from day0.sandboxes.spec import SandboxSpec
node = LocalNode("n1", Path(sys.argv[1]), cancel=lambda: False)
with node.open(SandboxSpec("server", "", "r1.3")) as sandbox:
    process = sandbox.spawn([sys.executable, "-c", sys.argv[2], *sys.argv[3:]])
    print(process.pid, flush=True)
    while process.output(0, 999).count(b"up") < 3: time.sleep(0.01)
    print("ready", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def home(tmp_path):
    yield tmp_path / "home"
    for process in identity.table().values():
        if str(tmp_path) in " ".join(identity.environment(process.pid).values()):
            identity.send(Known(process.pid, process.start), signal.SIGKILL)
    for told in tmp_path.rglob("owner"):
        scratch.remove(Path(record.scratch_of(str(told.parent))))


def owner(home: Path, *argv: str) -> tuple[subprocess.Popen[str], int]:
    """A day0 that runs the server; (its process, the warden's pid)."""
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(home), SERVER, *argv], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, int(process.stdout.readline())


def ready(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.2)  # the warden looks every 0.1 s at first


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


def tree(warden: int) -> list[Known]:
    return [Known(p.pid, p.start) for p in identity.descendants(identity.table(), warden)]


def living(known: list[Known]) -> list[Known]:
    return [one for one in known if identity.alive(one)]


def gone(known: list[Known], within_s: float) -> float:
    start = time.monotonic()
    while living(known):
        assert time.monotonic() - start < within_s, living(known)
        time.sleep(0.02)
    return time.monotonic() - start


def test_s18_day0_is_killed_and_its_warden_stops_the_tree_in_order(home):
    process, warden = owner(home)
    ready(process)
    known = tree(warden)
    assert len(known) == 3
    end(process)
    gone(known, 4)
    folder = next((home / "n1/wardens").glob("*/0"))
    until = time.monotonic() + 5
    while identity.stat(warden) is not None and time.monotonic() < until:
        time.sleep(0.02)
    # only now: the last words of a tree that has gone may still be on their way through the warden's pipe
    assert b"bye" in (folder / "out.0000000000000000").read_bytes()
    assert record.read_exit(str(folder)) == (0, False), "whoever comes later can judge the process"
    swept = LocalNode("n1", home, cancel=lambda: False).sweep()
    assert swept == type(swept)()
    assert list((home / "n1/sandboxes").iterdir()) == []


def test_s18_a_sweep_removes_the_short_folder_of_a_dead_owners_sockets(home):
    deep = home / ("h" * 120)
    process, warden = owner(deep)
    ready(process)
    known = tree(warden)
    (records,) = (deep / "n1/wardens").iterdir()
    sockets = Path(record.scratch_of(str(records)))
    assert sockets.is_dir()
    assert deep not in sockets.parents
    end(process)
    LocalNode("n1", deep, cancel=lambda: False).sweep()
    assert living(known) == []
    assert not sockets.exists()
    assert list((deep / "n1/wardens").iterdir()) == []


def test_s18_what_ignores_sigterm_dies_after_the_grace(home):
    process, warden = owner(home, "stubborn")
    ready(process)
    known = tree(warden)
    end(process)
    assert gone(known, 9) > 4


def test_s18_day0_and_warden_are_killed_at_once_and_a_sweep_finds_the_renamed(home):
    process, warden = owner(home, "stubborn")
    ready(process)
    known = tree(warden)
    os.kill(warden, signal.SIGKILL)
    end(process)
    gone(known[:1], 2)  # the kernel tells the program itself that its parent died
    left = living(known)
    assert len(left) == 2, "the schedulers outlive both"
    assert all(identity.LABEL not in identity.environment(one.pid) for one in left)
    swept = LocalNode("n1", home, cancel=lambda: False).sweep()
    assert {int(pid) for pid, _ in swept.stopped} >= {one.pid for one in left}
    assert {attempt for _, attempt in swept.stopped} == {"r1.3"}
    assert living(known) == []


def test_a_sweep_right_after_the_kill_waits_for_the_warden_and_loses_nothing(home):
    process, warden = owner(home)
    ready(process)
    known = tree(warden)
    end(process)
    swept = LocalNode("n1", home, cancel=lambda: False).sweep()
    assert living(known) == []
    assert swept.failed == ()
    assert list((home / "n1/wardens").iterdir()) == []


def test_a_server_survives_the_end_of_the_thread_that_started_it(home):
    node = LocalNode("n1", home, cancel=lambda: False)
    with node.open(SPEC) as sandbox:
        started = []
        thread = threading.Thread(target=lambda: started.append(sandbox.spawn(["sleep", "600"])))
        thread.start()
        thread.join()
        (process,) = started
        time.sleep(0.5)
        assert process.poll() is None
        assert process.vitals().children == 1


def wait_up(process, count: int = 3) -> None:
    until = time.monotonic() + 10
    while process.output(0, 999).count(b"up") < count:
        assert time.monotonic() < until
        time.sleep(0.01)
    time.sleep(0.2)


def test_a_killed_warden_is_the_nodes_fault_and_its_tree_is_stopped(home):
    node = LocalNode("n1", home, cancel=lambda: False)
    with node.open(SPEC) as sandbox:
        process = sandbox.spawn([sys.executable, "-c", SERVER, "stubborn"])
        wait_up(process)
        known = tree(process.pid)
        os.kill(process.pid, signal.SIGKILL)
        with pytest.raises(NodeLost, match="warden"):
            process.wait(10)
        assert living(known) == []
        for call in (process.poll, process.vitals, lambda: sandbox.http(1).get("/")):
            with pytest.raises(NodeLost):
                call()
        assert process.stop(1).code == 137


def test_a_stopped_warden_does_not_keep_its_tree_alive(home, monkeypatch):
    monkeypatch.setattr(local_process, "SETTLE_S", 0.3)
    node = LocalNode("n1", home, cancel=lambda: False)
    with node.open(SPEC) as sandbox:
        process = sandbox.spawn([sys.executable, "-c", SERVER, "stubborn"])
        wait_up(process)
        known = tree(process.pid)
        os.kill(process.pid, signal.SIGSTOP)
        process.stop(0.1)
        assert living(known) == []


def test_sigterm_to_a_warden_takes_its_tree_along(home):
    node = LocalNode("n1", home, cancel=lambda: False)
    with node.open(SPEC) as sandbox:
        process = sandbox.spawn([sys.executable, "-c", SERVER])
        wait_up(process)
        known = tree(process.pid)
        os.kill(process.pid, signal.SIGTERM)
        gone(known, 4)
        assert process.wait(5).code == 0


def forged(home: Path, process: subprocess.Popen[bytes], *, start: int | None = None, world: str | None = None) -> None:
    """A record of a dead owner that names a stranger's process."""
    folder = home / "n1/wardens/r1.3-0-server-0/0"
    folder.mkdir(parents=True)
    now = identity.stat(process.pid)
    assert now is not None
    header = record.Header(
        world or identity.world(), Known(4_000_000, 1), Known(4_000_001, 1), "r1.3", "r1.3-0-server-0"
    )
    record.Journal(str(folder), header).add([Known(process.pid, now.start if start is None else start)])
    (folder.parent / "owner").write_text(json.dumps({"world": header.world, "owner": header.owner}))


@pytest.fixture
def stranger():
    process = subprocess.Popen(["sleep", "60"], start_new_session=True)
    yield process
    process.kill()
    process.wait()


def test_s25_a_process_that_got_a_recorded_pid_anew_is_not_touched(home, stranger):
    forged(home, stranger, start=12345)
    assert LocalNode("n1", home, cancel=lambda: False).sweep().stopped == ()
    assert stranger.poll() is None
    assert list((home / "n1/wardens").iterdir()) == [], "the stale record is gone"


def test_s25_a_record_of_another_boot_proves_nothing(home, stranger):
    forged(home, stranger, world="another-boot pid:[1]")
    assert LocalNode("n1", home, cancel=lambda: False).sweep().stopped == ()
    assert stranger.poll() is None


def test_a_forged_record_with_everything_right_is_believed(home, stranger):
    """The counter-test: the two above pass because of what they change, not because a sweep does nothing."""
    forged(home, stranger)
    assert LocalNode("n1", home, cancel=lambda: False).sweep().stopped == ((str(stranger.pid), "r1.3"),)
    assert stranger.wait(5) == -signal.SIGKILL


BOMB = """
import os, time
for _ in range(6):
    if os.fork() == 0 and os.getpid() % 2: os.setpgid(0, 0)
print("up", flush=True)
while True:
    pid = os.fork()
    if pid == 0: os.setsid(); time.sleep(0.05); os._exit(0)
    time.sleep(0.02); os.waitpid(-1, os.WNOHANG)
"""


def test_a_forking_tree_of_sixty_is_stopped_whole(home):
    node = LocalNode("n1", home, cancel=lambda: False)
    with node.open(SPEC) as sandbox:
        process = sandbox.spawn([sys.executable, "-IS", "-c", BOMB])
        wait_up(process, 50)
        assert (process.vitals().children or 0) >= 50
        process.stop(0)
        assert tree(process.pid) == []
    mark = str(home)
    assert [p for p in identity.table() if identity.environment(p).get(identity.LABEL, "").startswith(mark)] == []


@pytest.mark.parametrize("seed", range(6))
def test_s01_kill_at_any_moment_leaves_nothing_after_a_sweep(home, seed):
    chance = random.Random(seed)
    process, warden = owner(home, *(["stubborn"] if seed % 2 else []))
    time.sleep(chance.uniform(0, 0.6))
    known = tree(warden)
    if seed % 3 == 0:
        os.kill(warden, signal.SIGKILL)
    end(process)
    LocalNode("n1", home, cancel=lambda: False).sweep()
    assert living(known) == []
    mark = str(home)
    assert [p for p in identity.table() if identity.environment(p).get(identity.LABEL, "").startswith(mark)] == []
    assert list((home / "n1/sandboxes").iterdir()) == []
