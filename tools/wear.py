"""A candidate's patches and tables as an image over its engine's, and the proof that its server runs with them.

What the files must be is derived anew from the base image for each boot; what they are is read back from the running
container by the daemon, before the server starts. After its first answer the server's interpreter must have compiled
them: a file that is there and that nobody imports has no effect (S44).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

from day0.runs.errors import CandidateFailed, Infrastructure, Refused
from day0.runs.facts import FailureClass
from day0.runs.patches import Patch, Table, Worn
from day0.runs.values import Frozen, Map, sha256
from day0.sandboxes.base import Node, Sandbox
from day0.sandboxes.spec import SandboxSpec
from day0.tools import image_build, image_overlay
from day0.tools.image_build import Builder, Keep
from day0.tools.patch import applied, laid
from day0.tools.programs import source as program
from day0.tools.serve import Prepare
from day0.tools.workspace import WORKSPACE, source_of

PACKAGES = {"sglang": "sglang/python/sglang", "aiter": "aiter/aiter"}
"""Python package -> its folder in the workspace."""
PROGRAM = "where_loaded"
ASK_S = 60.0
MAX_BYTES = 64 << 20


class Tailored(Frozen):
    """An overlay that is on the node: its image, what its files must be (sha256), and what the launch must be told."""

    image: str
    files: Map[str]
    env: Map[str]
    patches: tuple[tuple[str, tuple[str, ...]], ...]
    """(name, its files) of each patch"""


def tailored(  # noqa: PLR0917 (candidate and boot)
    node: Node, spec: SandboxSpec, patches: Sequence[Patch], tables: Sequence[Table], env: Mapping[str, str], keep: Keep
) -> Tailored:
    """The image of `spec`'s environment with patches and tables over it, built where it is not here yet.

    `env` is what the launch has already. Raises `CandidateFailed` (bad_patch): a patch that does not apply, an image
    that can't be built, a change of which nobody knows what it needs; `Infrastructure`, `DiskFull`.
    """
    with node.open(spec) as sandbox:
        texts = applied(patches, source_of(sandbox)) if patches else {}
    files, added = laid(tables, env)
    contents = {f"{WORKSPACE}/{path}": text.encode() for path, text in {**texts, **files}.items()}
    try:
        overlay = image_overlay.of_files(spec.environment, contents)
    except Refused as refused:
        raise CandidateFailed(FailureClass.BAD_PATCH, refused.reason) from refused
    with TemporaryDirectory(prefix="day0-overlay-") as folder:
        image = image_build.overlaid(cast(Builder, node), overlay, contents, Path(folder), keep)
    return Tailored(
        image=image,
        files={path: sha256(data) for path, data in contents.items()},
        env=added,
        patches=tuple((patch.name, tuple(sorted(patch.after))) for patch in patches),
    )


def fitting(made: Tailored) -> Prepare:
    """What looks at a server's sandbox before its launch.

    Raises `Infrastructure` where a file of the container is not the overlay's, `CandidateFailed` (bad_patch) where the
    interpreter would take the package from elsewhere.
    """

    def prepare(sandbox: Sandbox) -> Mapping[str, str]:
        for path, digest in made.files.items():
            if found_in(sandbox, path) != digest:
                raise Infrastructure(f"{path} in the running container is not what its image was built from")
        for name, place in asked(sandbox, made)[0].items():
            if place != f"{WORKSPACE}/{PACKAGES[name]}":
                why = f"the server would import {name} from {place or 'nowhere'}: a patch in {WORKSPACE} has no effect"
                raise CandidateFailed(FailureClass.BAD_PATCH, why)
        return made.env

    return prepare


def worn(sandbox: Sandbox, made: Tailored) -> Worn:
    """What a server that answered wears. Raises `CandidateFailed` (bad_patch) where nothing of a patch was loaded."""
    _, kept, loaded = asked(sandbox, made)
    for name, paths in made.patches:
        own = {f"{WORKSPACE}/{path}" for path in paths if path.endswith(".py")}
        if own and own <= set(kept) and not own & set(loaded):
            reason = f"patch {name} had no effect: the server answered without loading {', '.join(sorted(own))}"
            raise CandidateFailed(FailureClass.BAD_PATCH, reason)
    files = {path: found_in(sandbox, path) for path in made.files}
    return Worn(image=made.image, files=files, loaded=tuple(loaded))


def found_in(sandbox: Sandbox, path: str) -> str:
    """The sha256 of a file as the sandbox has it; empty: it is not there."""
    try:
        return sha256(sandbox.read(path, MAX_BYTES))
    except (FileNotFoundError, Refused):
        return ""


def asked(sandbox: Sandbox, made: Tailored) -> tuple[dict[str, str], list[str], list[str]]:
    """What the environment's Python says of the patched Python files, as `programs/where_loaded` names it."""
    named = [(name, path) for path in made.files if path.endswith(".py") for name in PACKAGES if _in(path, name)]
    if not named:
        return {}, [], []
    sandbox.write(f"{PROGRAM}.py", program(PROGRAM))
    process = sandbox.spawn(["python", f"{PROGRAM}.py", *(f"{name}={path}" for name, path in named)])
    try:
        code, said = process.wait(ASK_S).code, process.output(0, 1 << 20)
    finally:
        process.stop(1.0)
    try:
        told = json.loads(said.splitlines()[-1] if code == 0 else b"{}")
        return dict(told["imports"]), list(told["kept"]), list(told["loaded"])
    except (ValueError, KeyError, TypeError, IndexError):
        reason = f"the engine's Python can't say what it imports: {said[-300:].decode(errors='replace').strip()}"
        raise CandidateFailed(FailureClass.BAD_PATCH, reason) from None


def _in(path: str, name: str) -> bool:
    return path.startswith(f"{WORKSPACE}/{PACKAGES[name]}/")


__all__ = ["Tailored", "asked", "fitting", "found_in", "tailored", "worn"]
