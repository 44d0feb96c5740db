"""A writer killed with -9 at any moment: whole steps stand, half ones do not, the next writer goes on at once."""

import random
import subprocess
import sys
import time

import pytest
from day0.runs.artifacts import Artifacts
from day0.runs.ledger import Ledger
from day0.runs.schema import RunRequest
from day0.runs.workload import MeasureRules, Target, Workload

WRITE = """
import sys
from day0.runs.ledger import Ledger
ledger = Ledger.open(sys.argv[1])
print("ready", flush=True)
while True:
    with ledger.write(sys.argv[2]) as writer:
        for _ in range(20):                     # a step: twenty units, twenty-one events, or nothing of it
            writer.spend(1)
        writer.set_round(writer.run.round + 1)
"""

STORE = """
import os, sys
from pathlib import Path
from day0.runs.artifacts import Artifacts
store = Artifacts(Path(sys.argv[1]))
print("ready", flush=True)
while True:
    store.put(os.urandom(3_000_000))
"""


def request():
    rules = MeasureRules(point_s=8, min_requests=8, p95_multiples=0, max_points=5, max_pairs=4, stability_s=0)
    limits = {"stall_s": 20, "boot_stall_s": 20, "boot_cap_s": 240}
    target = Target(name="cpu", kind="local", accelerator="cpu", measure=rules, workload="chat", **limits)
    workload = Workload(name="chat", input_tokens=1, output_tokens=1)
    return RunRequest(model="tiny", revision="r1", target=target, workloads=(workload,))


def killed(program, *arguments, after_s):
    process = subprocess.Popen([sys.executable, "-c", program, *map(str, arguments)], stdout=subprocess.PIPE, text=True)
    with process:
        assert process.stdout.readline().strip() == "ready"
        time.sleep(after_s)
        process.kill()


@pytest.mark.parametrize("seed", range(6))
def test_s01_a_killed_writer_leaves_whole_steps(tmp_path, seed):
    url = f"sqlite:///{tmp_path}/ledger.db"
    ledger = Ledger.open(url)
    run = ledger.submit(request()).run.id
    killed(WRITE, url, run, after_s=random.Random(seed).uniform(0.05, 0.3))
    began = time.monotonic()
    with ledger.write(run) as writer:
        writer.spend(0.5)
    assert time.monotonic() - began < 5  # no lock is left behind
    found = ledger.run(run)
    assert found.round > 0
    assert found.spent_node_s == 20 * found.round + 0.5
    assert [event.number for event in ledger.events(run, limit=10**6)] == [*range(1, 21 * found.round + 3)]
    ledger.close()


def test_s11_a_killed_store_holds_only_whole_artifacts(tmp_path):
    killed(STORE, tmp_path / "store", after_s=0.4)
    store = Artifacts(tmp_path / "store")
    stored = [*(tmp_path / "store").glob("??/*.zst")]
    assert stored
    for file in stored:
        assert len(store.get(f"sha256:{file.parent.name}{file.stem}")) == 3_000_000
    assert store.gc(keep=(), older_than_s=-1).files >= len(stored)
