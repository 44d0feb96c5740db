"""A boot: a lease on a node, with the load generator beside the server. Shared by climb, confirm and replay."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Literal

from day0.agent import calm
from day0.agent.ceiling import checked
from day0.agent.inputs import SERVER_LOG, ClimbInputs
from day0.agent.loads import alone, content_seed, told
from day0.agent.preparing import unharmed, untampered
from day0.agent.wearing import outfit
from day0.runs import trace
from day0.runs.candidate import Candidate
from day0.runs.errors import CandidateFailed, Infrastructure
from day0.runs.facts import (
    ArtifactKept,
    BootEnded,
    BootReady,
    BootStarted,
    Fact,
    FailureClass,
    Knee,
    KneeFound,
    LoadPoint,
    PointMeasured,
    Progress,
    Rung,
)
from day0.runs.findings import Explained
from day0.runs.patches import Worn
from day0.runs.workload import MeasureRules, Workload
from day0.sandboxes.base import Node
from day0.sandboxes.spec import SandboxSpec
from day0.tools import kernels
from day0.tools.bench import Harness
from day0.tools.explain import explain
from day0.tools.knee import KneeSearch, arrival_seed
from day0.tools.loadplan import PointPlan, closed_loop, open_loop
from day0.tools.pace import Meter
from day0.tools.rawpoint import RawPoint
from day0.tools.serve import Server, serve
from day0.tools.served import Served
from day0.tools.summary import capacity_rps, summarise
from day0.tools.untouched import Stamp

LOG_BYTES = 64 << 20
PROBE_CONCURRENCY = 16
WARM_SHARE = 0.5
Facts = Generator[Fact, None, None]


@dataclass
class Lease:
    """One boot of one candidate on one node, and what is told of it."""

    node: Node
    attempt: str
    epoch: int
    candidate: Candidate
    inputs: ClimbInputs
    boot: int
    repeat: int = 0
    """which repetition of the same measurement this is (a pair's number): what seeds are keyed by, never the boots"""
    clean: bool = False
    """start from empty caches: a replay"""
    started_s: float = 0.0
    reason: Literal["stopped", "crashed", "hung", "lost"] = "stopped"
    log: bytes = b""
    files: Mapping[str, Stamp] = field(default_factory=dict)
    """the load generator's environment before the boot"""

    def begin(self) -> BootStarted:
        """The fact that a boot begins; its port stands as 0, since each launch gets a fresh one."""
        self.started_s = self.node.clock.now()
        inputs, facts = self.inputs, self.inputs.engine_facts.of(self.candidate.build)
        line = inputs.engine.launch(inputs.launched(self.candidate), facts, host="127.0.0.1", port=0)
        return BootStarted(boot=self.boot, argv=line.argv, env=dict(line.env))

    @contextmanager
    def open(self) -> Iterator[Booted]:
        """The server, ready by a real generation, and its load generator. Raises as `day0.tools.serve.serve`."""
        inputs, target = self.inputs, self.inputs.target
        caches, facts = inputs.engine.caches, inputs.engine_facts.of(self.candidate.build)
        spec = SandboxSpec(
            role="server",
            environment=inputs.environments.folder(self.candidate.build),
            attempt=self.attempt,
            epoch=self.epoch,
            cores=target.server_cores,
            caches=() if self.clean else caches,
            mounts=((inputs.model_folder, inputs.model_folder),),
        )
        generator = Harness.open(
            self.node,
            inputs.environments.harness,
            self.attempt,
            self.epoch,
            target.harness_cores,
            mounts=((inputs.model_folder, inputs.model_folder),),
        )
        candidate = inputs.launched(self.candidate)
        self.files = untampered(inputs)
        try:
            wears = outfit(self.node, inputs, self.candidate, self.attempt, self.epoch)
            spec = replace(spec, environment=wears.environment)
            with (
                generator as harness,  # it imports its client while the server boots
                serve(self.node, spec, inputs.engine, candidate, facts, target, wears.prepare) as server,
            ):
                harness.pace = Meter.start(harness.sandbox, target.server_cores, self.node.name)
                try:
                    yield Booted(self, harness, server, wears.worn(server.sandbox))
                finally:
                    self.log = server.log(LOG_BYTES)
        except CandidateFailed as failed:
            self.log = self.log or failed.log
            self.reason = "hung" if failed.failure == "hang_deadlock" else "crashed"
            raise
        except Infrastructure:
            self.reason = "lost"
            raise

    def end(self) -> Facts:
        """What is told once the boot is over: its log, and how it ended."""
        if self.log:
            yield ArtifactKept(name=SERVER_LOG, data=self.log)
        yield BootEnded(
            boot=self.boot,
            reason=self.reason,
            node_s=max(0.0, self.node.clock.now() - self.started_s),
            kernels=kernels.read(self.log, self.inputs.engine.fallback) if self.log else None,
        )


@dataclass(frozen=True)
class Booted:
    """A server that answers and a load generator, for as long as the lease is open."""

    lease: Lease
    harness: Harness
    server: Server
    worn: Worn | None = None
    warmed: dict[str, LoadPoint] = field(default_factory=dict)
    screened: dict[str, LoadPoint] = field(default_factory=dict)
    """by workload: the screen's point on this boot"""
    watched: Served | None = None
    """the server with somebody who looks at it whenever the load generator's owner does"""

    def ready(self) -> BootReady:
        """What the server really runs with."""
        return BootReady(boot=self.lease.boot, facts=self.server.facts, worn=self.worn)

    def measure(self, plan: PointPlan, rung: Rung, name: str) -> Generator[Fact, None, LoadPoint]:
        """One load point: its raw details as an artifact, its figures as a fact unless it is discarded.

        What a server did of a point in which it failed is kept as well, void; points before it stand as they are.
        """
        yield Progress(text=f"{rung}: {plan.workload.name} at {told(plan)}")
        for number in range(calm.TRIES):
            now, called = calm.attempt(plan, name, number)
            try:
                raw = self.harness.run(now, self.watched or self.server)
            except CandidateFailed:
                if self.harness.partial is not None:
                    yield from self._seen(now, self.harness.partial, rung, called, number)
                raise
            point = yield from self._seen(now, raw, rung, called, number)
            if not calm.spoilt(point):
                break
        return point

    def _seen(
        self, plan: PointPlan, raw: RawPoint, rung: Rung, name: str, number: int
    ) -> Generator[Fact, None, LoadPoint]:
        inputs = self.lease.inputs
        point = calm.judged(summarise(plan, raw, inputs.target.measure), number)
        point = checked(point, plan.workload, self.lease.candidate, inputs.model_facts, inputs.target)
        yield ArtifactKept(name=f"{name}.json", data=raw.kept())
        if not plan.warmup:
            yield PointMeasured(boot=self.lease.boot, rung=rung, point=point)
        return point

    def warm(self, workload: Workload, rung: Rung, seed: int) -> Generator[Fact, None, LoadPoint]:
        """The first, discarded point of a boot: shape-matched warm-up and saturation probe in one (S33).

        Once per boot and workload; asked again it returns what the first one found. Where a rate to load with is
        known already, half the time is enough.
        """
        if workload.name not in self.warmed:
            rules = self.lease.inputs.target.measure
            known = rung in (Rung.CONFIRM, Rung.REPLAY) or workload.name in self.lease.inputs.incumbent
            plan = closed_loop(
                workload,
                rules,
                concurrency=workload.clients or PROBE_CONCURRENCY,
                content_seed=content_seed(seed, self.lease.candidate, self.lease.repeat, workload, Rung.BOOT, "warm"),
                window_s=rules.point_s * (WARM_SHARE if known else 1.0),
                replicas=self.server.facts.replicas,
                trace=trace.of(workload),
            )
            self.warmed[workload.name] = yield from self.measure(plan, rung, f"{rung}-{workload.name}-warm")
        return self.warmed[workload.name]

    def point(
        self,
        workload: Workload,
        rung: Rung,
        rate: float,
        seed: int,
        name: str,
        *,
        p95_e2e_s: float = 0.0,
        rules: MeasureRules | None = None,
    ) -> Generator[Fact, None, LoadPoint]:
        """One open-loop point at an offered rate, arrivals by `seed`; rules other than the target's set its window."""
        plan = open_loop(
            workload,
            rules or self.lease.inputs.target.measure,
            rate_rps=rate,
            seed=seed,
            content_seed=content_seed(seed, self.lease.candidate, self.lease.repeat, workload, rung, name),
            p95_e2e_s=p95_e2e_s,
            replicas=self.server.facts.replicas,
            trace=trace.of(workload),
        )
        return (yield from self.measure(plan, rung, f"{rung}-{workload.name}-{name}"))

    def bracket(
        self,
        workload: Workload,
        rung: Rung,
        start: float,
        rules: MeasureRules,
        seed: int,
        *,
        doubt: float = 0.0,
        first: LoadPoint | None = None,
    ) -> Generator[Fact, None, tuple[Knee, tuple[LoadPoint, ...]]]:
        """Brackets the knee on this boot. Raises `CandidateFailed` (`below_slo`) when no rate passed.

        `first` is a point at `start` that this boot was already measured at: the search counts it as its own first;
        `doubt`: `start` is an earlier boot's knee (see `KneeSearch`). A single stream and a closed loop have no knee:
        one point with their number of clients stands for it.
        """
        if workload.clients is not None:
            return (yield from self._fixed(workload, rung, rules, seed, workload.clients))
        search, points, p95_s = KneeSearch(start, rules, workload, doubt=doubt), [], 0.0
        while (asked := search.next()) is not None:
            rate, number = asked
            if number == 0 and first is not None:
                yield PointMeasured(boot=self.lease.boot, rung=rung, point=(point := first))
            else:
                again = arrival_seed(seed, search.repeat)
                point = yield from self.point(workload, rung, rate, again, str(number), p95_e2e_s=p95_s)
            p95_s = p95_s if point.e2e_ms is None else point.e2e_ms.p95 / 1e3
            points.append(point)
            search.add(point)
        yield from self._explained(workload, rung, points)
        knee = search.result()
        self.unharmed()
        yield KneeFound(boot=self.lease.boot, rung=rung, knee=knee)
        return knee, tuple(points)

    def unharmed(self) -> None:
        """What was measured with is what it was before this boot. Raises `Infrastructure`."""
        unharmed(self.lease.inputs, self.lease.candidate, self.lease.files)

    def _explained(self, workload: Workload, rung: Rung, points: Sequence[LoadPoint]) -> Facts:
        if rung == Rung.MEASURE:
            found = explain(points, self.server.facts, workload)
            yield Explained(boot=self.lease.boot, workload=workload.name, found=found)

    def _fixed(
        self, workload: Workload, rung: Rung, rules: MeasureRules, seed: int, clients: int
    ) -> Generator[Fact, None, tuple[Knee, tuple[LoadPoint, ...]]]:
        probe, window = self.warmed.get(workload.name), max(2 * rules.point_s, workload.duration_s or 0.0)
        if clients > 1 and probe is not None and (rate := capacity_rps(probe, workload.output_tokens)) > 0:
            window = max(window, rules.min_requests / rate)
        plan = closed_loop(
            workload,
            rules,
            concurrency=clients,
            content_seed=content_seed(seed, self.lease.candidate, self.lease.repeat, workload, rung, "alone"),
            window_s=window,
            warmup=False,
            replicas=self.server.facts.replicas,
        )
        point = yield from self.measure(plan, rung, f"{rung}-{workload.name}-alone")
        yield from self._explained(workload, rung, [point])
        self.unharmed()
        if not point.meets_slo:
            raise CandidateFailed(FailureClass.BELOW_SLO, f"{told(plan)}: {point.void or '; '.join(point.misses)}")
        knee = alone(point, workload, clients, short=rules.short)
        yield KneeFound(boot=self.lease.boot, rung=rung, knee=knee)
        return knee, (point,)
