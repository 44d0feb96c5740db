"""The source of a released engine: its real wheel, fetched by the machine's own pip, unpacked as text.

`sglang==VERSION` becomes `$DAY0_HOME/sources/sglang-VERSION/`, laid out as in the engine's images
(`sglang/python/sglang/...`). Nothing of it is imported or run; only text files of source are kept.
"""

from __future__ import annotations

import re
import shutil
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from day0.runs.errors import DiskFull, Infrastructure, UserError
from day0.runs.values import Frozen, sha256
from day0.sandboxes.base import Node
from day0.sandboxes.spec import SandboxSpec

FOLDER = "sources"
MARKER = "source.json"
SPEC = re.compile(r"(sglang)==(\d+(?:\.\d+){1,3}(?:(?:\.post|rc|a|b)\d+)?)\Z")
PREFIX = "sglang/python/"
"""where an image has what a wheel has at its top"""
ENDINGS = frozenset({"py", "pyi", "cu", "cuh", "h", "hpp", "hip", "c", "cc", "cpp", "inl", "json", "csv"})
FETCH_S = 1200.0
MAX_BYTES, MAX_FILES, NEEDS_BYTES = 4 << 20, 50_000, 512 << 20


class EngineSource(Frozen):
    """A source that lies unpacked."""

    spec: str
    version: str
    archive: str
    """sha256 of the archive that was fetched"""
    files: int


def parsed(spec: str) -> tuple[str, str]:
    """(engine, version). Raises `UserError`."""
    found = SPEC.match(spec.strip())
    if found is None:
        raise UserError(f"{spec[:80]!r} is no engine source: write sglang==VERSION, such as sglang==0.5.13.post1")
    return found[1], found[2]


def folder_of(home: Path, spec: str) -> Path:
    """Where it lies, or would. Raises `UserError`."""
    return home / FOLDER / "-".join(parsed(spec))


def held(home: Path, spec: str) -> EngineSource | None:
    """The source if it was fetched before. Raises `UserError` for what is no spec."""
    try:
        return EngineSource.model_validate_json((folder_of(home, spec) / MARKER).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def fetch(node: Node, home: Path, spec: str) -> EngineSource:
    """Fetches and unpacks it, once. About 20 MB and ten seconds.

    Raises `UserError` (no such version), `Infrastructure`, `DiskFull`, `Cancelled`.
    """
    known = held(home, spec)
    if known is not None:
        return known
    place = folder_of(home, spec)
    part = place.with_name(f".{place.name}.part")
    try:
        shutil.rmtree(part, ignore_errors=True)
        (part / "got").mkdir(parents=True)
        if (free := shutil.disk_usage(part).free) < NEEDS_BYTES:
            raise DiskFull(f"{part.parent} has {free >> 20} MiB free, an engine's source needs {NEEDS_BYTES >> 20} MiB")
        _download(node, part / "got", spec)
        made = _unpacked(part, spec)
        shutil.rmtree(part / "got")
        (part / MARKER).write_text(made.model_dump_json(indent=1) + "\n", encoding="utf-8")
        shutil.rmtree(place, ignore_errors=True)
        part.replace(place)
    except OSError as error:
        raise DiskFull(f"{place} can't be written: {error.strerror or error}") from error
    return made


def _download(node: Node, into: Path, spec: str) -> None:
    words = ["-m", "pip", "download", "--no-deps", "--no-cache-dir", "--no-input", "--disable-pip-version-check"]
    with node.open(SandboxSpec(role="job", environment="", attempt="engine-source", network="registry")) as sandbox:
        process = sandbox.spawn([sys.executable, *words, "--dest", str(into), spec])
        try:
            ended = process.wait(FETCH_S)
        finally:
            process.stop(5.0)
        said = process.output(0, 1 << 20).decode(errors="replace")
    if ended.code:
        last = next((row.strip() for row in reversed(said.splitlines()) if "ERROR" in row), said.strip()[-300:])
        if "No matching distribution" in said:
            raise UserError(f"the package registry has no {spec} that fits this machine's Python: {last[:300]}")
        raise Infrastructure(f"{spec} could not be fetched: {last[:300]}")


def _unpacked(part: Path, spec: str) -> EngineSource:
    archives = sorted((part / "got").iterdir())
    if len(archives) != 1:
        raise Infrastructure(f"fetching {spec} left {len(archives)} files, not one")
    count = 0
    for path, text in texts(archives[0]):
        file = part / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8", newline="")
        count += 1
    if not count:
        raise Infrastructure(f"{archives[0].name} holds no source of the engine")
    digest = sha256(archives[0].read_bytes())
    return EngineSource(spec=spec.strip(), version=parsed(spec)[1], archive=digest, files=count)


def texts(archive: Path) -> Iterator[tuple[str, str]]:
    """(path in an image's workspace, text) of each source file of a wheel or an sdist."""
    seen = 0
    for name, data in _members(archive):
        parts = PurePosixPath(name).parts
        if ".." in parts or name.startswith("/") or "sglang" not in parts:
            continue
        inner = parts[parts.index("sglang") :]
        if inner[-1].rpartition(".")[2] not in ENDINGS or len(inner) < 2:
            continue
        try:
            yield PREFIX + "/".join(inner), data.decode()
        except UnicodeDecodeError:
            continue
        seen += 1
        if seen >= MAX_FILES:
            raise Infrastructure(f"{archive.name} holds more than {MAX_FILES} source files")


def _members(archive: Path) -> Iterator[tuple[str, bytes]]:
    try:
        if archive.suffix == ".whl":
            with zipfile.ZipFile(archive) as wheel:
                for info in wheel.infolist():
                    if not info.is_dir() and info.file_size <= MAX_BYTES:
                        yield info.filename, wheel.read(info)
            return
        with tarfile.open(archive) as sdist:
            for member in sdist:
                if member.isfile() and member.size <= MAX_BYTES and (opened := sdist.extractfile(member)):
                    yield member.name, opened.read()
    except (zipfile.BadZipFile, tarfile.TarError) as error:
        raise Infrastructure(f"{archive.name} can't be unpacked: {error}") from None


__all__ = ["EngineSource", "fetch", "folder_of", "held", "parsed", "texts"]
