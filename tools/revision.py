"""The content hash of a model folder: what a revision is where there is no hub commit.

Hashing weights takes seconds per gigabyte, so each file's hash is remembered in a side file under day0's home,
by path, size and modification time; the model folder itself is never written to.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path

from day0.runs.errors import UserError
from day0.runs.values import canonical_json, sha256

_COMMIT = re.compile(r"[0-9a-f]{40}\Z")
_LEFT_OUT = {".git", ".cache", "__pycache__"}


def revision_of(folder: str | Path, home: str | Path | None = None) -> str:
    """The hub commit of a fetched model; else `sha256:` + hash over names and contents of all its files.

    With `home`, hashes are remembered there. Raises `UserError` when it is no folder.
    """
    place = Path(folder)
    if place.parent.name == "snapshots" and _COMMIT.match(place.name):
        return place.name
    return sha256(canonical_json(file_hashes(place, home)))


def file_hashes(folder: str | Path, home: str | Path | None = None) -> dict[str, str]:
    """Relative file name -> `sha256:` + hash of its content, sorted; hidden folders and caches left out."""
    place = Path(folder)
    if not place.is_dir():
        raise UserError(f"{place} is not a folder; give the folder of a checkpoint or its ID on the hub")
    files = [f for f in sorted(place.rglob("*")) if f.is_file() and not _LEFT_OUT & set(f.relative_to(place).parts)]
    side = f"{sha256(str(place.resolve()))[7:23]}.json"
    memory = Path(home) / "models" / "hashes" / side if home else None
    known = _remembered(memory) if memory else {}
    out, changed = {}, {}
    for file in files:
        stat = file.stat()
        name = file.relative_to(place).as_posix()
        stamp = f"{stat.st_size}:{stat.st_mtime_ns}:{stat.st_ino}"
        kept = known.get(name)
        out[name] = kept[1] if kept and kept[0] == stamp else _hash(file)
        changed[name] = [stamp, out[name]]
    if memory and changed != known:
        _remember(memory, changed)
    return out


def _hash(file: Path) -> str:
    with file.open("rb") as opened:
        return "sha256:" + hashlib.file_digest(opened, "sha256").hexdigest()


def _remembered(memory: Path) -> dict[str, list[str]]:
    try:
        value = json.loads(memory.read_text())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _remember(memory: Path, value: dict[str, list[str]]) -> None:
    """Writes the side file in one step; a home that can't be written only costs the next hashing."""
    try:
        memory.parent.mkdir(parents=True, exist_ok=True)
        fresh = memory.with_suffix(f".{os.getpid()}.tmp")
        fresh.write_text(json.dumps(value))
        fresh.replace(memory)
    except OSError:
        return
