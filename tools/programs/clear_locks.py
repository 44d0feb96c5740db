"""Removes locks that a killed compiler or tuner left in the kernel caches; whoever waits for one waits for ever.

Runs in a sandbox that has the node to itself. Prints each file that it removed.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

PLACES = ("AITER_JIT_DIR", "TRITON_CACHE_DIR", "FLYDSL_RUNTIME_CACHE_DIR")
NAMES = ("lock_module_*", "build/lock", ".ninja_lock")


def main() -> None:
    """Looks below the caches that the environment names, the user's own and the source's."""
    named = [os.environ[name] for name in PLACES if os.environ.get(name)]
    named += [value for name, value in os.environ.items() if name.startswith("DAY0_CACHE_")]
    home = Path(os.environ.get("HOME", "/nonexistent"))
    for place in [*map(Path, named), home / ".aiter", *map(Path, sys.argv[1:])]:
        for name in NAMES if place.is_dir() else ():
            for file in sorted(place.rglob(name)):
                if file.is_file() and not file.is_symlink():
                    file.unlink(missing_ok=True)
                    print(file)  # noqa: T201


if __name__ == "__main__":
    main()
