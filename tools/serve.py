"""A running server: launched, watched, known ready by a real generation, known to be what was asked, and stopped.

Watching is a polling loop on the node's clock. A health endpoint, a ready line and an open port prove nothing (S20):
a server is ready when it has written tokens. While load runs, whoever drives it calls `Server.alive`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import httpx
from day0.runs.candidate import Candidate
from day0.runs.engine_facts import BootFacts, EngineFacts
from day0.runs.errors import CandidateFailed
from day0.runs.workload import Target
from day0.sandboxes.base import Clock, Node, Process, Sandbox
from day0.sandboxes.spec import Exit, SandboxSpec
from day0.sandboxes.watch import Limits, Liveness
from day0.tools import locks
from day0.tools.deaths import LOG_BYTES, PortTaken, failure, hung, read_log
from day0.tools.diagnose import count_lines
from day0.tools.engines.base import Counters, Engine, Launch

HOST = "127.0.0.1"
POLL_S, LONGEST_POLL_S = 0.25, 5.0
POLL_SHARE = 0.015
"""Of the time a boot took so far: that exact its length is known."""
LOOK_S, LOOK_SHARE = 2.0, 0.05
"""How often a serving server's counters are read for signs of life: at least so many times a stall limit."""
GRACE_S = 15.0
"""From SIGTERM to SIGKILL where no target says otherwise. A server that hangs is given 1 s."""
FIRST_ANSWER_S, LONGEST_ANSWER_S = 10.0, 320.0
REFUSALS = 3
"""Error answers to a generation after the ready line until a server counts as unusable."""


Prepare = Callable[[Sandbox], Mapping[str, str]]
"""Puts into a sandbox what a candidate brings beside flags (patches, tables); returns variables to add."""


@dataclass
class Server:
    """A server that answered. `http` is a client to it; `argv` and `env` are as launched."""

    engine: Engine
    sandbox: Sandbox
    process: Process
    port: int
    http: httpx.Client
    launched: Launch
    facts: BootFacts
    build: EngineFacts
    clock: Clock
    liveness: Liveness
    ended: Exit | None = None
    _looked: float = field(default=float("-inf"), init=False)
    grace_s: float = field(default=GRACE_S, init=False)

    @property
    def argv(self) -> tuple[str, ...]:
        """The command line."""
        return self.launched.argv

    @property
    def env(self) -> dict[str, str]:
        """What the adapter and the candidate added to the environment."""
        return dict(self.launched.env)

    def log(self, max_bytes: int = LOG_BYTES) -> bytes:
        """The beginning of the server's output, as the spool kept it."""
        return read_log(self.process, max_bytes)

    @property
    def attention_s(self) -> float:
        """The longest pause between two calls of `alive`; after twice that a load is taken to have paused, too."""
        return self.liveness.limits.stall_s / 4

    def alive(self, seen: Counters | None = None) -> None:
        """To be called every few seconds while requests are out. `seen`: counters that the caller just read.

        Raises `CandidateFailed` when the server is gone (with its diagnosis) or stalls: no token and no finished
        request while requests are in flight, for the target's `stall_s`; `DiskFull` and `Infrastructure` where the log
        blames the machine.
        """
        ended = self.process.poll()
        if ended is not None:
            self.ended = ended
            raise failure(self.process, self.build, ended)
        now = self.clock.now()
        if seen is None and now - self._looked < max(LOOK_S, LOOK_SHARE * self.liveness.limits.stall_s):
            return
        if now - self._looked > 2 * self.attention_s:
            self.liveness.ready(now)  # nobody asked for a while: a pause of the load is no silence of the server
        done, in_flight = self._work_done() if seen is None else (seen.progress, seen.in_flight)
        self._looked = self.clock.now()
        life = self.liveness.serving(self._looked, done, in_flight)
        if life.state != "alive":
            self.grace_s = 1.0
            raise hung(self.process, self.build, life)

    def _work_done(self) -> tuple[float | None, float | None]:
        try:
            counters = self.engine.counters(self.http, timeout_s=min(5.0, self.liveness.limits.stall_s / 4))
        except httpx.HTTPError:
            return None, None
        return counters.progress, counters.in_flight

    def stop(self) -> Exit:
        """SIGTERM, grace, SIGKILL, the whole tree verified gone. Idempotent."""
        self.http.close()
        ended = self.process.stop(self.grace_s)
        self.ended = self.ended or ended
        return self.ended


