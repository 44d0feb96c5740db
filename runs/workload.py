"""What traffic a run optimises for, and on which class of node."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from day0.runs.values import Frozen, Map
from pydantic import Field, ValidationInfo, field_validator

FlagValue = bool | int | float | str


class Slo(Frozen):
    """Limits a load point must hold. `None` means: not limited."""

    ttft_ms: float | None = Field(default=None, gt=0)
    ttft_percentile: Literal[50, 95, 99] = 95
    tpot_ms: float | None = Field(default=None, gt=0)
    tpot_percentile: Literal[50, 95, 99] = 50
    success_share: float = Field(default=0.99, gt=0, le=1)


class Workload(Frozen):
    """Lengths, arrival, cache-hit share and SLO of the traffic (document `day0/workload/v1`, `docs/workloads.md`).

    A trace's lengths, shares and digest come from its file, when the document is read (`documents.workload`); then
    `input_tokens`, `output_tokens` and `cached_share` are means.
    """

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9.-]{0,63}$")
    summary: str = ""
    input_tokens: int = Field(ge=1)
    output_tokens: int = Field(ge=1)
    arrival: Literal["poisson", "closed_loop", "single_stream", "trace"] = "poisson"
    concurrency: int | None = Field(default=None, ge=1, description="closed_loop: clients that ask again at once")
    prefixes: int = Field(default=1, ge=1, description="number of distinct shared prefixes")
    cached_share: float = Field(default=0.0, ge=0, lt=1, description="share of the input that is a shared prefix")
    text: Literal["prose", "code", "sums", "trace", "random"] = "prose"
    temperature: float = Field(default=0.0, ge=0)
    top_p: float = Field(default=1.0, gt=0, le=1)
    duration_s: float | None = Field(default=None, gt=0, description="shortest timed window; the target may ask more")
    trace: str = Field(default="", description="trace: file of JSON lines, relative to the document's folder")
    trace_digest: str = Field(default="", description="of that file, once it was read")
    longest_tokens: int | None = Field(default=None, description="trace: tokens of its longest request, both ways")
    slo: Slo = Slo()

    @field_validator("concurrency")
    @classmethod
    def _clients(cls, value: int | None, info: ValidationInfo) -> int | None:
        if info.data.get("arrival") == "closed_loop" and value is None:
            raise ValueError("arrival `closed_loop` needs it: how many clients ask")
        if info.data.get("arrival", "closed_loop") != "closed_loop" and value is not None:
            raise ValueError("only arrival `closed_loop` has it")
        return value

    @field_validator("text")
    @classmethod
    def _source(cls, value: str, info: ValidationInfo) -> str:
        if value == "trace" and info.data.get("arrival", "trace") != "trace":
            raise ValueError("only arrival `trace` brings text of its own")
        return value

    @field_validator("trace")
    @classmethod
    def _file(cls, value: str, info: ValidationInfo) -> str:
        if bool(value) != (info.data.get("arrival", "trace" if value else "") == "trace"):
            raise ValueError("only arrival `trace` has it" if value else "arrival `trace` needs it: the file")
        return value

    @property
    def clients(self) -> int | None:
        """How many clients ask again at once; None: requests come at a rate, and there is a knee to look for."""
        return 1 if self.arrival == "single_stream" else self.concurrency

    @property
    def context_tokens(self) -> int:
        """Tokens of its longest request, prompt and answer."""
        return self.longest_tokens or self.input_tokens + self.output_tokens

    @property
    def smoke(self) -> bool:
        """Random text: it shows that something runs, and its figures compare with nothing."""
        return self.text == "random"


class MeasureRules(Frozen):
    """How long a number must be watched before it counts; belongs to the target.

    `min_requests` and `p95_multiples` set the steady window of a point: max(point_s, min_requests / rate,
    p95_multiples x p95 e2e). `short` labels figures measured below the minima of `mi355x`.
    """

    point_s: float = Field(gt=0)
    min_requests: int = Field(ge=1)
    p95_multiples: float = Field(ge=0)
    max_points: int = Field(ge=2, description="load points per boot, the discarded first one not counted")
    max_pairs: int = Field(ge=2)
    challengers: int = Field(
        default=0,
        ge=0,
        description="candidates that are compared with the baseline in pairs; 0: as many as can be paid",
    )
    stability_s: float = Field(ge=0)
    floor_boots: int = Field(
        default=0, ge=0, description="further boots of the baseline before the search, for the noise floor; 0: none"
    )
    ablations: int = Field(
        default=0, ge=0, description="changes of a winner taken away one by one, a boot each, while the budget lasts"
    )
    short: bool = False


class Target(Frozen):
    """A class of node and how it is reached (document `day0/target/v1`)."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9.-]{0,63}$")
    kind: Literal["local", "docker", "twin"]
    accelerator: str = Field(description="key of the hardware table, `cpu` for none")
    gpus: int = Field(default=0, ge=0)
    engine: str = "sglang"
    base_flags: Map[FlagValue] = Field(default_factory=dict, description="without these nothing boots here")
    base_env: Map[str] = Field(default_factory=dict)
    server_cores: tuple[int, ...] = ()
    harness_cores: tuple[int, ...] = ()
    stall_s: float = Field(description="node seconds without progress after ready before a server counts as hung")
    boot_stall_s: float = Field(description="node seconds without any progress while booting")
    boot_cap_s: float = Field(description="hard cap of a boot, node seconds")
    stop_grace_s: float = Field(default=15.0, gt=0, description="node seconds from SIGTERM to SIGKILL of a server")
    measure: MeasureRules
    max_attempts: int | None = Field(default=None, ge=1, description="cap of candidates beyond the baseline")
    workload: str = Field(description="default workload of this target")
    environment: str = Field(
        default="",
        description="an engine of this machine, named by `day0 engine use`; empty: the one that day0 installed",
    )
    image: str = Field(
        default="", description="kind docker: the image by tag or digest; it is resolved before anything is planned"
    )
    images: tuple[str, ...] = Field(
        default=(),
        description="kind docker: further engine images (other ROCm and aiter pins) that the search may try",
    )
    harness_image: str = Field(
        default="", description="kind docker: the image that the load generator is shown in; empty: `image`"
    )
    engine_on: Literal["image", "host"] = Field(
        default="image",
        description="kind docker: the engine is the image's own, or this machine's (`environment`), shown in the image",
    )
    world: str = Field(default="", description="kind twin: name or file of the simulated world; empty: the model's own")
    world_digest: str = Field(default="", description="kind twin: digest of that world's content, once it is chosen")
    baseline_label: str = "the engine's defaults"


class Objective(StrEnum):
    """What is maximised."""

    GOODPUT = "goodput"
    USD_PER_MTOK = "usd_per_mtok"
    SINGLE_STREAM = "single_stream"
