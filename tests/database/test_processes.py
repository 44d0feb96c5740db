"""Several processes on one database: nothing is lost, one request is one run, one controller works."""

import json
import time

import pytest
from day0.runs.database import parse_url
from day0.runs.errors import Infrastructure, LostLease
from day0.runs.ledger import Ledger
from day0.runs.queue import ControllerLock, cancel_requested, next_run, request_cancel
from day0.runs.schema import RunStatus
from sqlalchemy import create_engine, text
from sqlalchemy.pool import NullPool

HAMMER = """
import sys
from day0.runs.ledger import Ledger
url, run, times = sys.argv[1], sys.argv[2], int(sys.argv[3])
ledger = Ledger.open(url)
print("ready", flush=True)
sys.stdin.readline()
for _ in range(times):
    with ledger.write(run) as writer:
        writer.set_round(writer.run.round + 1)      # read, then write what was read
        writer.spend(1)
ledger.close()
"""

SUBMIT = """
import sys
from day0.runs.ledger import Ledger
from day0.runs.schema import RunRequest
print("ready", flush=True)
sys.stdin.readline()
ledger = Ledger.open(sys.argv[1])                   # migrates an empty database, all at once
answer = ledger.submit(RunRequest.model_validate_json(sys.argv[2]))
print(answer.run.id, answer.joined)
ledger.close()
"""

HOLD = """
import sys
from day0.runs.queue import ControllerLock
lock = ControllerLock(sys.argv[1])
print(lock.acquire(), flush=True)
sys.stdin.readline()
"""


def go(processes):
    """Lets all of them loose at the same time; returns what they print."""
    for process in processes:
        assert process.stdout.readline().strip() == "ready"
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    told = [process.communicate(timeout=50)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes)
    return told


def test_no_read_modify_write_is_lost(ledger, home, make, python):
    run, times = ledger.submit(make.request()).run.id, 40
    go([python(HAMMER, home, run, times) for _ in range(2)])
    found = ledger.run(run)
    assert (found.round, found.spent_node_s) == (2 * times, 2 * times)
    events = ledger.events(run)
    assert [event.number for event in events] == [*range(1, 4 * times + 2)]


def test_s07_the_same_request_from_several_processes_is_one_run(url, make, python):
    request = json.dumps(make.request().model_dump(mode="json"))
    told = [line.split() for line in go([python(SUBMIT, url, request) for _ in range(2)])]
    assert len({run for run, _ in told}) == 1
    assert sorted(joined for _, joined in told) == ["False", "True"]


def test_s09_one_controller_per_database_and_a_killed_one_frees_it(home, python):
    mine = ControllerLock(home)
    other = python(HOLD, home)
    assert other.stdout.readline().strip() == "True"
    assert not mine.acquire()
    assert not mine.acquire(wait_s=0.05)
    with pytest.raises(LostLease, match="not the controller"):
        mine.check()
    other.kill()
    assert mine.acquire(wait_s=10)
    mine.check()
    mine.release()
    mine.release()
    again = ControllerLock(home)
    assert again.acquire()
    again.release()


def test_a_controller_notices_that_its_lock_is_gone(home):
    lock = ControllerLock(home)
    assert lock.acquire()
    lock.check()
    take_away(home)
    with pytest.raises(LostLease):
        lock.check()
    assert not lock.held
    lock.release()
    assert lock.acquire()
    lock.check()
    lock.release()


def take_away(url):
    parsed = parse_url(url)
    if parsed.get_backend_name() == "sqlite":
        from pathlib import Path

        Path(parsed.database + ".controller").unlink()
        return
    engine = create_engine(parsed, poolclass=NullPool)
    with engine.connect() as db:
        ended = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'"
        db.execute(text(f"{ended} AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"))
    engine.dispose()
    time.sleep(0.05)


def test_the_queue_is_worked_in_order_interrupted_runs_first(ledger, make):
    runs = [ledger.submit(make.request(seed=seed)).run.id for seed in range(3)]
    assert next_run(ledger).id == runs[0]
    with ledger.write(runs[1]) as writer:
        writer.move_run(RunStatus.RUNNING)
    assert next_run(ledger).id == runs[1]
    for run in runs[:2]:
        with ledger.write(run) as writer:
            writer.move_run(RunStatus.RUNNING)
            writer.move_run(RunStatus.FAILED, "node lost")
    ledger.resume(runs[0])
    assert next_run(ledger).id == runs[2]
    with ledger.write(runs[2]) as writer:
        writer.move_run(RunStatus.CANCELLED)
    assert next_run(ledger).id == runs[0]
    assert request_cancel(ledger, runs[0])
    assert next_run(ledger) is None


def test_s06_a_cancel_reaches_the_controller_of_a_running_run(ledger, make):
    run = ledger.submit(make.request()).run.id
    with ledger.write(run) as writer:
        writer.move_run(RunStatus.RUNNING)
    assert not cancel_requested(ledger, run)
    assert request_cancel(ledger, run)
    assert request_cancel(ledger, run)
    assert cancel_requested(ledger, run)
    assert ledger.run(run).status == RunStatus.RUNNING
    assert [event.kind for event in ledger.events(run)].count("cancel_requested") == 1
    with ledger.write(run) as writer:
        writer.move_run(RunStatus.CANCELLED, "cancelled")
    assert not request_cancel(ledger, run)
    ledger.resume(run)
    assert not cancel_requested(ledger, run)


def test_a_database_that_is_gone_is_infrastructure_and_its_password_never_shows():
    pytest.importorskip("psycopg")
    with pytest.raises(Infrastructure, match="can't be used") as caught:
        Ledger.open("postgresql://nobody:secret@127.0.0.1:1/nothing")
    assert "secret" not in str(caught.value)
