"""Raw output, content-addressed: zstd files named by the sha256 of what is in them, never half-written."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import os
import re
import tempfile
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, BinaryIO, cast

from day0.runs.errors import DiskFull, Infrastructure
from day0.runs.values import Frozen

CHUNK = 1 << 20
LEVEL = 6
WRITING_S = 3600.0
"""A temporary file older than this belongs to a process that died."""

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class Collected(Frozen):
    """What `Artifacts.gc` removed."""

    files: int
    bytes: int


class Artifacts:
    """A store under one folder; several processes may use it at once.

    Every method raises `Infrastructure` when the folder can't be used, `DiskFull` when it can't grow.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def put(self, data: bytes | Path) -> str:
        """Stores bytes, or a file's content; returns `sha256:` + hex. What is there and sound is left as it is.

        A file must not be written to meanwhile. Until the last moment nothing stands under the digest (S11).
        """
        with _source(data) as source:
            digest, size = _measure(source)
            if self._sound(digest):
                self.path(digest).touch()  # young again: the collector leaves it
                return digest
            source.seek(0)
            with _placed(self._root, f"{size} bytes"):
                written = self._write(source, digest)
        if written != digest:
            raise Infrastructure(f"{data if isinstance(data, Path) else 'the data'} changed while it was stored")
        return digest

    def _write(self, source: BinaryIO, digest: str) -> str:
        import zstandard

        target = self.path(digest)
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=".", suffix=".tmp", dir=target.parent)
        try:
            hashed = hashlib.sha256()
            with os.fdopen(handle, "wb") as file:
                with zstandard.ZstdCompressor(level=LEVEL, write_checksum=True).stream_writer(
                    file, closefd=False
                ) as out:
                    while chunk := source.read(CHUNK):
                        hashed.update(chunk)
                        out.write(chunk)
                file.flush()
                os.fsync(file.fileno())
            if (written := "sha256:" + hashed.hexdigest()) == digest:
                Path(name).replace(target)
                _sync_folder(target.parent)
            return written
        finally:
            with contextlib.suppress(FileNotFoundError):
                Path(name).unlink()

    def path(self, digest: str) -> Path:
        """Where an artifact lies. Raises `Infrastructure` for what is no digest."""
        if not _DIGEST.fullmatch(digest):
            raise Infrastructure(f"`{digest[:100]}` is no artifact digest")
        name = digest.removeprefix("sha256:")
        return self._root / name[:2] / f"{name[2:]}.zst"

    def __contains__(self, digest: str) -> bool:
        return self.path(digest).exists()

    def get(self, digest: str) -> bytes:
        """The whole content, verified. Raises `Infrastructure`: not there, damaged."""
        with self.open(digest) as file:
            data = file.read()
        if "sha256:" + hashlib.sha256(data).hexdigest() != digest:
            raise Infrastructure(f"artifact {digest} is damaged")
        return data

    @contextmanager
    def open(self, digest: str) -> Iterator[BinaryIO]:
        """A stream of the content, not verified as a whole. Raises `Infrastructure`: not there, damaged."""
        import zstandard

        try:
            file = self.path(digest).open("rb")
        except FileNotFoundError:
            raise Infrastructure(f"artifact {digest} is not in {self._root}") from None
        except OSError as error:
            raise Infrastructure(f"artifact {digest} can't be read: {error.strerror}") from None
        raw = cast("io.RawIOBase", zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True))
        with file, io.BufferedReader(raw, CHUNK) as reader:
            try:
                yield reader
            except zstandard.ZstdError as error:
                raise Infrastructure(f"artifact {digest} is damaged: {error}") from None

    def _sound(self, digest: str) -> bool:
        if digest not in self:
            return False
        try:
            self.get(digest)
        except Infrastructure:
            return False
        return True

    def gc(self, keep: Collection[str], older_than_s: float) -> Collected:
        """Removes what is not in `keep` and was last stored more than `older_than_s` seconds ago, dead writers' too."""
        kept, now = {self.path(digest) for digest in keep}, time.time()
        count = size = 0
        for file in self._root.glob("??/*"):
            with contextlib.suppress(FileNotFoundError):
                there = file.stat()
                age = {".zst": older_than_s, ".tmp": max(older_than_s, WRITING_S)}.get(file.suffix)
                if age is not None and file not in kept and there.st_mtime < now - age:
                    file.unlink()
                    count, size = count + 1, size + there.st_size
        return Collected(files=count, bytes=size)


@contextmanager
def _source(data: bytes | Path) -> Iterator[BinaryIO]:
    if isinstance(data, Path):
        try:
            file: IO[bytes] = data.open("rb")
        except OSError as error:
            raise Infrastructure(f"{data} can't be read: {error.strerror}") from None
        with file:
            yield cast("BinaryIO", file)
    else:
        yield io.BytesIO(data)


def _measure(source: BinaryIO) -> tuple[str, int]:
    hashed, size = hashlib.sha256(), 0
    while chunk := source.read(CHUNK):
        hashed.update(chunk)
        size += len(chunk)
    return "sha256:" + hashed.hexdigest(), size


@contextmanager
def _placed(root: Path, size: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise DiskFull(f"no room left in {root} for an artifact of {size}") from None
        raise Infrastructure(f"{root} can't be written: {error.strerror}") from None


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
