"""Locks that a killed compiler left in the kernel caches: whoever waits for one waits for ever (S27)."""

from __future__ import annotations

from day0.runs.errors import Timeout
from day0.sandboxes.base import Sandbox
from day0.tools.programs import source

ISSUE = "jit-stale-lock"
"""the known issue whose log line tells of one"""
PROGRAM = "clear_locks"
WAIT_S = 60.0


def clear(sandbox: Sandbox) -> tuple[str, ...]:
    """Removes the locks that a sandbox sees, while nothing compiles there; the files that were removed."""
    sandbox.write(f"{PROGRAM}.py", source(PROGRAM))
    process = sandbox.spawn(["python", f"{PROGRAM}.py"])
    try:
        ended = process.wait(WAIT_S)
    except Timeout:
        return ()
    finally:
        process.stop(1.0)
    removed = process.output(0, 1 << 16).decode(errors="replace").splitlines()
    return tuple(removed) if ended.code == 0 else ()
