"""Targets of kind `docker`: the node, its images and what this machine lacks for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from day0.agent.nodes import LocalPool, NodePool
from day0.agent.overhead import Meter, metered
from day0.agent.parts import Environments
from day0.agent.settings import Settings
from day0.runs.errors import CandidateFailed, Infrastructure, Refused, UserError
from day0.runs.values import canonical_json, sha256
from day0.runs.workload import Target
from day0.sandboxes.base import Node
from day0.sandboxes.spec import CancelToken
from day0.tools import image

if TYPE_CHECKING:
    from day0.sandboxes.docker import DockerNode
    from day0.sandboxes.docker_engine import DockerEngine
    from day0.sandboxes.docker_options import Accelerators


def lacking(target: Target, settings: Settings) -> list[str]:
    """What a run on this target misses on this machine, one clause each; looks at all of it."""
    from day0.agent import compose

    found: list[str] = []
    try:
        _daemon().close()
    except Infrastructure as error:
        found.append(str(error))
    try:
        _accelerators(target)
    except Infrastructure as error:
        found.append(str(error))
    try:
        if target.engine_on == "host":
            compose.installed(settings, target.environment)
        else:
            _harness(settings)
    except UserError as error:
        found.append(str(error))
    return found


def ready(target: Target, settings: Settings) -> None:
    """Raises `Infrastructure` with all that is missing, `UserError` for a target without an image."""
    if not target.image:
        raise UserError(f"target `{target.name}` is of kind `docker` and names no `image`")
    if target.images and target.engine_on == "host":
        raise UserError(
            f"target `{target.name}`: `images` are for engines that are an image's own (`engine_on: image`)"
        )
    if missing := lacking(target, settings):
        raise Infrastructure(f"target `{target.name}` can't run on this machine: {'; '.join(missing)}")


def environments(target: Target, settings: Settings) -> Environments:
    """Engine images, by digest, and load generator of a target. Raises `Infrastructure`, `UserError`."""
    from day0.agent import compose
    from day0.tools.environments import checks_of, environment_digest, evals_of
    from day0.tools.hip_check import Checker

    ready(target, settings)
    node = make(settings, target, lambda: False)
    try:
        digest = node.images.resolve(target.image)
        if target.engine_on == "host":
            return _shown(node, compose.installed(settings, target.environment), digest)
        digests = {node.reference(found): found for found in (digest, *map(node.images.resolve, target.images))}
        reference = node.reference(digest)
    except Refused as refused:
        raise UserError(f"target `{target.name}`: {refused}") from None
    except CandidateFailed as failed:
        raise Infrastructure(f"target `{target.name}`: {failed.evidence}") from None
    finally:
        node.close()
    harness, build = _harness(settings)
    return Environments(
        engine=reference,
        engine_build=digest,
        harness=harness,
        harness_build=build,
        digest=lambda folder: digests.get(folder) or environment_digest(folder),
        images={found: name for name, found in digests.items() if found != digest},
        evals=evals_of(settings.home),
        checker=Checker.at(*checks_of(settings.home)),
        patchable=True,
        overlays=True,
    )


def show(settings: Settings, path: str) -> None:
    """Raises `UserError` where containers may not be shown a path of this host."""
    from day0.sandboxes.docker_options import Allowed

    try:
        Allowed(_folders(settings)).show(path)
    except (Refused, Infrastructure) as error:
        raise UserError(f"{error}; the setting `model_folders` names further folders") from None


def _shown(node: DockerNode, at: Environments, base: str) -> Environments:
    """An engine of this host as it runs in an image: another image is another build, with other compilers.

    Its sources are copied to where an image has them, so that an overlay can change them.
    """
    from day0.tools.image_workspace import of_host

    image.ready(node, base)
    engine = of_host(node, base, at.engine, at.digest, lambda name, log: None)

    def digest_of(folder: str) -> str:
        return sha256(canonical_json([base, at.digest(at.engine)])) if folder == engine else at.digest(folder)

    return replace(
        at, engine=engine, engine_build=digest_of(engine), digest=digest_of, patchable=True, overlays=True
    )  # fmt: skip


def pool(settings: Settings, meter: Meter, target: Target) -> NodePool:
    """This machine's daemon as the one node, under the lock of this machine: its cores are the same ones."""
    return LocalPool({"docker": partial(_metered, settings, meter, target)}, machine="local")


def _metered(settings: Settings, meter: Meter, target: Target, cancel: CancelToken) -> Node:
    return metered(make(settings, target, cancel), meter)


def make(settings: Settings, target: Target, cancel: CancelToken) -> DockerNode:
    """The node of a target. Sandboxes may be shown engines, models and the folders that the settings allow."""
    from day0.sandboxes.docker import DockerNode

    return DockerNode(
        "docker",
        settings.home / "nodes",
        engine=_daemon(),
        base=target.harness_image or target.image,
        allowed=_folders(settings),
        cancel=cancel,
        accelerators=_accelerators(target),
    )


def _folders(settings: Settings) -> tuple[Path, ...]:
    """Engines with the Pythons that they were made with, models, and what the user's settings add."""
    from day0.sandboxes.docker_images import interpreters
    from day0.tools.environments import engines_folder

    engines = engines_folder(settings.home)
    pythons = {place for folder in engines.glob("*/bin") for place in interpreters(folder.parent)}
    return (engines, settings.home / "models", *settings.model_folders, *map(Path, sorted(pythons)))


def sweep(settings: Settings) -> str:
    """Removes containers that dead runs of this home left, where it ever had any; what to tell, empty for nothing."""
    from day0.sandboxes.docker_janitor import sweep as remove

    def work(engine: DockerEngine, home: str) -> str:
        swept = remove(engine, home)
        return f"removed {len(swept.stopped)} containers of dead runs" if swept.stopped else ""

    return _cleared(settings, "containers of dead runs", work)


def prune(settings: Settings, keep: Iterable[str], before: float) -> str:
    """Removes images that this home built before a moment (Unix time), but for `keep`; what to tell of it."""
    from day0.sandboxes.docker_janitor import prune as remove

    def work(engine: DockerEngine, home: str) -> str:
        gone = remove(engine, home, keep, before)
        return f"removed {len(gone)} images that day0 built" if gone else ""

    return _cleared(settings, "images that day0 built", work)


def _cleared(settings: Settings, what: str, work: Callable[[DockerEngine, str], str]) -> str:
    """What `work` tells of this home's folder of containers; nothing where it has none, why not without a daemon."""
    folder = settings.home / "nodes" / "docker"
    if not folder.is_dir():
        return ""
    try:
        engine = _daemon()
    except Infrastructure as error:
        return f"{what}, if there are any, stay: {error}"
    try:
        return work(engine, str(folder.absolute()))
    finally:
        engine.close()


def _daemon() -> DockerEngine:
    from day0.sandboxes.docker_engine import DockerEngine

    return DockerEngine()


def _accelerators(target: Target) -> Accelerators | None:
    from day0.sandboxes.docker_options import of_this_node

    return of_this_node() if target.gpus else None


def _harness(settings: Settings) -> tuple[str, str]:
    """The load generator's folder and digest. Raises `UserError`."""
    from day0.tools.environments import HARNESS, MARKER, engines_folder, environment_digest

    folder = engines_folder(settings.home) / HARNESS
    if not (folder / MARKER).is_file():
        raise UserError("the load generator is not installed: run `day0 engine install harness` first")
    return str(folder), environment_digest(folder)
