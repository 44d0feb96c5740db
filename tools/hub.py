"""From what a user typed to a model folder: a local folder as it is, a hub ID fetched into day0's home."""

from __future__ import annotations

import json
import re
from fnmatch import fnmatch
from pathlib import Path

from day0.runs.errors import UserError
from day0.runs.values import Frozen
from day0.tools.hub_errors import Unreachable
from day0.tools.hub_fetch import PICKLES, WEIGHTS, Consented, Hub, Progress, alone, refuse_pickles
from day0.tools.revision import revision_of

_PART = r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}"
HUB_ID = re.compile(rf"{_PART}/{_PART}\Z")
HUB_REVISION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,127}\Z")
_HASH = re.compile(r"(.+)@(sha256:[0-9a-f]{64})\Z", re.S)


class Code(Frozen):
    """What of a model's exact revision would run code: Python files that its configuration names, pickled weights."""

    model: str
    revision: str
    python: tuple[str, ...] = ()
    pickled: tuple[str, ...] = ()


def never(revision: str) -> bool:
    """Nobody consented."""
    del revision
    return False


def resolve(
    model: str,
    home: str | Path,
    *,
    progress: Progress = lambda _: None,
    endpoint: str | None = None,
    consented: Consented = never,
) -> Path:
    """The folder of `FOLDER`, `ORG/NAME` or `ORG/NAME@REVISION` with its weights; a hub model's is named by its commit.

    Raises `UserError`, one sentence: neither a folder nor an ID, unknown, gated, renamed, fetched in part, pickled
    without anybody's consent, or the hub out of reach; `DiskFull`.
    """
    return _found(model, Hub(Path(home), endpoint, consented=consented), progress)


def look(model: str, home: str | Path, *, endpoint: str | None = None, consented: Consented = never) -> Path:
    """The same without weights: configuration, tokenizer and index of weights, kilobytes to megabytes."""
    return _found(model, Hub(Path(home), endpoint, consented=consented), None)


def code_of(model: str, home: str | Path, *, endpoint: str | None = None) -> Code:
    """What of a model runs code, of a folder (`FOLDER@sha256:...`: if it still is that) or of a revision of the hub.

    Raises `UserError`.
    """
    hashed = _HASH.match(model)
    folder = path_of(hashed[1] if hashed else model)
    if folder.is_dir():
        revision = revision_of(folder, home)
        if hashed and hashed[2] != revision:
            raise UserError(f"{folder} is another model by now: its revision is {revision}")
        names, name = sorted(f.name for f in folder.iterdir() if f.is_file()), str(folder.resolve())
    else:
        name, commit = _hub_name(model)
        hub = Hub(Path(home), endpoint, consented=lambda _: True)
        listing = hub.listing(name, commit)
        folder, revision = hub.describe(listing), listing.commit
        names = sorted({*(f.name for f in listing.files), *listing.pickled})
    pickled = _pickled(names)
    python = tuple(n for n in names if n.endswith(".py")) if brings_code(folder) else ()
    return Code(model=name, revision=revision, python=python, pickled=pickled if alone(pickled, names) else ())


def brings_code(folder: Path) -> bool:
    """Whether a configuration of the model names classes in Python files of its own."""
    for name in ("config.json", "tokenizer_config.json"):
        try:
            config = json.loads((folder / name).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(config, dict) and config.get("auto_map"):
            return True
    return False


def _found(model: str, hub: Hub, progress: Progress | None) -> Path:
    if "\0" in model or model.startswith("-") or not model.strip():
        raise UserError(f"{model!r} is neither a model folder nor an ID such as zai-org/GLM-5.2-FP8")
    folder = path_of(model)
    if folder.is_dir():
        _check(folder, hub)
        return folder.resolve()
    name, revision = _hub_name(model)
    try:
        listing = hub.listing(name, revision)
    except Unreachable:  # what was fetched before still serves, but only if the revision is the same
        kept = hub.kept(name, revision)
        if kept is None:
            raise
        return kept
    return hub.describe(listing) if progress is None else hub.weigh(listing, progress)


def _hub_name(model: str) -> tuple[str, str]:
    """(ID, revision or nothing). Raises `UserError`."""
    name, _, revision = model.partition("@")
    if not HUB_ID.match(name) or ".." in model or (revision and not HUB_REVISION.match(revision)):
        looks = "no such folder" if "/" in model or model.startswith((".", "~")) else "no such folder and not a hub ID"
        raise UserError(f"{model!r}: {looks}; give a folder or an ID such as zai-org/GLM-5.2-FP8")
    return name, revision


def _check(folder: Path, hub: Hub) -> None:
    """Raises `UserError` for a folder of pickled weights alone that nobody consented to."""
    names = sorted(f.name for p in (*WEIGHTS, *PICKLES) for f in folder.glob(p))
    if alone(pickled := _pickled(names), names):
        refuse_pickles(str(folder.resolve()), revision_of(folder, hub.home), pickled, hub.consented)


def _pickled(names: list[str]) -> tuple[str, ...]:
    return tuple(n for n in names if any(fnmatch(n, p) for p in PICKLES))


def path_of(model: str) -> Path:
    """What was typed, as a path that may be asked about. Raises `UserError` for one that no file system takes."""
    try:
        path = Path(model).expanduser()
        path.exists()
    except (OSError, RuntimeError, ValueError) as error:  # too long, forbidden, the home of nobody
        why = getattr(error, "strerror", None) or str(error)
        raise UserError(f"{model[:80]!r} is no folder: {why[:1].lower()}{why[1:].rstrip('.')}") from None
    return path
