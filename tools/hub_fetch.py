"""Files of a hub model, brought into day0's home: listed first, then what describes it, and weights last.

The hub is the outside world: wall time, the user's own token, and never from within a sandbox. The token goes to the
hub alone: neither into a folder nor, after a redirect, to the store behind it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatch
from importlib import import_module
from pathlib import Path
from typing import Any

from day0.runs.errors import DiskFull, UserError
from day0.runs.values import Frozen
from day0.tools.hub_errors import told
from day0.tools.revision import file_hashes

Progress = Callable[[str], None]
Consented = Callable[[str], bool]
"""Whether a person consented to the pickled weights of exactly this revision."""
DESCRIBING = ("*.json", "*.txt", "*.jinja", "*.jsonl", "*.model", "*.tiktoken", "*.py")
"""What describes a model: kilobytes to megabytes. `.py` files are data here: nothing imports them without consent."""
WEIGHTS = ("*.safetensors",)
PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl", "*.pickle")
"""weights that run code when they are loaded"""
LARGEST_TEXT = 64 << 20
LIST_TIMEOUT_S = 20.0
WORKERS, BATCH = 8, 8
SPARE_BYTES = 1 << 30
"""kept free on the disk that weights are put on"""
READ_ONLY = 0o444


class HubFile(Frozen):
    """One file of a revision: bytes, and a hash as the hub gives it (`sha256:` of large files, `git:` of others)."""

    name: str
    size: int
    hashed: str


class Listing(Frozen):
    """All files of one commit that day0 takes; `pickled` are weights that it takes with a person's consent only."""

    name: str
    commit: str
    files: tuple[HubFile, ...]
    pickled: tuple[str, ...] = ()

    def chosen(self, patterns: Sequence[str]) -> tuple[HubFile, ...]:
        """The files that match, in the order of their names."""
        return tuple(f for f in self.files if any(fnmatch(f.name, p) for p in patterns))


