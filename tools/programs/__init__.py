"""Programs that run inside an engine's environment, never in day0's process: they are written into a sandbox."""

from __future__ import annotations

from importlib.resources import files


def source(name: str) -> bytes:
    """The text of a shipped program, `name` without `.py`."""
    return files(__name__).joinpath(f"{name}.py").read_bytes()
