"""Images of the simulated node: the world's registry, downloads that take node time and may break, a full disk."""

from __future__ import annotations

import json
from pathlib import Path

from day0.runs.errors import DiskFull, Infrastructure, Refused
from day0.sandboxes import files
from day0.sandboxes.base import Clock
from day0.sandboxes.images import missing
from day0.sandboxes.twin.parts import Build
from day0.sandboxes.twin.world import World

ASK_S = 0.4
"""of a question to the registry"""
PIECES = 20
"""How many times a download is looked at: a cancellation or a lost node ends it there."""
BREAKS_AT = 0.6
UNPACKED = 3.0
"""An image on disk, by what is pulled of it."""


class TwinImages:
    """`file` in the node's folder remembers what was pulled and how many downloads broke."""

    def __init__(self, world: World, clock: Clock, file: Path) -> None:
        self._world, self._clock, self._file = world, clock, file
        self._digests = {build.digest(): build for build in world.builds}

    def resolve(self, name: str) -> str:
        """Asks the registry. Raises `Refused`, `Cancelled`, `NodeLost`."""
        self._clock.sleep(ASK_S)
        build = next((b for b in self._world.builds if b.name == name), None)
        if build is None or name not in self._world.tags:
            raise missing(name, self._world.tags)
        return build.digest()

    def has(self, digest: str) -> bool:
        """Whether it was there from the start or was pulled since."""
        build = self._digests.get(digest)
        return build is not None and self.there(build)

    def there(self, build: Build) -> bool:
        """Whether sandboxes can be made of it."""
        return build.present or build.name in self._kept()[0]

    def pull(self, digest: str) -> None:
        """Takes node time. Raises as the port says."""
        build = self._digests.get(digest)
        if build is None:
            raise Refused(f"no image {digest[:19]} is known here: resolve its tag first")
        if self.there(build):
            return
        need, node = build.image_gib * (1 + UNPACKED), self._world.node
        if need > node.disk_free_gib:
            raise DiskFull(f"{build.name} needs {need:.0f} GiB of disk; {node.disk_free_gib:.0f} GiB are free")
        pulled, broken = self._kept()
        breaks = broken < self._world.flaky_downloads
        for piece in range(PIECES):
            if breaks and piece >= BREAKS_AT * PIECES:
                self._keep(pulled, broken + 1)
                raise Infrastructure(f"the download of {build.name} broke: unexpected EOF after {piece}/{PIECES}")
            self._clock.sleep(build.image_gib / node.download_gib_s / PIECES)
        self._keep((*pulled, build.name), broken)

    def _kept(self) -> tuple[tuple[str, ...], int]:
        try:
            kept = json.loads(self._file.read_text(encoding="utf-8"))
            return tuple(kept["pulled"]), int(kept["broken"])
        except (OSError, ValueError, KeyError, TypeError):
            return (), 0

    def _keep(self, pulled: tuple[str, ...], broken: int) -> None:
        files.write(self._file, json.dumps({"pulled": pulled, "broken": broken}).encode())
