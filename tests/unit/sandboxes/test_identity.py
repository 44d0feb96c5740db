from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from day0.sandboxes import identity
from day0.sandboxes.identity import Known, Proof, Stat


def proc(pid: int, ppid: int = 1, *, start: int = 5, session: int | None = None, state: str = "S") -> Stat:
    return Stat(pid, start, ppid, pid, pid if session is None else session, state, 0, 0, 0)


def table(*processes: Stat) -> dict[int, Stat]:
    return {p.pid: p for p in processes}


def pids(found: list[Stat]) -> set[int]:
    return {p.pid for p in found}


def proof(recorded: list[Known], label: str = "/no/such/record", pipe: str = "") -> Proof:
    return Proof(frozenset(recorded), label, pipe)


HUGE = 1 << 30
"""Above any pid: /proc has no environment for these."""


def test_recorded_processes_and_their_descendants_are_ours():
    here = table(proc(HUGE + 1), proc(HUGE + 2, HUGE + 1), proc(HUGE + 3, HUGE + 2), proc(HUGE + 9))
    assert pids(identity.ours(here, proof([Known(HUGE + 1, 5)]))) == {HUGE + 1, HUGE + 2, HUGE + 3}


def test_a_reused_pid_is_not_ours():
    here = table(proc(HUGE + 1, start=6), proc(HUGE + 2, HUGE + 1))
    assert identity.ours(here, proof([Known(HUGE + 1, 5)])) == []


def test_the_session_of_a_recorded_process_is_ours_also_after_its_leader_ended():
    here = table(proc(HUGE + 2, session=HUGE + 1), proc(HUGE + 3, session=HUGE + 1), proc(HUGE + 4))
    recorded = [Known(HUGE + 1, 5), Known(HUGE + 2, 5)]
    assert pids(identity.ours(here, proof(recorded))) == {HUGE + 2, HUGE + 3}


def test_a_session_that_no_recorded_process_made_is_not_ours():
    here = table(proc(HUGE + 2, session=HUGE + 1), proc(HUGE + 3, session=HUGE + 1))
    assert pids(identity.ours(here, proof([Known(HUGE + 2, 5)]))) == {HUGE + 2}


def test_a_session_number_alone_proves_nothing():
    here = table(proc(HUGE + 3, session=HUGE + 1))
    assert identity.ours(here, proof([Known(HUGE + 1, 5)])) == []


def test_zombies_are_dead():
    here = table(proc(HUGE + 1, state="Z"))
    assert identity.ours(here, proof([Known(HUGE + 1, 5)])) == []


@pytest.fixture
def sleeper():
    env = {"PATH": os.environ["PATH"], identity.LABEL: "/records/r1.1-0-server-0/0"}
    process = subprocess.Popen(["sleep", "60"], env=env)
    yield process
    process.kill()
    process.wait()


def test_the_label_in_the_environment_is_proof(sleeper):
    found = identity.ours(identity.table(), proof([], "/records/r1.1-0-server-0/0"))
    assert pids(found) == {sleeper.pid}
    assert identity.ours(identity.table(), proof([], "/records/other")) == []


def test_a_signal_reaches_exactly_the_process_of_that_start_time(sleeper):
    now = identity.stat(sleeper.pid)
    assert now is not None
    assert not identity.send(Known(sleeper.pid, now.start - 1), signal.SIGKILL)
    assert sleeper.poll() is None
    assert identity.alive(Known(sleeper.pid, now.start))
    assert not identity.alive(Known(sleeper.pid, now.start - 1))
    assert identity.send(Known(sleeper.pid, now.start), signal.SIGKILL)
    assert sleeper.wait(5) == -signal.SIGKILL
    assert not identity.send(Known(sleeper.pid, now.start), signal.SIGKILL)
    assert identity.stat(sleeper.pid) is None


RENAMED = """
import ctypes, time
# what setproctitle does: the title is written over argv and environ, which lie side by side in memory
fields = open("/proc/self/stat").read().rsplit(")", 1)[1].split()
start, end = int(fields[47]), int(fields[48])
ctypes.memset(start, 0, end - start)
print("renamed", flush=True)
time.sleep(60)
"""


@pytest.fixture
def renamed():
    env = {"PATH": os.environ["PATH"], identity.LABEL: "/records/x/0"}
    with subprocess.Popen([sys.executable, "-c", RENAMED], env=env, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"renamed\n"
        yield process.pid
        process.kill()


def test_a_renamed_process_loses_its_label_and_is_found_by_its_record(renamed):
    now = identity.stat(renamed)
    assert now is not None
    here = identity.table()
    assert identity.LABEL not in identity.environment(renamed)
    assert identity.ours(here, proof([], "/records/x/0")) == []
    assert pids(identity.ours(here, proof([Known(renamed, now.start)]))) == {renamed}


def test_the_output_pipe_is_proof_where_neither_record_nor_label_is_left(renamed):
    mine = str(Path(f"/proc/{renamed}/fd/1").readlink())
    assert mine.startswith("pipe:")
    assert pids(identity.ours(identity.table(), proof([], pipe=mine))) == {renamed}
    assert identity.ours(identity.table(), proof([], pipe="pipe:[1]")) == []


def test_the_table_shows_this_process_with_its_parent():
    me = identity.table()[os.getpid()]
    assert (me.ppid, me.session) == (os.getppid(), os.getsid(0))
    assert me.rss > 0


def test_the_world_names_boot_and_pid_namespace():
    boot, namespace = identity.world().split()
    assert len(boot) == 36
    assert namespace.startswith("pid:[")
