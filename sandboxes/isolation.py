"""What this system grants in the way of isolation, found by trying it."""

from __future__ import annotations

import functools
import subprocess
import sys
from pathlib import Path

_TRY = "import sys; sys.path.insert(0, sys.argv[1]); import launch; launch.leave_network()"


@functools.cache
def grants_network_namespace() -> bool:
    """Whether a process may leave this machine's network for one of its own. Tried once, in a process apart."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _TRY, str(Path(__file__).parent)],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=20, check=False,
    )  # fmt: skip
    return done.returncode == 0
