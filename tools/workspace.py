"""The engine's source as it lies in a sandbox, read through the sandbox port."""

from __future__ import annotations

from day0.runs.errors import Refused
from day0.sandboxes.base import Sandbox
from day0.sandboxes.images import WORKSPACE
from day0.tools.codemods.base import Source

__all__ = ["WORKSPACE", "SandboxSource", "source_of"]

MAX_BYTES = 4 << 20
SEARCH_S = 120.0
LISTED_BYTES = 1 << 20


class SandboxSource:
    """Files below `/sgl-workspace`, to which paths in a patch are relative.

    Each is read once; what is changed there later is not seen.
    """

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._texts: dict[str, str | None] = {}

    def __call__(self, path: str, /) -> str | None:
        """The text of a file; None: absent, no text, larger than 4 MiB, or a sandbox without engine source."""
        if path not in self._texts:
            self._texts[path] = self._read(path)
        return self._texts[path]

    def _read(self, path: str) -> str | None:
        if path.startswith("/") or ".." in path.split("/"):
            return None
        try:
            data = self._sandbox.read(f"{WORKSPACE}/{path}", MAX_BYTES + 1)
        except (FileNotFoundError, Refused):
            return None
        try:
            return data.decode() if len(data) <= MAX_BYTES else None
        except UnicodeDecodeError:
            return None

    def holding(self, text: str, names: str) -> tuple[str, ...]:
        """By `grep` in the sandbox; empty where there is none. Raises `Timeout`, `Cancelled`, `NodeLost`."""
        argv = ["grep", "-rlF", f"--include={names}", "-e", text, WORKSPACE]
        process = self._sandbox.spawn(argv)
        try:
            if process.wait(SEARCH_S).code > 1:
                return ()
        finally:
            process.stop(1.0)
        lines = process.output(0, LISTED_BYTES).decode(errors="replace").splitlines()
        return tuple(sorted(line.removeprefix(f"{WORKSPACE}/") for line in lines if line.startswith(f"{WORKSPACE}/")))


def source_of(sandbox: Sandbox) -> Source:
    """The engine's source in a sandbox."""
    return SandboxSource(sandbox)
