"""Stops what dead owners left on a node: only what is provably ours.

Every warden keeps a record (`record.py`). A tree whose owner (day0) is dead and whose warden is dead too is killed
here, process by process, after proof (`identity.ours`). A tree whose owner lives is never touched.
"""

from __future__ import annotations

import contextlib
import signal
import time
from pathlib import Path

from day0.sandboxes import files, identity, record, scratch
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
    return identity.ours(identity.table(), found.proof())


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


def sweep(wardens: Path, sandboxes: Path) -> Sweep:
    """Stops ownerless trees below `wardens` and removes their folders.

    A warden that is still at it is left to finish first. Node time passes: at most about 20 s per tree.
    """
    stopped: list[tuple[str, str]] = []
    failed: list[tuple[str, str]] = []
    for folder in sorted(wardens.iterdir()):
        trees = [found for path in sorted(folder.glob("*/tree")) if (found := record.load(str(path.parent)))]
        lives = record.owner_lives(str(folder))
        # without the owner's file the trees say whose they are; with neither, nobody claims the folder
        if lives or (lives is None and (not trees or any(_owned(found) for found in trees))):
            continue
        undead_here = False
        for found in trees:
            before = {p.pid for p in living(found)}
            _await_warden(found)
            killed, undead = kill_tree(found)
            stopped += [(str(pid), found.header.attempt) for pid in sorted({*before, *killed} - set(undead))]
            failed += [(str(pid), found.header.attempt) for pid in undead]
            undead_here = undead_here or bool(undead)
        if not undead_here:
            files.remove(sandboxes / folder.name)
            scratch.remove(Path(record.scratch_of(str(folder))))
            files.remove(folder)
    return Sweep(tuple(stopped), tuple(failed))


def _owned(found: Record) -> bool:
    return found.header.world == identity.world() and identity.alive(found.header.owner)


def _await_warden(found: Record) -> None:
    if found.header.world != identity.world():
        return
    end = time.monotonic() + WARDEN_S
    while identity.alive(found.header.warden) and time.monotonic() < end:
        time.sleep(0.05)
    identity.send(found.header.warden, signal.SIGKILL)