@dataclass(frozen=True)
class Hub:
    """The hub, and the folder under day0's home in which its models lie. `endpoint` None: what HF_ENDPOINT says."""

    home: Path
    endpoint: str | None = None
    token: str | None = field(default=None, repr=False)
    consented: Consented = field(default=lambda _: False, repr=False)

    @property
    def at(self) -> str:
        """The hub's address."""
        from huggingface_hub import constants

        return self.endpoint or str(constants.ENDPOINT)

    @property
    def cache(self) -> Path:
        """The folder, in the hub client's own layout."""
        return self.home / "models" / "hub"

    def folder(self, listing: Listing) -> Path:
        """Where the files of a commit lie."""
        return self.cache / f"models--{listing.name.replace('/', '--')}" / "snapshots" / listing.commit

    def listing(self, name: str, revision: str = "") -> Listing:
        """The files of a revision. Raises `UserError`, one sentence: missing, gated, renamed, out of reach, pickles."""
        from huggingface_hub import HfApi

        with told(name, revision):
            api = HfApi(endpoint=self.at, token=self.token)
            info = api.model_info(name, revision=revision or None, timeout=LIST_TIMEOUT_S, files_metadata=True)
        if info.id and info.id != name:
            raise UserError(f"{name} was renamed on the hub to {info.id}: ask for it by that name")
        if not info.sha:
            raise UserError(f"the hub does not say which commit of {name} it has: try again later")
        siblings = info.siblings or []
        found = [
            HubFile(
                name=s.rfilename,
                size=int((s.lfs.size if s.lfs else s.size) or 0),
                hashed=f"sha256:{s.lfs.sha256}" if s.lfs else f"git:{s.blob_id}" if s.blob_id else "",
            )
            for s in siblings
            if _plain(s.rfilename)
        ]
        pickled = tuple(sorted(f.name for f in found if any(fnmatch(f.name, p) for p in PICKLES)))
        taken = [f for f in found if any(fnmatch(f.name, p) for p in (*DESCRIBING, *WEIGHTS))]
        if alone(pickled, [f.name for f in taken]):
            refuse_pickles(name, info.sha, pickled, self.consented)
            taken += [f for f in found if f.name in pickled]
        return Listing(name=name, commit=info.sha, files=tuple(sorted(taken, key=lambda f: f.name)), pickled=pickled)

    def describe(self, listing: Listing) -> Path:
        """Fetches what describes the model, and no weights. Raises `UserError`, `DiskFull`."""
        files = [f for f in listing.chosen(DESCRIBING) if f.size <= LARGEST_TEXT]
        if not any(f.name == "config.json" for f in files):
            raise UserError(f"{listing.name} has no config.json, so it is not a model that day0 can serve")
        return self._fetch(listing, files, lambda _: None)

    def weigh(self, listing: Listing, progress: Progress = lambda _: None) -> Path:
        """Fetches the rest, weights last; proves hashes, makes files read-only. Raises `UserError`, `DiskFull`."""
        self.describe(listing)
        place = self._fetch(listing, list(listing.files), progress)
        self._prove(listing, place)
        self._note(listing)
        return place

    def kept(self, name: str, revision: str) -> Path | None:
        """The folder of a revision that was fetched whole before; None where it was not.

        Raises `UserError` where only a part of it is here.
        """
        for note in sorted(self._notes(name), key=lambda n: n.stat().st_mtime, reverse=True):
            listing = _read(note)
            if listing is None or (revision and revision != listing.commit):
                continue
            missing = self._missing(listing, listing.files)
            if set(listing.pickled) & {f.name for f in listing.files}:
                refuse_pickles(name, listing.commit, listing.pickled, self.consented)
            if not missing:
                return self.folder(listing)
            raise UserError(
                f"{name} lies here only in part ({len(listing.files) - len(missing)} of {len(listing.files)} files), "
                "and the hub can't be reached: run again when it can"
            )
        return None

    def _notes(self, name: str) -> list[Path]:
        return list((self.cache / f"models--{name.replace('/', '--')}").glob("day0-*.json"))

    def _note(self, listing: Listing) -> None:
        place = self.folder(listing).parents[1] / f"day0-{listing.commit}.json"
        fresh = place.with_suffix(f".{os.getpid()}.tmp")
        fresh.write_text(listing.model_dump_json())
        fresh.replace(place)

    def _missing(self, listing: Listing, files: Sequence[HubFile]) -> list[HubFile]:
        place = self.folder(listing)
        return [f for f in files if not _has(place / f.name, f.size)]

    def _fetch(self, listing: Listing, files: Sequence[HubFile], progress: Progress) -> Path:
        from huggingface_hub import snapshot_download
        from huggingface_hub.utils import logging

        logging.set_verbosity_error()  # type: ignore[no-untyped-call]  # its retries are no news
        missing = self._missing(listing, files)
        self._room(listing, missing)
        if missing and any(f.hashed.startswith("sha256:") for f in missing):
            self._note(listing)  # from here on a fetch that breaks off is known to be one
        total, done = sum(f.size for f in files), sum(f.size for f in files) - sum(f.size for f in missing)
        order = sorted(missing, key=lambda f: (any(fnmatch(f.name, p) for p in (*WEIGHTS, *PICKLES)), f.name))
        for at in range(0, len(order), BATCH):
            batch = order[at : at + BATCH]
            with told(listing.name, listing.commit, fetching=True):
                snapshot_download(
                    listing.name,
                    revision=listing.commit,
                    cache_dir=self.cache,
                    allow_patterns=[_literally(f.name) for f in batch],
                    max_workers=WORKERS,
                    endpoint=self.at,
                    token=self.token,
                    tqdm_class=_silent(),
                )
            done += sum(f.size for f in batch)
            progress(f"{listing.name}: {gb(done)} of {gb(total)} fetched")
        broken = self._missing(listing, files)
        if broken:
            raise UserError(f"{listing.name}: {broken[0].name} came only in part from the hub: run again to go on")
        return self.folder(listing)

    def _room(self, listing: Listing, missing: Sequence[HubFile]) -> None:
        self.cache.mkdir(parents=True, exist_ok=True)
        needed, free = sum(f.size for f in missing), shutil.disk_usage(self.cache).free
        if needed and needed + SPARE_BYTES > free:
            raise DiskFull(
                f"{self.cache} has {gb(free)} free, {listing.name} needs {gb(needed)} more and {gb(SPARE_BYTES)} to "
                "spare"
            )

    def _prove(self, listing: Listing, place: Path) -> None:
        """Compares every file with the hub's hash; a wrong one is removed."""
        hashes = file_hashes(place, self.home)
        for file in listing.files:
            path = place / file.name
            if file.hashed.startswith("git:"):
                good = _git(path) == file.hashed
            else:
                good = not file.hashed or hashes.get(file.name) == file.hashed
            if not good:
                path.resolve().unlink(missing_ok=True)
                path.unlink(missing_ok=True)
                raise UserError(
                    f"{listing.name}: {file.name} does not have the hash that the hub gives; it was removed, run again "
                    "to fetch it anew"
                )
            with suppress(OSError):
                path.resolve().chmod(READ_ONLY)


def alone(pickled: Sequence[str], files: Sequence[str]) -> bool:
    """Whether a model has pickled weights and no others."""
    return bool(pickled) and not any(fnmatch(f, p) for f in files for p in WEIGHTS)


def refuse_pickles(model: str, revision: str, pickled: Sequence[str], consented: Consented) -> None:
    """Raises `UserError`, with the command by which a person consents, unless somebody did for this revision (S61)."""
    if not consented(revision):
        raise UserError(
            f"{model} has only pickled weights ({pickled[0]}), which run code when they are loaded: convert them to "
            f"safetensors, or consent to exactly these with `day0 consent {model}@{revision} --pickle`"
        )


def gb(size: int) -> str:
    """Bytes in the unit that people compare disks in."""
    return f"{size / 1e9:.1f} GB" if size >= 1e8 else f"{size / 1e6:.1f} MB"


def _plain(name: str) -> bool:
    return not name.startswith(("/", ".")) and ".." not in name.split("/") and "\\" not in name and "\0" not in name


def _literally(name: str) -> str:
    return "".join(f"[{c}]" if c in "*?[" else c for c in name)


def _has(path: Path, size: int) -> bool:
    try:
        return path.stat().st_size == size
    except OSError:
        return False


def _git(path: Path) -> str:
    """Git's own hash of a file."""
    data = path.read_bytes()
    return "git:" + hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def _read(note: Path) -> Listing | None:
    try:
        return Listing.model_validate(json.loads(note.read_text()))
    except (OSError, ValueError):
        return None


def _silent() -> Any:
    """The client's progress bar without a bar: day0 says itself how far it is."""
    bar: Any = import_module("tqdm").tqdm

    class Silent(bar):  # type: ignore[misc]
        def __init__(self, *args: object, **more: object) -> None:
            more.pop("name", None)
            super().__init__(*args, **{**more, "disable": True})

    return Silent
