"""What is made for a candidate beside flags: patches to engine source and tables of tuned kernels, as frozen values.

Both are known by the digest of their content; a candidate names them by it, a recipe carries them whole.
"""

from __future__ import annotations

from typing import Literal

from day0.runs.values import Frozen, Map
from pydantic import Field


class Patch(Frozen):
    """One reviewed unit of change to engine source. Paths are relative to the engine's workspace folder."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9.-]{0,63}$", description="of the codemod, or of what it mends")
    title: str = Field(min_length=1, max_length=120, description="one line, as a commit would have it")
    author: str = Field(description="`codemod:NAME`, `llm` or `person`")
    build: str = Field(description="engine build whose source the diff was made against")
    diff: str = Field(description="unified, in git's format")
    before: Map[str] = Field(description="changed file -> sha256 of its text before; empty: the file is new")
    after: Map[str] = Field(description="changed file -> sha256 of its text after")
    why: str = Field(default="", description="the evidence line that asked for it; untrusted text")
    issue: str = Field(default="", description="known issue that it answers")
    upstream: str = Field(default="", description="where upstream stands, e.g. `sglang PR 30265`")
    gone: tuple[str, ...] = Field(default=(), description="log text that a boot with the patch must not print any more")

    @property
    def short(self) -> str:
        """The beginning of its digest, by which people name it."""
        return self.digest()[7:19]


class Table(Frozen):
    """Rows of tuned kernels for one engine build and one set of shapes."""

    kind: Literal["aiter-fmoe"] = "aiter-fmoe"
    build: str
    arch: str = Field(description="e.g. gfx950")
    variable: str = Field(description="environment variable that names the file to the engine")
    text: str = Field(description="the whole file: CSV with its header")
    rows: int = Field(ge=1)
    shapes: tuple[str, ...] = Field(description="what was untuned before, as the log or the model's facts say it")
    why: str = ""


class Worn(Frozen):
    """What a boot was proved to run with: its image, and the files of it that its patches and tables changed."""

    image: str = Field(description="ID of the overlay that the container was made from")
    files: Map[str] = Field(description="path in the workspace -> sha256, read back from the running container")
    loaded: tuple[str, ...] = Field(default=(), description="files that the server's own interpreter compiled and runs")


class Review(Frozen):
    """Where a patch stands with the people who review it."""

    run: str
    patch: Patch
    status: Literal["waiting", "approved", "rejected"] = "waiting"
    reason: str = ""


__all__ = ["Patch", "Review", "Table", "Worn"]
