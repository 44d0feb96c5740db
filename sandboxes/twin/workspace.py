"""The folder of engine source of a simulated image: what a path below /sgl-workspace means in a sandbox, and `grep`."""

from __future__ import annotations

import argparse
from collections.abc import Generator, Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import NoReturn

from day0.sandboxes.scripted import ScriptedSandbox
from day0.sandboxes.simulated.machine import Context
from day0.sandboxes.simulated.steps import Exit, Out, Step, Wait
from day0.sandboxes.twin.realsource import RealSource
from day0.sandboxes.twin.site import FILE_BYTES, WORKSPACE, Site

ROOT = f"/{WORKSPACE}"
GREP_S = 0.4
Steps = Generator[Step, object, None]


def placed(folder: str | Path, path: str) -> str:
    """A path as processes in `folder` mean it: the image's workspace lies in the sandbox' own folder."""
    if path != ROOT and not path.startswith(f"{ROOT}/"):
        return path
    return str(Path(folder, WORKSPACE, path.removeprefix(ROOT).lstrip("/")))


class WorkspaceSandbox(ScriptedSandbox):
    """A sandbox in which /sgl-workspace is there to read and write; each has its own copy."""

    def read(self, path: str, max_bytes: int) -> bytes:
        """Raises `FileNotFoundError`, `Refused`."""
        try:
            return super().read(placed(self.root, path), max_bytes)
        except FileNotFoundError:
            site: Site | None = getattr(self._node, "site", None)
            build = next((b for b in site.world.builds if b.name == self.spec.environment), None) if site else None
            real = site.real(build) if site and build else None
            inner = path.removeprefix(f"{ROOT}/")
            if real is None or inner not in real:
                raise
            return real[inner].encode()[:max_bytes]

    def write(self, path: str, data: bytes) -> None:
        """Raises `DiskFull`, `Refused`."""
        super().write(placed(self.root, path), data)


class _Usage(Exception):
    """A command line that grep refuses."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise _Usage(message)


def grep(site: Site, ctx: Context) -> Steps:
    """`grep -rlF --include=GLOB -e TEXT PATH...`: the files below the paths that contain the text."""
    parser = _Parser(prog="grep", add_help=False, exit_on_error=False)
    for flag in ("-r", "-l", "-F"):
        parser.add_argument(flag, action="store_true")
    parser.add_argument("--include", default="*")
    parser.add_argument("-e", dest="text", required=True)
    parser.add_argument("paths", nargs="*")
    yield Wait(GREP_S, cpu=1.0)
    try:
        asked = parser.parse_args(list(ctx.argv[1:]))
    except _Usage as error:
        yield Out(f"grep: {error}\n".encode())
        yield Exit(2)
        return
    if not (asked.r and asked.l and asked.F):
        yield Out(b"grep: this node's grep knows -rlF alone\n")
        yield Exit(2)
        return
    real = site.real(site.build_of(ctx.env))
    found = [name for path in asked.paths for name in _holding(ctx, path, asked.text, asked.include, real)]
    yield Out("".join(f"{name}\n" for name in found).encode())
    yield Exit(0 if found else 1)


def _holding(ctx: Context, path: str, text: str, names: str, real: RealSource | None) -> Iterator[str]:
    top = Path(ctx.folder, placed(ctx.folder, path))
    if real is not None and path.startswith(ROOT):
        below = path.removeprefix(ROOT).strip("/")
        for name in real.holding(text, names, f"{below}/" if below else ""):
            if not Path(ctx.folder, WORKSPACE, name).exists():
                yield f"{ROOT}/{name}"
    for file in sorted(top.rglob("*")):
        if file.is_file() and not file.is_symlink() and fnmatch(file.name, names):
            with file.open("rb") as opened:
                if text.encode() in opened.read(FILE_BYTES):
                    yield f"{path.rstrip('/')}/{file.relative_to(top).as_posix()}"
