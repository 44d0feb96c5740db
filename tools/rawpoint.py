"""What a load point left behind, before anything is concluded from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from day0.runs.values import Frozen, canonical_json
from pydantic import Field

if TYPE_CHECKING:
    from day0.tools.columns import Columns


class Row(Frozen):
    """One request as the client saw it. Times in seconds from the start of the timed window, latencies in ms."""

    planned: float | None
    sent: float
    ttft_ms: float = Field(description="0 = no token came")
    itl_ms: tuple[float, ...] = Field(default=(), description="gaps between tokens, in order")
    latency_ms: float
    output_tokens: int
    asked_tokens: int = Field(description="prompt tokens by the harness' own tokenizer")
    prompt_tokens: int | None = Field(default=None, description="as the server counted; None = it does not say")
    cached_tokens: int | None = None
    forced_tokens: int | None = Field(default=None, description="of the output, past the first end-of-text token")
    hash: str = Field(default="", description="of the text that came")
    rank: int | None = Field(default=None, description="data-parallel replica that answered, if the server says")
    ok: bool
    error: str = ""


class Prime(Frozen):
    """A request that put a shared prefix in place, before the window."""

    prefix: int
    replica: int = Field(default=0, description="the data-parallel replica that it was sent to")
    rank: int | None = Field(default=None, description="the one that answered; None = the server does not say")
    cached_tokens: int | None = None
    error: str = ""


class Sample(Frozen):
    """The server's own counters at a moment (seconds from the window's start); None = it does not say."""

    at_s: float
    running: float | None = None
    queued: float | None = None
    kv_use: float | None = None
    generated_tokens: float | None = None
    prompt_tokens: float | None = None
    cached_tokens: float | None = None
    acceptance_length: float | None = None
    ttft_sum_s: float | None = None
    ttft_count: float | None = None
    jit_lines: int = Field(default=0, description="compile lines in the server's log since the last sample")


@dataclass(frozen=True)
class RawPoint:
    """Everything that was seen of a load point; also of one that was cut short (`cut` says why) or that was lost."""

    requests: Columns
    primes: tuple[Prime, ...] = ()
    samples: tuple[Sample, ...] = ()
    """first: before the load, last: after it"""
    cpu_share: float | None = None
    lag_p95_ms: float | None = None
    wall_s: float = 0.0
    cut: str = ""
    stopped: str = ""
    """why it was ended early: the limits were missed beyond rescue"""
    ended_s: float | None = None
    """when it ended, from the start of the window; None = before it was timed"""
    chat: bool | None = None
    """the prompts went through the model's chat template"""
    cache_on: bool = True
    """False: the candidate itself runs without a prefix cache"""
    primed: tuple[float, ...] = ()
    """prompt tokens that each data-parallel replica had found in its cache when the load began; empty: not told"""
    max_running: int | None = None
    """the server's admission cap over all replicas"""
    slow_share: float | None = None
    """of the sums timed on the serving cores, those far above their best (`day0.tools.pace`); None: unknown"""
    told: bytes = b""
    """the load generator's result as it wrote it"""

    def kept(self) -> bytes:
        """JSON for the artifact store: what the load generator told, word by word, and what day0 saw meanwhile."""
        seen = {
            "cache_on": self.cache_on,
            "cut": self.cut,
            "stopped": self.stopped,
            "max_running": self.max_running,
            "primed": list(self.primed),
            "slow_share": self.slow_share,
            "samples": [sample.model_dump(mode="json", exclude_defaults=True) for sample in self.samples],
        }
        return b'{"seen":' + canonical_json(seen).encode() + b',"told":' + (self.told or b"null") + b"}"
