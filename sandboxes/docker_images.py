"""What an environment's name stands for on a Docker node: an image of the daemon, or a folder of this host in one.

An engine environment that lies on the host (a virtual environment of some gigabytes, say) is not built into layers: it
and the Python that it was made with are shown read-only, at their own paths, in the node's base image.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from day0.runs.errors import Infrastructure, Refused
from day0.runs.values import canonical_json, sha256
from day0.sandboxes.docker_engine import DockerEngine, NotThere
from day0.sandboxes.docker_options import Allowed, Mount
from day0.sandboxes.environment import SYSTEM_PATH
from day0.sandboxes.registry import Registry


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
        also: Sequence[str] = (),
        registry: Registry | None = None,
    ) -> None:
        """`also` are folders that programs of host environments need besides their own and their Python's."""
        self._engine, self._base, self._allowed = engine, base, allowed
        self._also, self._registry = tuple(also), registry or Registry()
        self._names: dict[str, str] = {}
        """digest -> the name that it was resolved from"""

    def resolve(self, name: str) -> str:
        """See `Images.resolve`. A folder's digest covers the base image; a tag that is here stands for what is here."""
        if _hosted(name):
            digest = sha256(canonical_json([self.place("").image, name]))
        else:
            try:
                digest = str(self._engine.image(_checked(name))["Id"])
            except (NotThere, Refused):
                digest = self._registry.digest(name, self._engine.tags())
        self._names[digest] = name
        return digest

    def has(self, digest: str) -> bool:
        """See `Images.has`."""
        name = self._names.get(digest)
        if name is not None and _hosted(name):
            return True
        try:
            self._engine.image(self._reference(digest))
        except NotThere:
            return False
        return True

    def pull(self, digest: str) -> None:
        """See `Images.pull`."""
        if self.has(digest):
            return
        if digest not in self._names:
            raise Refused(f"no image {digest[:19]} is known here: resolve its name first")
        self._registry.pull(self._engine, self._reference(digest))

    def _reference(self, digest: str) -> str:
        """What the daemon calls it: an ID is its own name, a digest of a registry needs its repository."""
        name = self._names.get(digest)
        if name is None:
            return digest
        try:
            self._engine.image(digest)
        except NotThere:
            return f"{repository(name)}@{digest}"
        return digest

    def place(self, environment: str) -> Placed:
        """How to enter an environment. Raises `Infrastructure` where it is not here; `Refused` outside the allowed."""
        hosted = _hosted(environment)
        if environment.startswith("/") and not hosted:
            raise Infrastructure(f"the environment {environment} is not installed on this node")
        name = self._base if hosted or not environment else self._reference(environment)
        try:
            found = self._engine.image(name)
        except NotThere:
            raise Infrastructure(f"the image {name[:100]} is not on this node") from None
        env = dict(item.partition("=")[::2] for item in found["Config"].get("Env") or ())
        path = env.pop("PATH", SYSTEM_PATH)
        if not hosted:
            return Placed(str(found["Id"]), env, path)
        shown = dict.fromkeys(
            mount
            for folder in (environment, *pythons(Path(environment)), *self._also)
            for mount in self._allowed.show(folder)
        )
        return Placed(str(found["Id"]), env, f"{environment}/bin:{path}", environment, tuple(shown))


def _hosted(name: str) -> bool:
    return name.startswith("/") and Path(name, "bin").is_dir()


def _checked(name: str) -> str:
    """An image's name as the daemon takes it. Raises `Refused` for what can't be one."""
    if not name or not all(c.isascii() and (c.isalnum() or c in "._-/:@") for c in name) or ".." in name:
        raise Refused("no name")
    return name


def repository(name: str) -> str:
    """The name without its tag or digest."""
    name = name.partition("@")[0]
    head, colon, tag = name.rpartition(":")
    return head if colon and "/" not in tag else name


def pythons(folder: Path) -> list[str]:
    """The installation behind a virtual environment's interpreter, link by link; empty where it has none or its own."""
    found: dict[str, None] = {}
    step = folder / "bin" / "python"
    for _ in range(8):
        if not step.is_symlink():
            break
        step = Path(os.path.normpath(step.parent / os.readlink(step)))  # noqa: PTH115
        home = step.parent.parent
        if home != folder and str(home) not in {"/", "/usr"}:
            found[str(home)] = None
    return list(found)
