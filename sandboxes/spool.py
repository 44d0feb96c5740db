"""A process' output on disk: the head for ever, then a ring of tail segments; logical offsets stay valid.

An offset counts every byte the process wrote. Files are named by the offset they begin at. Bytes that the ring
dropped read as one marker line and blanks of the same total length, so a reader that adds up lengths, one that
jumps to the end and one that comes back later all see the same text at the same place.

Standard library only: the warden writes it, day0 reads it.
"""

# The warden loads this, and pathlib would double its start time.
# ruff: noqa: PTH108

from __future__ import annotations

import errno
import os

HEAD = 16 << 20
SEGMENT = 8 << 20
SEGMENTS = 6
"""16 MiB of head and at most 6 x 8 MiB of tail: 64 MiB per process."""

FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""What a full disk, a quota or a file size limit answers."""


def _path(folder: str, start: int) -> str:
    return f"{folder}/out.{start:016d}"


class SpoolWriter:
    """Appends; never raises for a full disk, but drops and remembers it in `full`."""

    def __init__(self, folder: str, *, head: int = HEAD, segment: int = SEGMENT, segments: int = SEGMENTS) -> None:
        self.folder, self.segment, self.segments = folder, segment, segments
        self.full: str | None = None
        self.total = self._start = 0
        self._room, self._starts = head, list[int]()
        self._fd = os.open(_path(folder, 0), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def append(self, data: bytes) -> None:
        """Writes all of `data`, over as many segments as it takes."""
        view = memoryview(data)
        while view and self.full is None:
            try:
                if self.total - self._start >= self._room:
                    self._rotate()
                written = os.write(self._fd, view[: self._start + self._room - self.total])
            except OSError as error:
                if error.errno not in FULL:
                    raise
                self.full = f"{self.folder}: {os.strerror(error.errno or 0)}"
                return
            self.total += written
            view = view[written:]

    def _rotate(self) -> None:
        if len(self._starts) == self.segments:
            os.unlink(_path(self.folder, self._starts.pop(0)))
        fd = os.open(_path(self.folder, self.total), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.close(self._fd)
        self._fd, self._start, self._room = fd, self.total, self.segment
        self._starts.append(self.total)


class SpoolReader:
    """Reads while the writer writes. A folder without output reads as empty."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._told = -1
        """where the last filled gap read ended: the marker stands once per gap, not once per read"""

    def _files(self) -> list[tuple[int, int]]:
        """(start, size) in order. A segment may vanish between listing and looking."""
        found = []
        try:
            with os.scandir(self.folder) as entries:
                for entry in entries:
                    if entry.name.startswith("out."):
                        try:
                            found.append((int(entry.name[4:]), entry.stat(follow_symlinks=False).st_size))
                        except FileNotFoundError:
                            continue
        except FileNotFoundError:
            return []
        return sorted(found)

    def size(self) -> int:
        """Bytes written so far, dropped ones included."""
        files = self._files()
        return sum(files[-1]) if files else 0

    def read(self, offset: int, max_bytes: int) -> bytes:
        """At most `max_bytes` from `offset`; b"" at the end."""
        if offset < 0 or max_bytes <= 0:
            return b""
        while True:
            files = self._files()
            for start, size in files:
                if offset < start:
                    return self._gap(offset, start, max_bytes)
                if offset < start + size:
                    try:
                        return self._at(start, offset, max_bytes)
                    except FileNotFoundError:
                        break  # dropped just now: look again
            else:
                return b""

    def _at(self, start: int, offset: int, max_bytes: int) -> bytes:
        fd = os.open(_path(self.folder, start), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            return os.pread(fd, max_bytes, offset - start)
        finally:
            os.close(fd)

    def _gap(self, offset: int, end: int, max_bytes: int) -> bytes:
        length = min(end - offset, max_bytes)
        marker = b"" if offset == self._told else f"\n[day0: {end - offset} bytes of output not kept]\n".encode()
        self._told = offset + length
        return (marker + b" " * (length - len(marker)))[: length - 1] + b"\n" if length else b""
