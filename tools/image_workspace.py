"""An engine that lies on this host as an image with its sources in the workspace, as an engine's own images have them.

The environment stays on the host and is shown read-only; only the engine's package, some 200 MB of 2.6 GB, is copied to
where it can be overlaid, and comes first on Python's path. So a patch means the same files here and on a real node.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from day0.runs.errors import Infrastructure
from day0.runs.values import canonical_json, sha256
from day0.sandboxes.docker_build import Build
from day0.sandboxes.docker_images import SHOWS
from day0.tools.image_build import Builder, Keep, build
from day0.tools.image_overlay import SGLANG

BYTES = 1 << 30
TIMEOUT_S = 900.0
TEXT = """FROM {base}
COPY --chown={owner} . {sglang}/python/sglang
ENV PYTHONPATH={sglang}/python
LABEL {shows}={folder}
WORKDIR /
"""
"""Compiled files come along, so that a boot does not compile; the owner is who runs in containers, so that what Python
compiles of a patched file is kept, which proves that it was loaded."""


def of_host(node: Builder, base: str, folder: str, digest: Callable[[str], str], keep: Keep) -> str:
    """The image, by its ID, of the environment in `folder` over the image `base`; built once for each state of both.

    Raises `Infrastructure` where there is no engine in the folder or no client to build with; as `image_build.build`.
    """
    key = sha256(canonical_json([base, folder, digest(folder)]))
    if known := node.made(key):
        return known
    package = next(Path(folder).glob("lib/python3*/site-packages/sglang"), None)
    if package is None:
        raise Infrastructure(f"{folder} holds no package of the engine: install it again")
    owner = f"{os.geteuid()}:{os.getegid()}"
    text = TEXT.format(base=node.base(base), owner=owner, sglang=SGLANG, shows=SHOWS, folder=folder)
    with TemporaryDirectory(prefix="day0-image-") as place:
        dockerfile = Path(place, "Dockerfile")
        dockerfile.write_text(text)
        order = Build(package, str(dockerfile), key=key)
        return build(node, order, keep, needed=BYTES, timeout_s=TIMEOUT_S)


__all__ = ["of_host"]
