"""From what a user typed to a model folder: a local folder as it is, a hub ID fetched into day0's home."""

from __future__ import annotations

import re
from pathlib import Path

from day0.runs.errors import UserError
from day0.tools.hub_errors import Unreachable
from day0.tools.hub_fetch import PICKLES, WEIGHTS, Hub, Progress, refuse_pickles

_PART = r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}"
HUB_ID = re.compile(rf"{_PART}/{_PART}\Z")
HUB_REVISION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,127}\Z")


def resolve(model: str, home: str | Path, *, progress: Progress = lambda _: None, endpoint: str | None = None) -> Path:
    """The folder of `FOLDER`, `ORG/NAME` or `ORG/NAME@REVISION` with its weights; a hub model's is named by its commit.

    Raises `UserError`, one sentence: neither a folder nor an ID, unknown, gated, renamed, fetched in part, pickled, or
    the hub out of reach; `DiskFull`.
    """
    return _found(model, home, progress, endpoint)


def look(model: str, home: str | Path, *, endpoint: str | None = None) -> Path:
    """The same without weights: configuration, tokenizer and index of weights, kilobytes to megabytes."""
    return _found(model, home, None, endpoint)


def _found(model: str, home: str | Path, progress: Progress | None, endpoint: str | None) -> Path:
    if "\0" in model or model.startswith("-") or not model.strip():
        raise UserError(f"{model!r} is neither a model folder nor an ID such as zai-org/GLM-5.2-FP8")
    folder = path_of(model)
    if folder.is_dir():
        _check(folder)
        return folder.resolve()
    name, _, revision = model.partition("@")
    if not HUB_ID.match(name) or ".." in model or (revision and not HUB_REVISION.match(revision)):
        looks = "no such folder" if "/" in model or model.startswith((".", "~")) else "no such folder and not a hub ID"
        raise UserError(f"{model!r}: {looks}; give a folder or an ID such as zai-org/GLM-5.2-FP8")
    hub = Hub(Path(home), endpoint)
    try:
        listing = hub.listing(name, revision)
    except Unreachable:  # what was fetched before still serves, but only if the revision is the same
        kept = hub.kept(name, revision)
        if kept is None:
            raise
        return kept
    return hub.describe(listing) if progress is None else hub.weigh(listing, progress)


def _check(folder: Path) -> None:
    """Raises `UserError` for a folder of pickled weights alone."""
    names = [f.name for p in (*WEIGHTS, *PICKLES) for f in folder.glob(p)]
    refuse_pickles(str(folder), names, [n for n in names if not n.endswith(".safetensors")])


def path_of(model: str) -> Path:
    """What was typed, as a path that may be asked about. Raises `UserError` for one that no file system takes."""
    try:
        path = Path(model).expanduser()
        path.exists()
    except (OSError, RuntimeError, ValueError) as error:  # too long, forbidden, the home of nobody
        why = getattr(error, "strerror", None) or str(error)
        raise UserError(f"{model[:80]!r} is no folder: {why[:1].lower()}{why[1:].rstrip('.')}") from None
    return path
