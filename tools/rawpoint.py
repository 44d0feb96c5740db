"""What a load point left behind, before anything is concluded from it."""

from __future__ import annotations

from day0.runs.values import Frozen
from pydantic import Field


class Row(Frozen):
    """One request as the client saw it. Times in seconds from the start of the timed window, latencies in ms."""

    planned: float | None
    sent: float
    ttft_ms: float = Field(description="0 = no token came")
    itl_ms: tuple[float, ...] = ()
    latency_ms: float
    output_tokens: int
    asked_tokens: int = Field(description="prompt tokens by the harness' own tokenizer")
    prompt_tokens: int | None = Field(default=None, description="as the server counted; None = it does not say")
    cached_tokens: int | None = None
    hash: str = Field(default="", description="of the text that came")
    ok: bool
    error: str = ""

    @property
    def first_s(self) -> float:
        """When its first token came."""
        return self.sent + self.ttft_ms / 1e3

    @property
    def ended_s(self) -> float:
        """When it ended, or when its last token came."""
        return self.sent + max(self.latency_ms, self.ttft_ms + sum(self.itl_ms)) / 1e3

    @property
    def tpot_ms(self) -> float | None:
        """(latency - TTFT) / (output tokens - 1); None with a single token."""
        return (self.latency_ms - self.ttft_ms) / (self.output_tokens - 1) if self.output_tokens > 1 else None

    def tokens_within(self, start: float, end: float) -> int:
        """Output tokens delivered in [start, end)."""
        if self.ttft_ms <= 0:
            return 0
        at, count = self.first_s, 0
        for gap in (0.0, *self.itl_ms):
            at += gap / 1e3
            count += start <= at < end
        return count


class Prime(Frozen):
    """A request that put a shared prefix in place, before the window."""

    prefix: int
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


class RawPoint(Frozen):
    """Everything that was seen of a load point; also of one that was cut short (`cut` says why)."""

    rows: tuple[Row, ...]
    primes: tuple[Prime, ...] = ()
    samples: tuple[Sample, ...] = Field(default=(), description="first: before the load, last: after it")
    cpu_share: float | None = None
    lag_p95_ms: float | None = None
    wall_s: float = 0.0
    cut: str = ""
    chat: bool | None = Field(default=None, description="the prompts went through the model's chat template")
    cache_on: bool = Field(default=True, description="False: the candidate itself runs without a prefix cache")
    max_running: int | None = Field(default=None, description="the server's admission cap over all replicas")
