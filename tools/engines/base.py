"""The port of a serving engine: how it is launched, known ready, asked, and read.

Adapters hold no state and start no process: they turn a candidate into an argument list and talk to a running
server through the client they are given. Errors: `check` raises `Refused`; methods that take a client raise httpx'
own errors where the server does not answer, and `CandidateFailed` where it answers something that can't be right.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import httpx
from day0.runs.candidate import Candidate
from day0.runs.engine_facts import BootFacts, EngineFacts, ModelFacts
from day0.runs.workload import Target
from day0.sandboxes.base import Sandbox


@dataclass(frozen=True)
class Launch:
    """A command line and what is added to the environment."""

    argv: tuple[str, ...]
    env: Mapping[str, str]


@dataclass(frozen=True)
class Counters:
    """A server's own counters since its start; `None` = this build does not say.

    Tokens and requests are totals over all replicas; `running` and `queued` are sums now; `kv_use` is the fullest
    replica's share, `acceptance_length` the mean accepted tokens per verification step. Token totals may grow only when
    requests end. TTFT in seconds, as the server saw it.
    `in_flight` are requests that wait for their end, as the front process counts them (it knows of them even where the
    scheduler is dead); `progress` is any number that changes whenever work is done, however small.
    """

    in_flight: float | None = None
    progress: float | None = None
    running: float | None = None
    queued: float | None = None
    generated_tokens: float | None = None
    prompt_tokens: float | None = None
    cached_tokens: float | None = None
    finished_requests: float | None = None
    kv_use: float | None = None
    acceptance_length: float | None = None
    ttft_sum_s: float | None = None
    ttft_count: float | None = None
    found: tuple[float, ...] = ()
    """prompt tokens that each data-parallel replica found in its cache; empty: it is not told apart"""


class Engine(Protocol):
    """One serving engine."""

    name: str
    caches: tuple[str, ...]
    """Names of writable caches that its compilers want; exported by the sandbox as DAY0_CACHE_<NAME>."""
    ready_line: bytes
    """Appears in the log when the engine believes to be ready: the moment to ask for a real generation."""
    fatal: bytes
    """Regular expression of log lines after which this engine never gets ready, though its process may stay."""
    fallback: bytes
    """Regular expression of log lines that tell of a slow path: counted, never a failure."""

    def take_facts(self, sandbox: Sandbox, build: str) -> EngineFacts:
        """Asks the build in the sandbox for its flags, version and packages.

        Raises `Infrastructure` when it can't answer (an engine that does not even start is not a candidate's fault).
        """
        ...

    def check(self, candidate: Candidate, facts: EngineFacts, model: ModelFacts | None = None) -> None:
        """Raises `Refused`: unknown flag (with the nearest names), value of the wrong type, banned flag or variable."""
        ...

    def check_target(self, target: Target, model: ModelFacts) -> None:
        """Raises `Refused` for a flag of a target's own that nobody may set: it fakes, or runs a checkpoint's code.

        Without the build's facts, so that it can be said when a run is asked for.
        """
        ...

    def launch(self, candidate: Candidate, facts: EngineFacts, *, host: str, port: int) -> Launch:
        """The command line. Equal candidates give equal lines but for host and port.

        Raises `Refused` for a flag that the build doesn't have or by which a checkpoint's own code would run.
        """
        ...

    def answers(self, http: httpx.Client, *, timeout_s: float = 60.0) -> str:
        """Has the server generate at least one token and returns the text. A health endpoint alone proves nothing."""
        ...

    def boot_facts(self, http: httpx.Client, candidate: Candidate, ready_s: float, fallback_lines: int) -> BootFacts:
        """What the server really runs with, read back from it."""
        ...

    def check_identity(self, candidate: Candidate, facts: EngineFacts, boot: BootFacts) -> None:
        """Raises `CandidateFailed(identity)` unless version, model and every asked flag are what the server reports.

        A flag that the engine is documented to resolve by itself may differ; `boot.differs` then says so.
        """
        ...

    def counters(self, http: httpx.Client, *, timeout_s: float = 5.0) -> Counters: ...
    def flush(self, http: httpx.Client) -> None:
        """Drops the prefix cache; the server must be idle."""
        ...
