"""Which of the named source files this environment's Python imports from, and which it has compiled as they are now.

Runs in a server's own sandbox. Prints one JSON object: `imports`: top-level package -> its folder; `kept`: files beside
which compiled ones can be kept; `loaded`: those whose compiled one is of the very file that lies there.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path


def main() -> None:
    """Arguments: PACKAGE=FILE of each file. Imports nothing of the packages."""
    pairs = [argument.partition("=")[::2] for argument in sys.argv[1:]]
    kept, loaded = [], []
    for _, file in pairs:
        compiled = Path(importlib.util.cache_from_source(file))
        folder = compiled.parent if compiled.parent.is_dir() else Path(file).parent
        if not sys.dont_write_bytecode and os.access(folder, os.W_OK):
            kept.append(file)
        if _of(compiled, file):
            loaded.append(file)
    imports = {name: _place(name) for name in dict.fromkeys(name for name, _ in pairs)}
    print(json.dumps({"imports": imports, "kept": kept, "loaded": loaded}))  # noqa: T201


def _place(name: str) -> str:
    try:
        found = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return ""
    places = list(found.submodule_search_locations or ()) if found else []
    return os.path.realpath(places[0]) if places else ""


def _of(compiled: Path, file: str) -> bool:
    """By the header of a compiled file (PEP 552): 0, then time of change and size of its source."""
    try:
        head, source = compiled.read_bytes()[4:16], Path(file).stat()
    except OSError:
        return False
    low = 0xFFFFFFFF
    wanted = (0, int(source.st_mtime) & low, source.st_size & low)
    return head == b"".join(number.to_bytes(4, "little") for number in wanted)


if __name__ == "__main__":
    main()
