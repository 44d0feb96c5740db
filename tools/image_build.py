"""Three ways to a candidate's image, cheapest first: the base as is, an overlay on it, a full build of the engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal, Protocol

from day0.runs.errors import CandidateFailed, DiskFull, Infrastructure, Refused
from day0.runs.facts import FailureClass
from day0.runs.values import Frozen
from day0.sandboxes.docker_build import Build, Built
from day0.tools import image_overlay
from day0.tools.image_overlay import Overlay

ROCM_DOCKERFILE = "docker/rocm.Dockerfile"
OVERLAY_S = 3600.0
"""Node seconds; sgl-kernel's own compilation is the longest step of an overlay."""
FULL_S = 6 * 3600.0
FULL_BYTES = 150 << 30
"""A ROCm image of 70 GiB, its build stages and aiter's prebuilt kernels."""
OVERLAY_BYTES = 4 << 30
TRIES = 2
"""A layer that vanished is built once more (S23); a step that failed is not."""
Keep = Callable[[str, bytes], None]
"""(name, bytes) of an artifact"""


class Builder(Protocol):
    """A node that can build images (`sandboxes/docker.py`)."""

    def build(self, order: Build, *, timeout_s: float) -> Built: ...
    def room(self, needed: int, what: str) -> None: ...
    def base(self, digest: str) -> str: ...
    def made(self, key: str) -> str: ...


class FullBuild(Frozen):
    """SGLang's own Dockerfile for ROCm: a checkout of it, and what its build arguments pin.

    `gpu_arch` selects the stage, such as `gfx950-rocm724`; empty commits leave the stage's own default.
    """

    checkout: str
    gpu_arch: str
    sglang: str = ""
    aiter: str = ""
    aiter_repo: str = ""
    local: bool = True
    """the checkout itself is built, with whatever patches it holds; else `sglang` is fetched by the Dockerfile"""

    def args(self) -> Mapping[str, str]:
        """The build arguments (docker/rocm.Dockerfile of SGLang 0.5.17)."""
        found = {"GPU_ARCH": self.gpu_arch, "BRANCH_TYPE": "local" if self.local else "remote"}
        if not self.local:
            if not self.sglang:
                raise Refused("a build from the engine's repository needs a commit: a branch is another one tomorrow")
            found["SGL_BRANCH"] = self.sglang
        if self.aiter:
            found["AITER_COMMIT"] = self.aiter
        if self.aiter_repo:
            found["AITER_REPO"] = self.aiter_repo
        return found


def overlaid(
    node: Builder, overlay: Overlay, contents: Mapping[str, bytes], folder: Path, keep: Keep, *, network: bool = False
) -> str:
    """The image of an overlay: its ID, or its base where nothing changes; one that was built before is found again.

    `folder` is for the build's files, on the node. Raises as `build`.
    """
    if not overlay.changes:
        return overlay.base
    key = overlay.content_digest(contents)
    if known := node.made(key):
        return known
    image_overlay.write(overlay, contents, folder, node.base(overlay.base))
    order = Build(folder, image_overlay.NAME, network="default" if network else "none", key=key)
    return build(node, order, keep, needed=OVERLAY_BYTES, timeout_s=OVERLAY_S)


def full(
    node: Builder,
    wanted: FullBuild,
    keep: Keep,
    *,
    needed: int = FULL_BYTES,
    network: Literal["none", "default", "host"] = "default",
) -> str:
    """An image of SGLang's own Dockerfile. Takes hours and fetches its sources.

    Raises as `build`; `Refused` where the checkout has no such file.
    """
    if not (Path(wanted.checkout) / ROCM_DOCKERFILE).is_file():
        raise Refused(f"{wanted.checkout} holds no {ROCM_DOCKERFILE}: name a checkout of SGLang")
    order = Build(Path(wanted.checkout), ROCM_DOCKERFILE, wanted.args(), network=network)
    return build(node, order, keep, needed=needed, timeout_s=FULL_S)


def build(node: Builder, order: Build, keep: Keep, *, needed: int, timeout_s: float) -> str:
    """Builds and returns the image's ID; every log is kept, failed or not.

    Raises `DiskFull` naming the size before anything begins; `CandidateFailed` naming step and line; `Infrastructure`
    where the node, not the Dockerfile, is to blame, twice.
    """
    node.room(needed, f"a build of {order.context}")
    for attempt in range(1, TRIES + 1):
        done = node.build(order, timeout_s=timeout_s)
        keep(f"build-{attempt}.log", done.log)
        if done.digest:
            return done.digest
        if done.full:
            raise DiskFull(f"no room was left while {order.context} was built: {_tail(done)}")
        if not done.vanished:
            break
        if attempt == TRIES:
            raise Infrastructure(
                f"the build of {order.context} broke {TRIES} times not by its own fault: {_tail(done)}"
            )
    evidence = done.failed.words() if done.failed else _tail(done)
    raise CandidateFailed(FailureClass.BAD_PATCH, f"the image was not built: {evidence}", log=done.log)


def _tail(done: Built) -> str:
    lines = [line for line in done.log.decode(errors="replace").splitlines() if line.strip(" -")]
    return lines[-1][:300] if lines else "it said nothing"
