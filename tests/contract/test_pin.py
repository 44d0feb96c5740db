"""`Process.pin`: the whole tree, and what it starts later, stays on the given cores."""

import os
from pathlib import Path

import pytest
from day0.runs.errors import Infrastructure
from day0.sandboxes.local import LocalNode
from day0.sandboxes.scripted import ScriptedNode
from day0.sandboxes.simulated.steps import Out
from day0.sandboxes.spec import SandboxSpec

TREE = (
    "import os, subprocess, sys, threading, time\n"
    "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(30)'])\n"
    "threading.Thread(target=time.sleep, args=(30,), daemon=True).start()\n"
    "print('up', flush=True)\n"
    "while not os.path.exists('go'): time.sleep(0.01)\n"
    "late = subprocess.run([sys.executable, '-c', 'import os; print(sorted(os.sched_getaffinity(0)))'],"
    " capture_output=True, text=True)\n"
    "print('late', late.stdout.strip(), flush=True)\n"
    "time.sleep(30)\n"
)


def test_every_thread_of_the_tree_and_later_children(tmp_path: Path) -> None:
    core = max(os.sched_getaffinity(0))
    node = LocalNode("here", tmp_path, cancel=lambda: False)
    with node.open(SandboxSpec("job", "", "a")) as sandbox:
        process = sandbox.spawn(["python3", "-c", TREE])
        while b"up" not in process.output(0, 100):
            node.clock.sleep(0.02)
        process.pin((core,))
        threads = process._threads()
        assert len(threads) >= 3
        assert {tuple(os.sched_getaffinity(thread)) for thread in threads} == {(core,)}
        sandbox.write("go", b"")
        while b"late" not in process.output(0, 100):
            node.clock.sleep(0.02)
        assert f"late [{core}]".encode() in process.output(0, 100)
        with pytest.raises(Infrastructure, match="cores"):
            process.pin((4000,))


def test_a_simulated_process_takes_it(tmp_path: Path) -> None:
    def program(ctx):
        yield Out(b"x")

    node = ScriptedNode("n", tmp_path, {"p": program}, cancel=lambda: False)
    with node.open(SandboxSpec("job", "", "a")) as sandbox:
        sandbox.spawn(["p"]).pin((0,))
