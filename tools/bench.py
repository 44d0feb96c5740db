"""The load generator as day0 sees it: one process per boot that runs every load point, spoken to by files.

Everything goes through the sandbox port; nothing here runs beside the caller. While a point runs, the caller's
thread polls: is the server alive, what do its counters say, what does its log say. `summarise` (pure) is what turns
a `RawPoint` into a `LoadPoint`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import resources
from typing import Any

import httpx
from day0.runs import trace
from day0.runs.errors import CandidateFailed, Day0Error, Infrastructure
from day0.runs.values import sha256
from day0.runs.workload import Workload
from day0.sandboxes.base import Clock, Node, Process, Sandbox
from day0.sandboxes.spec import SandboxSpec
from day0.tools.engines.base import Counters
from day0.tools.hopeless import Hopeless
from day0.tools.loadplan import PointPlan, document, setup_s
from day0.tools.pace import Meter
from day0.tools.pause import POLL_S, pause_s
from day0.tools.rawpoint import Prime, RawPoint
from day0.tools.sampler import Sampler
from day0.tools.served import Answer, Question, Served, addressed, patience_s
from day0.tools.summary import summarise
from day0.tools.text import corpus
from pydantic_core import from_json, to_json

__all__ = ["Answer", "Harness", "Question", "Served", "summarise"]

PROGRAMS = ("loadgen.py", "client.py", "files.py", "prompts.py", "ask.py", "pace.py")
READY_S = 120.0
IDLE_S = 30.0
LONGEST_POLL_S = 10.0
SAMPLES = 64
"""Readings of the counters within a window that is long enough for one a second."""
SAMPLE_S = 1.0
CUT_S = 5.0
GRACE_S = 3.0
RESULT_BYTES = 512 << 20


class Harness:
    """A load generator that imported the benchmark client (or still does: `open` returns at once)."""

    def __init__(self, sandbox: Sandbox, clock: Clock) -> None:
        self.sandbox, self.clock = sandbox, clock
        self.partial: RawPoint | None = None
        """What was seen of the point that an exception ended; None where none was."""
        self.import_s: float | None = None
        self.pace: Meter | None = None
        """Says of each point how much of it the server's cores were slow."""
        self._number = self._asked = 0
        self._corpora: dict[str, int] = {}
        self._digests: dict[str, str] = {}
        self._send_programs()
        self.process: Process = sandbox.spawn(["python", "-u", "loadgen.py"])

    @classmethod
    @contextmanager
    def open(
        cls,
        node: Node,
        environment: str,
        attempt: str,
        epoch: int,
        cores: tuple[int, ...],
        *,
        mounts: tuple[tuple[str, str], ...] = (),
    ) -> Iterator[Harness]:
        """Starts the load generator in its own sandbox; it imports its client while the server boots.

        `mounts` make the model's tokenizer readable where the sandbox does not share the host's files.
        """
        spec = SandboxSpec(
            role="harness", environment=environment, attempt=attempt, epoch=epoch, cores=cores, mounts=mounts
        )
        with node.open(spec) as sandbox:
            harness = cls(sandbox, node.clock)
            try:
                yield harness
            finally:
                harness.process.stop(GRACE_S)

    def _send_programs(self) -> None:
        for name in PROGRAMS:
            data = resources.files("day0.tools.harness").joinpath(name).read_bytes()
            self._digests[name] = sha256(data)
            self.sandbox.write(name, data)

    def _verify(self) -> None:
        """The programs that measure are the files that were sent (S37)."""
        for name, digest in self._digests.items():
            if sha256(self.sandbox.read(name, 1 << 20)) != digest:
                raise Infrastructure(f"the harness' {name} changed while it measured; its results do not count")

    def ready(self) -> float:
        """Waits until the client is imported; returns the seconds that took. Raises `Infrastructure`."""
        if self.import_s is None:
            self.import_s = float(self._wait("ready.json", READY_S)["import_s"])
        return self.import_s

    def run(self, plan: PointPlan, server: Served, *, deadline_s: float | None = None) -> RawPoint:
        """Runs one load point against a server that has become idle.

        `deadline_s` (default: the plan's own times and what its set-up may take) is node time; past it the plan is cut
        and what came until then is returned with `cut` set. Raises what `server.alive()` raises (`CandidateFailed`;
        what was seen then stands in `partial`), and `Infrastructure` when the load generator itself fails.
        """
        self.partial = None
        self.ready()
        self._idle(server)
        self._number += 1
        number = self._number
        corpus_file, chars = self._corpus(plan.workload)
        sampler = Sampler(self.clock, self._counters(server), server.process)
        sampler.take()
        if self.pace is not None:
            self.pace.begin()
        self._announce(
            number,
            document(
                plan,
                number,
                base_url=f"http://127.0.0.1:{server.port}",
                tokenizer=server.facts.model_path,
                corpus=corpus_file,
                corpus_chars=chars,
            )
            | addressed(server.facts),
        )
        whole_s = setup_s(plan) + plan.lead_s + plan.window_s + plan.drain_s
        result, cut, stopped = self._watched(number, plan, server, sampler, deadline_s or whole_s)
        sampler.take()
        self._verify()
        return self._raw(result, server, sampler, cut, stopped)

    def _watched(
        self, number: int, plan: PointPlan, server: Served, sampler: Sampler, deadline_s: float
    ) -> tuple[dict[str, Any], str, str]:
        """The result of a plan that runs, and why it was cut or stopped if it was. Raises as `run`."""
        began, hopeless = self.clock.now(), Hopeless(plan)
        every_s = min(max(SAMPLE_S, plan.window_s / SAMPLES), LONGEST_POLL_S, server.attention_s)
        cut, stopped, told = "", "", 0.0
        while True:
            result = self._result(f"result-{number}.json")
            try:
                server.alive(seen := sampler.due(every_s))
            except Day0Error as error:
                if isinstance(error, CandidateFailed):
                    self.partial = self._cut(number, server, sampler, str(error), result)
                raise
            if result is not None:
                return result, cut, stopped
            waited = self.clock.now() - began
            if told and waited > told + CUT_S:
                raise Infrastructure("the load generator does not answer")
            if not told:
                cut = "the point did not end in its time" if waited > deadline_s else ""
                stopped = hopeless.after(self.clock.now(), seen) if seen and not cut else ""
                if cut or stopped:
                    told = waited
                    self.sandbox.write(f"cancel-{number}", b"")
            self.clock.sleep(POLL_S if told else pause_s(waited, every_s))

    def ask(
        self,
        questions: Sequence[Question],
        server: Served,
        *,
        concurrency: int,
        temperature: float = 0.0,
        deadline_s: float | None = None,
    ) -> tuple[Answer, ...]:
        """Puts chat questions at a concurrency; answers in the order of the questions, also failed ones.

        Raises what `server.alive()` raises and `Infrastructure` where the program fails or is past its deadline.
        """
        self._asked += 1
        number = self._asked
        each_s, all_s = patience_s(questions, concurrency, deadline_s)
        body = {
            "base_url": f"http://127.0.0.1:{server.port}",
            "model": server.facts.model_path,
            "concurrency": concurrency,
            "temperature": temperature,
            "request_deadline_s": each_s,
            "questions": [q.model_dump(mode="json") for q in questions],
        }
        self.sandbox.write(f"ask-{number}.json", json.dumps(body).encode())
        program = self.sandbox.spawn(["python", "-u", "ask.py", str(number)])
        began = self.clock.now()
        try:
            while (result := self._result(f"answers-{number}.json", program)) is None:
                server.alive()
                if (waited := self.clock.now() - began) > all_s:
                    raise Infrastructure(f"the questions were not answered within {all_s:.0f} s")
                self.clock.sleep(pause_s(waited, min(LONGEST_POLL_S, server.attention_s)))
        finally:
            program.stop(GRACE_S)
        return tuple(Answer.model_validate(a) for a in result["answers"])

    def _counters(self, server: Served) -> Any:
        def read() -> Counters:
            try:
                return server.engine.counters(server.http)
            except httpx.HTTPError:
                return Counters()  # too busy to say, or dead: `alive` knows which

        return read

    def _idle(self, server: Served) -> None:
        """Waits until earlier requests (cancelled ones too) have left the server, at most half a minute."""
        end = self.clock.now() + IDLE_S
        read = self._counters(server)
        while self.clock.now() < end:
            seen = read()
            if not (seen.running or 0) + (seen.queued or 0):
                return
            server.alive()
            self.clock.sleep(POLL_S)

    def _corpus(self, work: Workload) -> tuple[str, int]:
        """The file that holds the workload's text in the sandbox, and its characters."""
        own = work.text == "trace"
        name = f"corpus-{work.trace_digest[7:23] if own else work.text}.txt"
        if name not in self._corpora:
            text = "\n".join(trace.pinned(work.trace, work.trace_digest).texts) if own else corpus(work.text)
            self.sandbox.write(name, text.encode())
            self._corpora[name] = len(text)
        return name, self._corpora[name]

    def _announce(self, number: int, plan: dict[str, object]) -> None:
        """The plan, then the file that says it is whole: writes need not be atomic."""
        data = to_json(plan)
        self.sandbox.write(f"plan-{number}.json", data)
        self.sandbox.write(f"go-{number}", sha256(data).removeprefix("sha256:").encode())

    def _result(self, path: str, process: Process | None = None) -> dict[str, Any] | None:
        """The JSON of a file renamed into place; None = not yet. Raises `Infrastructure` if nobody will write it."""
        process = process or self.process
        ended = process.poll()
        try:
            data = self.sandbox.read(path, RESULT_BYTES)
        except FileNotFoundError:
            if ended is not None:
                last = process.output(0, 1 << 20)[-400:].decode(errors="replace").strip()
                raise Infrastructure(f"the harness ended with code {ended.code}: {last}") from None
            return None
        value: dict[str, Any] = from_json(data) | {"told": data}
        if "crash" in value:
            raise Infrastructure(f"the load generator failed: {value['crash']}")
        return value

    def _wait(self, path: str, timeout_s: float) -> dict[str, Any]:
        end = self.clock.now() + timeout_s
        while (value := self._result(path)) is None:
            if self.clock.now() > end:
                raise Infrastructure(f"the load generator was not ready within {timeout_s:.0f} s")
            self.clock.sleep(POLL_S)
        return value

    def _cut(
        self, number: int, server: Served, sampler: Sampler, why: str, result: dict[str, Any] | None
    ) -> RawPoint | None:
        """What a plan had, which is ended early unless its result is there."""
        self.sandbox.write(f"cancel-{number}", b"")
        try:
            result = result or self._wait(f"result-{number}.json", CUT_S)
        except Infrastructure:
            return None
        return self._raw(result, server, sampler, why)

    def _raw(self, result: dict[str, Any], server: Served, sampler: Sampler, cut: str, stopped: str = "") -> RawPoint:
        from day0.tools import columns

        ended = result.get("ended_s")
        return RawPoint(
            requests=columns.read(result["requests"]),
            primes=tuple(Prime.model_validate(p) for p in result["primes"]),
            samples=sampler.samples(self.clock.now() - ended if ended is not None else None),
            cpu_share=result["cpu_share"],
            lag_p95_ms=result["lag_p95_ms"],
            wall_s=result["wall_s"],
            chat=result.get("chat"),
            cut=cut,
            stopped=stopped,
            ended_s=ended,
            primed=sampler.found(self.clock.now() - result["wall_s"]),
            cache_on=not server.facts.resolved.get("disable_radix_cache"),
            max_running=server.facts.max_running_requests,
            slow_share=None if self.pace is None else self.pace.end(),
            told=result["told"],
        )
