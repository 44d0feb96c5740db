"""All that decides how a server runs."""

from __future__ import annotations

from day0.runs.values import Frozen, Map
from day0.runs.workload import FlagValue
from pydantic import Field


class Candidate(Frozen):
    """One configuration. Its identity is `digest()`, the sha256 of its canonical JSON.

    `flags` are names without dashes in front (`tp-size`); `True` stands for a switch that is given, `False`
    for one that is given in its negative form, an absent key for the engine's default. Values are checked
    against the engine's own `--help` before anything is started.
    """

    engine: str = Field(description="adapter: sglang, vllm, atom")
    build: str = Field(description="image digest or, where no image is used, the digest of the engine environment")
    model: str
    revision: str = Field(description="hub commit or content hash of a model folder")
    flags: Map[FlagValue] = Field(default_factory=dict)
    env: Map[str] = Field(default_factory=dict)
    patches: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()

    def changed(self, other: Candidate) -> dict[str, tuple[object, object]]:
        """What differs from `other`: key -> (other's value, own value); `None` is an absent key."""
        out: dict[str, tuple[object, object]] = {}
        for field in ("engine", "build", "model", "revision", "patches", "tables"):
            if getattr(self, field) != getattr(other, field):
                out[field] = (getattr(other, field), getattr(self, field))
        for field in ("flags", "env"):
            mine, theirs = getattr(self, field), getattr(other, field)
            for key in sorted({*mine, *theirs}):
                if mine.get(key) != theirs.get(key):
                    out[("--" if field == "flags" else "") + key] = (theirs.get(key), mine.get(key))
        return out

    @property
    def gpus_held(self) -> int:
        """Accelerators that this candidate occupies: dp x tp x pp (attention DP adds none)."""
        flags = self.flags
        return int(flags.get("tp-size", 1)) * int(flags.get("dp-size", 1)) * int(flags.get("pp-size", 1))
