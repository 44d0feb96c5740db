"""Stops what dead owners left on a node: only what is provably ours.

Every warden keeps a record (`record.py`). A tree whose owner (day0) is dead and whose warden is dead too is killed
here, process by process, after proof (`identity.ours`). A tree whose owner lives is never touched.
"""

from __future__ import annotations

import contextlib
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from day0.sandboxes import identity, record
from day0.sandboxes.identity import Known, Stat
from day0.sandboxes.record import Record
from day0.sandboxes.spec import Sweep

WARDEN_S = 12.0
"""A warden whose owner just died needs its grace (5 s) and a moment."""
KILL_S = 10.0


def living(found: Record) -> list[Stat]:
    """What of a recorded tree lives on this boot of this machine."""
    if found.header.world != identity.world():
        return []
    return identity.ours(identity.table(), found.seen, frozenset({found.folder}))


def kill_tree(found: Record, *, limit_s: float = KILL_S) -> tuple[list[int], list[int]]:
    """SIGKILL to all of a recorded tree until nothing is left; (pids stopped, pids that would not die)."""
    seen: dict[int, None] = {}
    end = time.monotonic() + limit_s
    while processes := living(found):
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for process in processes:
                with contextlib.suppress(PermissionError):
                    identity.send(Known(process.pid, process.start), number)
                seen[process.pid] = None
        if time.monotonic() > end:
            return [pid for pid in seen if pid not in {p.pid for p in processes}], [p.pid for p in processes]
        time.sleep(0.01)
    return list(seen), []


def owned(found: Record) -> bool:
    """Whether the day0 that started this tree still lives."""
    return found.header.world == identity.world() and identity.alive(found.header.owner)


def records(folder: Path) -> Iterator[Record]:
    """Every readable record under a node's folder."""
    for path in sorted(folder.glob("*/*/tree")):
        if (found := record.load(str(path.parent))) is not None:
            yield found


def sweep(wardens: Path, sandboxes: Path) -> Sweep:
    """Stops ownerless trees below `wardens` and removes their work folders.

    A warden that is still at it is left to finish first. Node time passes: at most about 12 s per tree.
    """
    stopped: list[tuple[str, str]] = []
    failed: list[tuple[str, str]] = []
    for found in records(wardens):
        if owned(found):
            continue
        before = {p.pid for p in living(found)}
        _await_warden(found)
        killed, undead = kill_tree(found)
        stopped += [(str(pid), found.header.attempt) for pid in sorted({*before, *killed} - set(undead))]
        failed += [(str(pid), found.header.attempt) for pid in undead]
        if not undead:
            _remove(Path(found.folder), sandboxes / found.header.sandbox)
    return Sweep(tuple(stopped), tuple(failed))


def _await_warden(found: Record) -> None:
    if found.header.world != identity.world():
        return
    end = time.monotonic() + WARDEN_S
    while identity.alive(found.header.warden) and time.monotonic() < end:
        time.sleep(0.05)
    identity.send(found.header.warden, signal.SIGKILL)


def _remove(folder: Path, work: Path) -> None:
    """One record, and with the last record of a sandbox its work folder."""
    shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(OSError):
        folder.parent.rmdir()
    if not folder.parent.exists():
        shutil.rmtree(work, ignore_errors=True)
