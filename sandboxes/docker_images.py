"""What an environment's name stands for on a Docker node: an image of the daemon, or a folder of this host in one.

An engine environment that lies on the host (a virtual environment of some gigabytes, say) is not built into layers: it
and the Python that it was made with are shown read-only, at their own paths, in the node's base image.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from day0.runs.errors import DiskFull, Infrastructure, Refused
from day0.runs.values import canonical_json, sha256
from day0.sandboxes.docker_engine import DockerEngine, NotThere
from day0.sandboxes.docker_options import Allowed, Mount
from day0.sandboxes.environment import SYSTEM_PATH
from day0.sandboxes.images import missing
from day0.sandboxes.registry import HUB, Name, Registry

DIGEST = re.compile(r"sha256:[0-9a-f]{64}\Z")
UNPACKED = 4
"""Bytes on disk while an image arrives, per compressed one: ROCm images unpack to about three times, both are there."""
RESERVE_BYTES = 2 << 30
SHOWS = "io.day0.shows"
"""Label of an image that was made for a folder of this host: it is shown in it, like the environment that it is."""


@dataclass(frozen=True)
class Placed:
    """How an environment is entered: the image's ID, what is shown in it, and the variables the image presets."""

    image: str
    env: Mapping[str, str]
    path: str
    folder: str = ""
    """of the environment on this host; empty: it is the image itself"""
    mounts: tuple[Mount, ...] = ()


class DockerImages:
    """The `Images` port over a daemon. `base` is the image for folders of this host and for day0's own programs."""

    def __init__(
        self,
        engine: DockerEngine,
        base: str,
        allowed: Allowed,
        *,
        check: Callable[[], None] = lambda: None,
        also: Sequence[str] = (),
        registry: Registry | None = None,
        hub: str = HUB,
    ) -> None:
        """`also` are folders that programs of host environments need besides their own and their Python's; `check`
        raises when the work must stop; `hub` answers for names without a host.
        """
        self._engine, self._base, self._allowed, self._check = engine, base, allowed, check
        self._also, self._registry, self._hub = tuple(also), registry or Registry(), hub
        self._names: dict[str, str] = {}
        """digest -> the name that it was resolved from"""
        self._bytes: dict[str, int] = {}
        self._based = ""

    def resolve(self, name: str) -> str:
        """See `Images.resolve`. What is on the node stands for itself; else the registry is asked.

        A folder's digest covers the base image too.
        """
        if _hosted(name):
            digest = sha256(canonical_json([self.base(), name]))
        elif (known := self._parsed(name)) is None and not DIGEST.match(name):
            raise missing(name, _beside(name) if name.startswith("/") else self._engine.tags())
        else:
            digest = self._here(name, known) or self._there(name, known)
        self._names[digest] = name
        return digest

    def _parsed(self, name: str) -> Name | None:
        return None if DIGEST.match(name) else Name.parse(name, self._hub)

    def _here(self, name: str, known: Name | None) -> str:
        """The digest of an image on the node: the registry's where it came from one, else its ID; "" = not here."""
        try:
            found = self._engine.image(name)
        except NotThere:
            return ""
        digests = [digest.partition("@") for digest in found.get("RepoDigests") or ()]
        return next((at for repo, _, at in digests if known and repo == known.repository), str(found["Id"]))

    def _there(self, name: str, known: Name | None) -> str:
        if known is None:
            raise missing(name, self._engine.tags())
        found = self._registry.find(known)
        self._bytes[found.digest] = found.bytes
        return found.digest

    def base(self) -> str:
        """The digest of the base image. Raises as `resolve`."""
        if not self._based:
            self._based = self.resolve(self._base)
        return self._based

    def has(self, digest: str) -> bool:
        """See `Images.has`; the base is needed beside every image, since the relay is of it."""
        return self._on_node(digest) and self._on_node(self.base())

    def _on_node(self, digest: str) -> bool:
        if _hosted(self._names.get(digest, "")):
            return True
        try:
            self._engine.image(self.reference(digest))
        except NotThere:
            return False
        return True

    def pull(self, digest: str) -> None:
        """See `Images.pull`."""
        for each in dict.fromkeys((self.base(), digest)):
            if not self._on_node(each):
                self._fetch(each)

    def _fetch(self, digest: str) -> None:
        known = self._parsed(self._names.get(digest, ""))
        if known is None:
            raise Refused(f"no image {digest[:19]} is known here: resolve its name first")
        room(self._engine, self._bytes.get(digest, 0) * UNPACKED, known.repository)
        away = f"{known.host}/{known.path}" if known.host != HUB else known.repository
        self._engine.pull(away, digest, self._check)

    def reference(self, digest: str) -> str:
        """What the daemon calls it: an ID is its own name, a digest of a registry needs its repository."""
        known = self._parsed(self._names.get(digest, digest))
        if known is None:
            return digest
        try:
            self._engine.image(digest)
        except NotThere:
            away = f"{known.host}/{known.path}" if known.host != HUB else known.repository
            return f"{away}@{known.digest or digest}"
        return digest

    def place(self, environment: str) -> Placed:
        """How to enter an environment. Raises `Infrastructure` where it is not here; `Refused` outside the allowed."""
        hosted = _hosted(environment)
        if environment.startswith("/") and not hosted:
            raise Infrastructure(f"the environment {environment} is not installed on this node")
        name = self.reference(self.base() if hosted or not environment else environment)
        try:
            found = self._engine.image(name)
        except NotThere:
            raise Infrastructure(f"the image {name[:100]} is not on this node") from None
        env = dict(item.partition("=")[::2] for item in found["Config"].get("Env") or ())
        path = env.pop("PATH", SYSTEM_PATH)
        folder = environment if hosted else str((found["Config"].get("Labels") or {}).get(SHOWS, ""))
        if not folder:
            return Placed(str(found["Id"]), env, path)
        if not _hosted(folder):
            raise Infrastructure(f"the environment {folder}, for which this image was made, is not installed any more")
        shown = dict.fromkeys(
            mount for each in (folder, *interpreters(Path(folder)), *self._also) for mount in self._allowed.show(each)
        )
        return Placed(str(found["Id"]), env, f"{folder}/bin:{path}", folder, tuple(shown))


