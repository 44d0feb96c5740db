"""Which commands day0 runs on a node outside of any sandbox."""

from __future__ import annotations

import re
from collections.abc import Sequence

from day0.runs.errors import Refused

COMMANDS = frozenset({"amd-smi", "rocm-smi", "df", "lscpu", "nproc", "uname", "cat"})
HOST_OUTPUT = 1 << 20


def admit_command(argv: Sequence[str]) -> None:
    """Raises `Refused` for all but `COMMANDS`; `cat` may read /proc and /sys only."""
    name, *rest = argv
    kernel_files = all(re.fullmatch(r"/(proc|sys)/[\w./-]+", arg) and ".." not in arg for arg in rest)
    if name not in COMMANDS or (name == "cat" and not kernel_files):
        raise Refused(f"{' '.join(argv)!r} is not among the commands that run on the host")