@contextmanager
def serve(  # noqa: PLR0917 (the port's six)
    node: Node,
    spec: SandboxSpec,
    engine: Engine,
    candidate: Candidate,
    facts: EngineFacts,
    limits: Target,
    prepare: Prepare | None = None,
) -> Iterator[Server]:
    """A server for as long as the block runs, on the cores of `spec` from the moment it is ready.

    While it boots it may use all: three processes import the engine. `prepare` runs before the launch and may raise.

    Raises `CandidateFailed` (class, evidence, issue, log) when it does not get ready, hangs, or serves something else
    than was asked; `Refused` for an unknown flag; `DiskFull`, `Infrastructure`, `NodeLost`, `Cancelled`.
    """
    with node.open(replace(spec, cores=())) as sandbox:
        added = prepare(sandbox) if prepare is not None else {}
        order = _Order(node.clock, sandbox, engine, candidate, facts, Limits.of(limits), added)
        try:
            server = order.boot()
        except (PortTaken, CandidateFailed) as failed:
            if isinstance(failed, CandidateFailed) and not (failed.issue == locks.ISSUE and locks.clear(sandbox)):
                raise
            server = order.boot()  # once more: beside the stranger on the port, or without a dead compiler's locks
        server.grace_s = limits.stop_grace_s
        try:
            if spec.cores:
                server.process.pin(spec.cores)
            yield server
        finally:
            server.stop()


@dataclass(frozen=True)
class _Order:
    """What is to be booted, and where."""

    clock: Clock
    sandbox: Sandbox
    engine: Engine
    candidate: Candidate
    facts: EngineFacts
    limits: Limits
    added: Mapping[str, str]

    def boot(self) -> Server:
        """Launches, waits for the first answer, checks the identity. Raises as `serve`, and `PortTaken`."""
        port = self.sandbox.free_port()
        launched = self.engine.launch(self.candidate, self.facts, host=HOST, port=port)
        launched = replace(launched, env={**launched.env, **self.added})
        started = self.clock.now()
        process = self.sandbox.spawn(launched.argv, env=launched.env)
        http = self.sandbox.http(port)
        liveness = Liveness(self.limits, started)
        try:
            _Boot(self.clock, self.engine, process, http, self.facts, liveness).wait_ready()
            found = self._identify(process, http, self.clock.now() - started)
        except BaseException as error:
            http.close()
            process.stop(1.0 if isinstance(error, CandidateFailed) else GRACE_S)
            if isinstance(error, httpx.HTTPError):
                raise failure(process, self.facts, process.poll(), f"it stopped answering: {error}") from error
            raise
        liveness.ready(self.clock.now())
        return Server(self.engine, self.sandbox, process, port, http, launched, found, self.facts, self.clock, liveness)

    def _identify(self, process: Process, http: httpx.Client, ready_s: float) -> BootFacts:
        log = read_log(process, LOG_BYTES)
        found = self.engine.boot_facts(http, self.candidate, ready_s, count_lines(self.engine.fallback, log))
        try:
            self.engine.check_identity(self.candidate, self.facts, found)
        except CandidateFailed as error:
            error.log = log
            raise
        return found


@dataclass
class _Boot:
    """The time between launch and the first answer."""

    clock: Clock
    engine: Engine
    process: Process
    http: httpx.Client
    facts: EngineFacts
    liveness: Liveness
    _offset: int = 0
    _rest: bytes = b""
    _said_ready: bool = False
    _patience_s: float = FIRST_ANSWER_S
    _refused: int = 0

    def wait_ready(self) -> None:
        """Returns after the first generation. Raises as `serve`."""
        while True:
            ended = self.process.poll()
            trouble = self._read_on()
            if ended is not None or trouble:
                raise failure(self.process, self.facts, ended)
            if self._said_ready and self._answers():
                return
            now = self.clock.now()
            life = self.liveness.booting(now, self.process.vitals())
            if life.state != "alive":
                raise hung(self.process, self.facts, life)
            self.clock.sleep(min(max(POLL_S, POLL_SHARE * (now - self.liveness.started)), LONGEST_POLL_S))

    def _read_on(self) -> bool:
        """Takes in new output; True when it holds a line after which this engine never gets ready."""
        trouble = False
        while fresh := self.process.output(self._offset, 1 << 20):
            self._offset += len(fresh)
            text = self._rest + fresh
            self._said_ready = self._said_ready or self.engine.ready_line in text
            trouble = trouble or re.search(self.engine.fatal, text) is not None
            self._rest = text[-4096:].rpartition(b"\n")[2]
        return trouble

    def _answers(self) -> bool:
        """Asks for a generation; the first may take long (compilers), so each try is more patient than the last."""
        try:
            self.engine.answers(self.http, timeout_s=self._patience_s)
        except httpx.HTTPStatusError as error:
            self._refused += 1
            if self._refused >= REFUSALS:
                said = f"generation answered {error.response.status_code}: {error.response.text[:200]}"
                raise failure(self.process, self.facts, None, said) from None
        except httpx.TimeoutException:
            self._patience_s = min(2 * self._patience_s, LONGEST_ANSWER_S)
        except httpx.HTTPError:
            pass
        else:
            return True
        return False
