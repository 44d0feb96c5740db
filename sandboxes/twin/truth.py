"""What is true of a world and cannot be read from outside: efficiencies, overheads, acceptance, noise."""

from __future__ import annotations

from typing import Literal

from day0.runs.values import Frozen, Map
from day0.sandboxes.twin.conditions import When
from pydantic import Field

Part = Literal[
    "layer", "step", "matrix", "memory", "cache", "reduce", "link", "experts", "prompt", "draft", "attention"
]
"""What a factor multiplies: time per layer, per step, of matrix work, of reading weights, of reading the KV cache, of
an all-reduce's latency and of its bytes, of expert work, of prompts' work, of drafting, of attention over pairs."""


class Effect(Frozen):
    """Factors on time while a condition holds; below 1 is faster."""

    name: str
    when: When
    time: Map[float] = Field(description="part -> factor")


class Speculation(Frozen):
    """The first draft token is accepted with `chance`, each further one, if all before it were, with `fade` of that.

    `spread` is the relative standard deviation between requests.
    """

    chance: float = Field(default=0.0, ge=0, lt=1)
    fade: float = Field(default=1.0, gt=0, le=1)
    spread: float = Field(default=0.05, ge=0, le=0.5)

    def accepted(self, drafts: int) -> float:
        """Mean tokens per verification: 1 + c + c (c f) + c (c f) (c f^2) ... over `drafts` draft tokens."""
        total = whole = 1.0
        for position in range(drafts):
            whole *= self.chance * self.fade**position
            total += whole
        return total


class Truth(Frozen):
    """Shares are of the accelerator's peaks; times in microseconds.

    `layer_us` is what a decode step spends per layer beside memory, matrices and exchange (launches, small kernels),
    `moe_us` what a layer of experts adds; `step_us` once per step; `reduce_us` the latency of one all-reduce per
    doubling of ranks; `prompt_us` once per layer and prefill batch; `row_us` per touched expert and layer (tiles that
    are not full). `draft` is one draft step as a share of a decode step's overhead for one layer, plus `draft_us`.
    `balance` is the share of a step that attention-parallel groups use when requests are not spread evenly.
    """

    prompt: float = Field(default=0.12, gt=0, le=1)
    attention: float = Field(default=0.2, gt=0, le=1)
    matrix: float = Field(default=0.15, gt=0, le=1)
    memory: float = Field(default=0.7, gt=0, le=1)
    cache: float = Field(default=0.4, gt=0, le=1)
    link: float = Field(default=0.5, gt=0, le=1)
    layer_us: float = Field(default=150.0, ge=0)
    moe_us: float = Field(default=30.0, ge=0)
    step_us: float = Field(default=1000.0, ge=0)
    reduce_us: float = Field(default=6.0, ge=0)
    prompt_us: float = Field(default=400.0, ge=0)
    row_us: float = Field(default=0.0, ge=0)
    draft: float = Field(default=1.5, ge=0)
    draft_us: float = Field(default=150.0, ge=0)
    balance: float = Field(default=0.85, gt=0, le=1)
    untuned: float = Field(default=1.0, ge=1, description="factor on expert work while no tuned row serves it")
    runtime_gib: float = Field(default=9.0, ge=0, description="per accelerator: graphs, activations, communication")
    weights: float = Field(default=1.0, gt=0, description="factor on the weights' computed bytes")
    speculation: Speculation = Speculation()
    effects: tuple[Effect, ...] = ()


class Noise(Frozen):
    """Relative standard deviations on time: of a boot, of a point on it, and of a slow wander over node time.

    With `drift` the same point at another hour is another number: a run that was interrupted, or spread over more
    nodes, then ends with other figures than one that was not.
    """

    boot: float = Field(default=0.006, ge=0, le=0.2)
    point: float = Field(default=0.004, ge=0, le=0.2)
    drift: float = Field(default=0.0, ge=0, le=0.2, description="of all the node does; what is an hour apart differs")
    burst: float = Field(default=0.0, ge=0, le=1, description="chance that a point is hit by a burst")
    burst_time: float = Field(default=1.3, ge=1, description="factor on time of a point that is hit")
