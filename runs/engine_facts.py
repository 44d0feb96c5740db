"""What is known of a model, an engine build and a node before and while a server runs."""

from __future__ import annotations

from functools import cached_property

from day0.runs.values import Frozen, Map
from day0.runs.workload import FlagValue
from pydantic import Field


class FlagSpec(Frozen):
    """One serving flag as the engine's own `--help` describes it."""

    name: str
    takes_value: bool
    choices: tuple[str, ...] = ()
    metavar: str = ""
    help: str = ""
    aliases: tuple[str, ...] = ()
    negatable: bool = Field(default=False, description="--no-NAME exists")
    kind: str = Field(default="", description="int, float, str or json, from the engine's own parser; empty = unknown")
    default: str | None = Field(default=None, description="as the engine's own parser prints it; None = unknown")
    many: bool = Field(default=False, description="takes one or more values, given here as one blank-separated text")


class EngineFacts(Frozen):
    """Taken once per engine build and kept in the ledger, so that admission needs no container."""

    engine: str
    build: str = Field(description="image digest or environment digest")
    version: str
    flags: tuple[FlagSpec, ...]
    packages: Map[str] = Field(default_factory=dict)
    capabilities: Map[str] = Field(default_factory=dict, description="e.g. `compiler: g++ 12.2.0`; absent = not there")

    def flag(self, name: str) -> FlagSpec | None:
        """The flag of that name or alias, without dashes."""
        return self.by_name.get(name)

    def of(self, build: str) -> EngineFacts:
        """As far as they tell of another build: pinned by its digest, it shows version and flags once it boots."""
        return self if build == self.build else self.model_copy(update={"build": build, "version": "unknown"})

    @cached_property
    def by_name(self) -> dict[str, FlagSpec]:
        """Every flag by its name and aliases; a name wins over an alias, an earlier alias over a later one."""
        found: dict[str, FlagSpec] = {}
        for spec in self.flags:
            for alias in spec.aliases:
                found.setdefault(alias, spec)
        return found | {spec.name: spec for spec in reversed(self.flags)}


class ModelFacts(Frozen):
    """Survey of a checkpoint; `None` = the files do not say. Sizes in bytes."""

    model: str
    revision: str
    architecture: str
    model_type: str = ""
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    context: int
    intermediate: int | None = None
    experts: int = 0
    experts_per_token: int = 0
    shared_experts: int = 0
    moe_intermediate: int | None = None
    dense_layers: int = 0
    kv_lora_rank: int | None = None
    q_lora_rank: int | None = None
    rope_head_dim: int | None = None
    nextn_layers: int = 0
    dtype: str = "bfloat16"
    quantization: str | None = None
    exclude: tuple[str, ...] = ()
    weight_bytes: int | None = None
    parameters: int | None = None
    tokenizer: str | None = None
    chat_template: bool = False
    warnings: tuple[str, ...] = ()


class NodeFacts(Frozen):
    """A node as pre-flight found it; recorded with every measurement. `None` = unknown, never "clean"."""

    name: str
    cpu: str = ""
    cores: int | None = None
    memory_bytes: int | None = None
    disk_free_bytes: int | None = None
    accelerator: str = "cpu"
    gpus: int = 0
    governor: str | None = None
    numa_balancing: bool | None = None
    kernel: str = ""
    boot_id: str = Field(default="", description="another one after each start of the machine; empty: unknown")
    problems: tuple[str, ...] = ()


class BootFacts(Frozen):
    """A server that became ready: what it really runs with."""

    ready_s: float
    version: str
    model_path: str
    resolved: Map[FlagValue | None] = Field(default_factory=dict)
    max_running_requests: int | None = Field(default=None, description="sum over replicas of the effective cap")
    replicas: int = Field(default=1, description="data-parallel ranks, each with a cache of its own")
    workers: tuple[str, ...] = Field(default=(), description="addresses of separate servers behind a router")
    kv_tokens: int | None = None
    differs: Map[str] = Field(default_factory=dict, description="asked flag -> what the engine resolved it to")
    fallback_lines: int = Field(default=0, description="kernel fallback or untuned-shape lines since launch")
