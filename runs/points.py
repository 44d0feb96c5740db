"""What a load point and the bracket of a boot say."""

from __future__ import annotations

from day0.runs.values import Frozen
from pydantic import Field


class Percentiles(Frozen):
    """A latency over the completed requests of a point, in ms, computed by day0 from per-request details."""

    mean: float
    p50: float
    p95: float
    p99: float


class LoadPoint(Frozen):
    """One load point: offered traffic and what came back. Throughputs are per whole node."""

    workload: str
    rate_rps: float | None = Field(description="offered requests/s; None = closed loop (saturation probe)")
    concurrency: int | None = None
    seed: int
    window_s: float
    offered: int
    completed: int
    failed: int
    output_tok_s: float
    total_tok_s: float
    uncached_tok_s: float | None = Field(default=None, description="uncached prefill tokens/s")
    ttft_ms: Percentiles | None = None
    tpot_ms: Percentiles | None = None
    itl_ms: Percentiles | None = None
    e2e_ms: Percentiles | None = None
    success_share: float
    cached_share: float | None = None
    acceptance_length: float | None = None
    duty: float | None = Field(default=None, description="output tok/s x mean TPOT = requests in decode")
    harness_cpu: float | None = Field(default=None, description="CPU share of the load generator's own core(s)")
    running_max: float | None = None
    queue_max: float | None = None
    kv_use_max: float | None = Field(default=None, description="fullest replica's share of KV tokens in use")
    plateau: str = Field(default="", description="what holds requests back: admission cap, kv cap, prefill-bound")
    steady: bool
    meets_slo: bool
    void: str | None = Field(default=None, description="why the point does not count at all")
    misses: tuple[str, ...] = Field(default=(), description="which limits were missed, in words")
    slow_share: float | None = Field(
        default=None, description="of fixed sums on the serving cores, those that took far longer than at their best"
    )
    short: bool = False
    text: str = Field(default="", description="where its prompts came from")
    temperature: float = Field(default=0.0, description="that answers were drawn at")
    forced_tokens: int | None = Field(
        default=None,
        description="output tokens that were written past an end of text; None: unknown",
    )
    answer_tokens: int | None = Field(default=None, description="output tokens of the same requests, all of them")
    smoke: bool = Field(default=False, description="random text: the figures compare with nothing")
    warmup: bool = Field(default=False, description="the first point of a boot, discarded")

    @property
    def forced_share(self) -> float | None:
        """Of the output tokens, those past an end of text; None = unknown."""
        return None if self.forced_tokens is None or not self.answer_tokens else self.forced_tokens / self.answer_tokens

    def beside(self) -> str:
        """What stands beside its figures: text, temperature, acceptance length, how much was forced past the end."""
        out = [self.text, f"T {self.temperature:g}"] if self.text else []
        if self.acceptance_length is not None:
            out.append(f"accepts {self.acceptance_length:.2f}")
        forced = self.forced_share
        out.append("forced past the end unknown" if forced is None else f"{forced:.0%} forced past the end")
        return ", ".join(out)


class Knee(Frozen):
    """The bracket of one boot: the highest rate that passed, the lowest that failed.

    `rate_rps` is the crossing interpolated inside the bracket on the binding limit; `goodput_tok_s` is the
    *measured* output tok/s of the highest passing point.
    """

    workload: str
    rate_rps: float
    goodput_tok_s: float
    passed_rps: float
    failed_rps: float | None = Field(description="None: every offered rate passed (the knee lies higher)")
    bound_by: str = ""
    short: bool = False
    low_rps: float | None = Field(default=None, description="the knee over arrival seeds: 90 % interval, lower end")
    high_rps: float | None = Field(default=None, description="its upper end; None: not bounded by what was measured")
    in_flight: float | None = Field(
        default=None, description="requests between send and end there, mean (Little's law)"
    )
    tpot_ms: float | None = Field(default=None, description="single stream only: median TPOT, what is compared there")

    def told(self) -> str:
        """The knee in requests/s with its interval over arrival seeds; without one, only what it is."""
        if self.low_rps is None and self.high_rps is None:
            return f"{self.rate_rps:.3g}"
        low, high = ("open" if side is None else f"{side:.3g}" for side in (self.low_rps, self.high_rps))
        return f"{self.rate_rps:.3g} ({low} to {high})"
