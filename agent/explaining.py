"""A log that a user names, explained: read in pieces, in the form that `day0 diagnose` prints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from day0.runs.errors import UserError
from day0.tools.diagnose import Diagnosis, diagnose
from day0.tools.known import KnownIssue, Remedy

PIECE_BYTES = 1 << 20
LOOKED_AT_BYTES = 1 << 13
PACKED = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"PK\x03\x04": "zip"}
TEXT_CONTROLS = frozenset(b"\t\n\r\x1b\b\f\x07")
BINARY_SHARE = 0.1
"""control characters among a file's first bytes from which it is no log"""


def diagnosed(path: Path, learned: Sequence[KnownIssue] = ()) -> dict[str, Any]:
    """What a log says, as plain values; `learned` are issues of earlier runs.

    Raises `UserError`, one sentence: missing, unreadable, a folder, no text.
    """
    try:
        if path.is_dir():
            raise UserError(f"{path} is a folder: name the log file in it")
        with path.open("rb") as file:
            return shown(diagnose(_pieces(file, path), learned=learned))
    except OSError as error:
        raise UserError(f"{path} can't be read: {(error.strerror or 'unknown error').lower()}") from None
    except ValueError as error:  # a NUL in the path
        raise UserError(f"{str(path)[:80]!r} can't be read: {error}") from None


def shown(found: Diagnosis) -> dict[str, Any]:
    """A diagnosis under the names that users see."""
    return {
        "class": found.failure.value,
        "issue": found.issue,
        "confidence": found.confidence,
        "evidence": found.evidence,
        "remedies": [_remedy(remedy) for remedy in found.remedies],
        "cause": found.cause,
        "upstream": list(found.upstream),
        "also": list(found.also),
        "telling": list(found.telling),
    }


def _remedy(remedy: Remedy) -> dict[str, Any]:
    return remedy.model_dump(mode="json", exclude_defaults=True)


def _pieces(file: BinaryIO, path: Path) -> Iterator[bytes]:
    first = file.read(PIECE_BYTES)
    head = first[:LOOKED_AT_BYTES]
    for magic, name in PACKED.items():
        if head.startswith(magic):
            raise UserError(f"{path} is packed ({name}): unpack it first")
    odd = sum(1 for byte in head if byte < 32 and byte not in TEXT_CONTROLS)
    if odd > BINARY_SHARE * len(head):
        raise UserError(f"{path} is no text: give the log of a server")
    while first:
        yield first
        first = file.read(PIECE_BYTES)
