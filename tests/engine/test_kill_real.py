"""day0 killed with -9 while a real SGLang server runs under it, then resumed. About 2 minutes.

Needs `day0 engine install cpu` in $DAY0_HOME. The run has a ledger and a node folder of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path

import psutil
import pytest
from day0.runs.facts import Rung
from day0.runs.ledger import Ledger

from tests.engine.conftest import HOME

pytestmark = pytest.mark.timeout(600)
DAY0 = str(Path(sys.executable).parent / "day0")
GONE_S = 30.0


@pytest.fixture
def home() -> Iterator[Path]:
    """A home with the real engines, but everything else of its own; deeper than a socket's address could name."""
    with tempfile.TemporaryDirectory(prefix="d0-") as folder:
        home = Path(folder) / ("h" * 100)
        home.mkdir()
        (home / "engines").symlink_to(HOME / "engines")
        quick = (files("day0.runs.library") / "target/cpu-quick.yaml").read_text()
        (home.parent / "t.yaml").write_text(
            quick.replace("point_s: 8.0", "point_s: 3.0").replace("requests: 8", "requests: 3")
        )
        yield home
        for process in ours(home):
            process.kill()


def ours(home: Path) -> list[psutil.Process]:
    """Whatever runs in a sandbox of this home: server, schedulers that renamed themselves, load generator, wardens."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.status() == psutil.STATUS_ZOMBIE:
                continue
            if str(home) in " ".join([process.cwd(), *process.cmdline()]):
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


def start(home: Path, *argv: str) -> subprocess.Popen[bytes]:
    """A command of day0; its working folder lies outside of the home, so that it is not counted as left behind."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("DAY0_")} | {"DAY0_HOME": str(home)}
    return subprocess.Popen([DAY0, *argv], env=env, cwd="/", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def until(what: Callable[[], bool], seconds: float) -> bool:
    """Whether it came true in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if what():
            return True
        time.sleep(0.25)
    return what()


def facts(home: Path, kind: str) -> int:
    """How many facts of a kind the newest run has; 0 before there is one."""
    if not (home / "day0.sqlite").exists():
        return 0
    ledger = Ledger.open(f"sqlite:///{home / 'day0.sqlite'}")
    try:
        runs = ledger.runs(limit=1)
        return len(ledger.facts(runs[0].id, kind)) if runs else 0
    finally:
        ledger.close()


def test_s01_s18_kill_9_leaves_no_server_and_resume_repeats_no_verdict(home: Path, model: Path) -> None:
    first = start(
        home, "run", str(model), "--target", str(home.parent / "t.yaml"), "--max-attempts", "1", "--policy", "default"
    )
    assert until(lambda: facts(home, "point") >= 1 or first.poll() is not None, 240)
    assert first.poll() is None, "the run ended before it could be killed"
    assert any("sglang::" in p.name() or "sglang.launch_server" in " ".join(p.cmdline()) for p in ours(home))
    first.kill()
    first.wait()
    assert until(lambda: not ours(home), GONE_S), [p.cmdline() for p in ours(home)]

    ledger = Ledger.open(f"sqlite:///{home / 'day0.sqlite'}")
    run = ledger.runs(limit=1)[0]
    (before,) = ledger.attempts(run.id)
    assert {v.rung for v in before.verdicts} >= {Rung.BOOT, Rung.ANSWER, Rung.ACCURACY}

    again = start(home, "resume", run.id)
    assert until(lambda: ledger.attempts(run.id)[0].verdict(Rung.MEASURE) is not None or again.poll() is not None, 300)
    (after,) = ledger.attempts(run.id)
    assert again.poll() is None or after.verdict(Rung.MEASURE) is not None
    again.kill()
    again.wait()
    assert after.verdicts[: len(before.verdicts)] == before.verdicts
    assert len([v for v in after.verdicts if v.rung == Rung.ANSWER]) == 1
    assert after.epoch == before.epoch + 1
    assert until(lambda: not ours(home), GONE_S), [p.cmdline() for p in ours(home)]
    ledger.close()