def _hosted(name: str) -> bool:
    return name.startswith("/") and Path(name, "bin").is_dir()


def _beside(folder: str) -> list[str]:
    """Environments that lie beside where one was looked for."""
    try:
        return sorted(str(other) for other in Path(folder).parent.iterdir() if (other / "bin").is_dir())
    except OSError:
        return []


def room(engine: DockerEngine, needed: int, what: str) -> None:
    """Raises `DiskFull` naming the size when the daemon's disk has less than `needed` bytes and a reserve (S22)."""
    folder = engine.root()
    try:
        free = shutil.disk_usage(folder).free
    except OSError:
        return  # unknown is not full: the daemon will say
    if needed + RESERVE_BYTES > free:
        size = (needed + RESERVE_BYTES) / 2**30
        raise DiskFull(f"{what} needs about {size:.1f} GiB in {folder}, {free / 2**30:.1f} GiB are free")


def interpreters(folder: Path) -> list[str]:
    """What an environment's Python needs besides the environment itself, link by link: whole installations elsewhere,
    of the system's own only the program and its library (its C libraries are the image's).
    """
    found: dict[str, None] = {}
    step = folder / "bin" / "python"
    for _ in range(8):
        if not step.is_symlink():
            break
        step = Path(os.path.normpath(step.parent / os.readlink(step)))  # noqa: PTH115
        home = step.parent.parent
        if home == Path("/usr"):
            real = Path(os.path.realpath(step))
            found |= dict.fromkeys(map(str, (step, real, Path("/usr/lib") / real.name)))
        elif home != folder:
            found[str(home)] = None
    return [path for path in found if Path(path).exists()]
