"""Engine environments on this machine: what is installed, and a digest that says what exactly."""

from __future__ import annotations

import csv
import functools
import hashlib
import json
import platform
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from pathlib import Path

from day0.runs.errors import Infrastructure
from day0.runs.values import Frozen, canonical_json, sha256

ENGINE, HARNESS, EVALS = "sglang-cpu-0.5.23", "harness-0.5.9", "evals-0.4.13"
CHECKS = "clang-tidy-23.1.4"
HIP_HEADERS = "lib/python3*/site-packages/triton/backends/amd/include"
MARKER = "day0-environment.json"
_OWN_RECORDS = ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json")


class EngineHome(Frozen):
    """Where the CPU engine and the load generator live: folders and the digests of their environments."""

    engine: str
    build: str
    harness: str
    harness_build: str
    name: str = ENGINE
    version: str = "0.5.23"


class Installed(Frozen):
    """One environment for `day0 engine list`. `build` is empty while its installation was not finished."""

    name: str
    folder: str
    build: str = ""
    packages: int = 0
    seconds: float = 0.0


def engines_folder(home: str | Path) -> Path:
    """Where environments lie under day0's home."""
    return Path(home) / "engines"


def find(home: str | Path) -> EngineHome | None:
    """The finished installation under this home; None when there is none, or only half of one."""
    places = [engines_folder(home) / name for name in (ENGINE, HARNESS)]
    if not all((place / MARKER).is_file() for place in places):
        return None
    engine, harness = places
    return EngineHome(
        engine=str(engine),
        build=environment_digest(engine),
        harness=str(harness),
        harness_build=environment_digest(harness),
    )


def evals_of(home: str | Path) -> str:
    """The finished environment of lm-eval under this home; empty: there is none."""
    place = engines_folder(home) / EVALS
    return str(place) if (place / MARKER).is_file() else ""


def checks_of(home: str | Path) -> tuple[str, str]:
    """The finished environment with clang-tidy, and HIP's headers of a Triton beside it; empty: there is none."""
    place = engines_folder(home) / CHECKS
    if not (place / MARKER).is_file():
        return "", ""
    places = [place, engines_folder(home) / ENGINE]
    headers = (found for folder in places for found in folder.glob(HIP_HEADERS) if (found / "hip").is_dir())
    return str(place), str(next(headers, ""))


def listing(home: str | Path) -> tuple[Installed, ...]:
    """Every environment under this home, unfinished ones too, by name."""
    out = []
    for place in sorted(p for p in engines_folder(home).glob("*") if (p / "pyvenv.cfg").is_file()):
        try:
            marker = json.loads((place / MARKER).read_text())
            count, seconds, digest = len(marker["packages"]), float(marker["seconds"]), environment_digest(place)
        except (OSError, ValueError, KeyError, Infrastructure):
            count, seconds, digest = 0, 0.0, ""
        out.append(Installed(name=place.name, folder=str(place), build=digest, packages=count, seconds=seconds))
    return tuple(out)


def environment_digest(folder: str | Path) -> str:
    """`sha256:` + hash over Python's version, the machine and every installed file as the packages' records list it.

    It does not depend on where the environment lies: scripts (their first line names the folder) and compiled
    files are left out. Raises `Infrastructure` when there is no environment. About 0.2 s for 100 packages; records that
    did not change since this process read them (place, time, size) are not read again.
    """
    place = Path(folder)
    records = tuple(_stamp(record) for record in sorted(_site(place).glob("*.dist-info/RECORD")))
    return _digest(place, records)


def _stamp(record: Path) -> tuple[str, int, int, int]:
    found = record.stat()
    return str(record), found.st_mtime_ns, found.st_size, found.st_ino


@functools.lru_cache(maxsize=16)
def _digest(place: Path, records: tuple[tuple[str, int, int, int], ...]) -> str:
    """`records` say which state of the environment this is the digest of."""
    rows = sorted(f"{name}:{digest}" for name, digest in _records(place))
    if not rows:
        raise Infrastructure(f"{place} is not an installed environment; run `day0 engine install cpu`")
    return sha256(canonical_json([_python(place), platform.machine(), rows]))


def altered(folder: str | Path) -> tuple[str, ...]:
    """Installed files whose content is not what their package's record says; reads everything, seconds per gigabyte."""
    place = _site(Path(folder))
    wrong = []
    for name, recorded in _records(Path(folder)):
        file = place / name
        if not recorded.startswith("sha256="):
            continue
        if not file.is_file() or f"sha256={_hash(file)}" != recorded:
            wrong.append(name)
    return tuple(sorted(wrong))


def packages(folder: str | Path) -> dict[str, str]:
    """Installed packages and versions, from the names of their records."""
    found = {}
    for info in sorted(_site(Path(folder)).glob("*.dist-info")):
        name, _, version = info.name.removesuffix(".dist-info").rpartition("-")
        found[name] = version
    return found


def _hash(file: Path) -> str:
    with file.open("rb") as opened:
        return urlsafe_b64encode(hashlib.file_digest(opened, "sha256").digest()).rstrip(b"=").decode()


def _site(folder: Path) -> Path:
    # Debian's own Python, as many engine images use it, has its packages elsewhere
    layouts = ("lib/python3*/site-packages", "local/lib/python3*/dist-packages", "lib/python3*/dist-packages")
    found = [place for layout in layouts for place in sorted(folder.glob(layout))]
    return next((place for place in found if any(place.glob("*.dist-info"))), found[0] if found else folder / "lib")


def _python(folder: Path) -> str:
    """Major and minor version; the patch release belongs to the system and may change under an environment."""
    return _site(folder).parent.name


def _records(folder: Path) -> Iterator[tuple[str, str]]:
    """(file, `sha256=...`) of every package's files, apart from what an installer adds on this machine."""
    for record in _site(folder).glob("*.dist-info/RECORD"):
        with record.open(newline="") as opened:
            for row in csv.reader(opened):
                name, recorded = row[0], row[1] if len(row) > 1 else ""
                own = name.rsplit("/", 1)[-1] in _OWN_RECORDS and ".dist-info/" in name
                if not own and not name.startswith(("..", "/")) and not name.endswith(".pyc"):
                    yield name, recorded
