"""What speaks for a patch, as people read it beside the diff: what was, what is, and how it is known."""

from __future__ import annotations

from day0.runs.values import Frozen
from pydantic import Field


class Row(Frozen):
    """One thing that was looked at without the patch and with it."""

    what: str
    before: str
    after: str


class Evidence(Frozen):
    """All that the ledger knows for a patch. Texts come from logs and are untrusted."""

    model: str = Field(description="checkpoint and revision")
    target: str
    simulated: bool = Field(description="every figure comes from a simulated node")
    attempts: tuple[str, ...] = Field(description="those that ran with the patch")
    rows: tuple[Row, ...]
    engaged: tuple[str, ...] = Field(default=(), description="log text that was there before and is gone with it")


__all__ = ["Evidence", "Row"]
