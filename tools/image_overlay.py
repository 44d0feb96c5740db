"""A candidate's image as a thin layer over an official one: which files change, and what each kind of change needs.

An SGLang image for ROCm holds engine and kernel library as editable checkouts below /sgl-workspace, so that most
changes take effect by the file alone; the others need exactly one thing more (SGLang's docker/rocm.Dockerfile, and
aiter's loader of just-in-time modules). A full build takes hours, an overlay seconds.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from day0.runs.errors import Refused
from day0.runs.values import Frozen, canonical_json, sha256
from day0.sandboxes.images import WORKSPACE

SGLANG, AITER = f"{WORKSPACE}/sglang", f"{WORKSPACE}/aiter"
TABLES = f"{WORKSPACE}/day0"
"""Where day0's own tuned tables lie, beside the image's."""
NAME = "overlay.Dockerfile"
_MODULE = re.compile(r"[A-Za-z0-9_]+\Z")
_DIGEST = re.compile(r"(?:[a-z0-9][a-z0-9._/:-]*@)?sha256:[0-9a-f]{64}\Z")


class Change(Frozen):
    """A file as it must be in the image: its path there, and where it is read from."""

    path: str
    source: str
    modules: tuple[str, ...] = ()
    """aiter's compiled modules that are made from this file"""
    names_unbuilt_kernels: bool = False
    """a tuned table whose rows name Composable Kernel instances that the image did not build"""


class Overlay(Frozen):
    """An image to be made: its base by digest, its files, and what has to be redone in it."""

    base: str
    changes: tuple[Change, ...]

    def content_digest(self, contents: Mapping[str, bytes]) -> str:
        """What this overlay is, before it is built: base, paths and contents (by `Change.source`)."""
        return sha256(canonical_json([self.base, sorted((c.path, sha256(contents[c.source])) for c in self.changes)]))


class Rebuild(Frozen):
    """What a change needs besides its file: shell steps of the image, variables of its first boot."""

    steps: tuple[tuple[str, ...], ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    why: str = ""


def rebuild(change: Change) -> Rebuild:
    """The rebuild that one change needs. Raises `Refused` for a file outside of engine and kernel library."""
    path, (root, inside) = change.path, _place(change.path)
    if path.endswith(".csv"):
        stale = ("rm", "-rf", "/tmp/aiter_configs")
        env = (("AITER_REBUILD", "1"),) if change.names_unbuilt_kernels else ()
        return Rebuild(steps=(stale,), env=env, why="merged tables are made again at the next start")
    if path.endswith(".py"):
        return Rebuild(why="an editable checkout: the file is what runs")
    if root == SGLANG and re.search(r"(^|/)(jit_kernel|kernels/jit)/", inside):
        return Rebuild(steps=(("rm", "-rf", "/root/.cache/tvm-ffi"),), why="compiled when it is first used")
    if root == SGLANG and re.search(r"(^|/)(sgl-kernel|kernels/aot)/", inside):
        place = f"{SGLANG}/{inside[: re.search(r'(sgl-kernel|kernels/aot)/', inside).end()]}"  # type: ignore[union-attr]
        return Rebuild(steps=(("cd", place), ("python3", "setup_rocm.py", "install")), why="compiled ahead of time")
    if root == AITER:
        modules = [module for module in change.modules if _MODULE.match(module)]
        if len(modules) != len(change.modules):
            raise Refused(f"{change.modules} are no names of modules")
        gone = [("rm", "-rf", f"{AITER}/aiter/jit/{m}.so", f"{AITER}/aiter/jit/build/{m}") for m in modules]
        return Rebuild(steps=tuple(gone), env=() if modules else (("AITER_REBUILD", "1"),), why="compiled at first use")
    raise Refused(f"nobody knows what a change of {path} needs")


def dockerfile(overlay: Overlay, files: Mapping[str, str], base: str) -> str:
    """The text that builds it; `files`: a change's path -> its name in the build's folder; `base`: what FROM takes."""
    if not _DIGEST.match(overlay.base):
        raise Refused(f"the base {overlay.base[:100]!r} is no digest: a tag may stand for something else tomorrow")
    lines = [f"FROM {base}"]
    lines += [f"COPY --chown=0:0 {_quoted(files[c.path], c.path)}" for c in sorted(overlay.changes, key=_by_path)]
    steps: dict[str, None] = {}
    env: dict[str, str] = {}
    for change in sorted(overlay.changes, key=_by_path):
        needed = rebuild(change)
        if needed.steps:
            steps[" && ".join(" ".join(step) for step in needed.steps)] = None
        env |= dict(needed.env)
    lines += [f"RUN {step}" for step in steps]
    lines += [f"ENV {name}={value}" for name, value in sorted(env.items())]
    # never start in the workspace: its folders would be imported in place of the packages
    return "\n".join([*lines, "WORKDIR /", ""])


def write(overlay: Overlay, contents: Mapping[str, bytes], folder: Path, base: str) -> Path:
    """The build's folder: one file per change and the Dockerfile. Raises `OSError`, `Refused`."""
    folder.mkdir(parents=True, exist_ok=True)
    names: dict[str, str] = {}
    for number, change in enumerate(sorted(overlay.changes, key=_by_path)):
        names[change.path] = f"{number:04d}"
        (folder / names[change.path]).write_bytes(contents[change.source])
    (folder / NAME).write_text(dockerfile(overlay, names, base))
    return folder


def of_files(base: str, paths: Iterable[str]) -> Overlay:
    """An overlay whose files are read by their own path. Raises `Refused` for what it can't hold."""
    overlay = Overlay(base=base, changes=tuple(Change(path=path, source=path) for path in sorted(set(paths))))
    for change in overlay.changes:
        rebuild(change)
    return overlay


def _by_path(change: Change) -> str:
    return change.path


def _place(path: str) -> tuple[str, str]:
    if posixpath.normpath(path) != path or any(c in path for c in "\"'\\$\n\r\0"):
        raise Refused(f"{path!r} is no plain path")
    for root in (SGLANG, AITER, TABLES):
        if path.startswith(f"{root}/") and ".git" not in path.split("/"):
            return root, path.removeprefix(f"{root}/")
    raise Refused(f"{path} lies outside of the engine and its kernel library")


def _quoted(source: str, target: str) -> str:
    return f'["{source}", "{target}"]'
