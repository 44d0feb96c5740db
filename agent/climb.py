"""The ladder: one attempt climbs it on one node and tells facts as they happen.

Free of graph and ledger. `CandidateFailed` becomes the verdict of the rung it happened on; a failure of the node,
the harness or a cancellation leaves as it came, without a verdict. One boot serves every rung from `answer` on.
Rungs that the attempt already passed are not judged again; `prepare` and `boot` are established anew.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from math import ceil
from pathlib import Path

from day0.agent import referring
from day0.agent.inputs import ClimbInputs
from day0.agent.lease import LOG_BYTES, Booted, Facts, Lease
from day0.agent.preparing import verify
from day0.agent.wearing import prove
from day0.runs.accuracy import CanariesSeen, Judged
from day0.runs.candidate import Candidate
from day0.runs.errors import CandidateFailed
from day0.runs.facts import ArtifactKept, Fact, FailureClass, Knee, LoadPoint, Rung, RungStarted, Verdict
from day0.runs.schema import Attempt
from day0.runs.workload import Workload
from day0.sandboxes.base import Node
from day0.tools import canary, image, judge, probes
from day0.tools.canary import Checked, Reference
from day0.tools.knee import start_rate
from day0.tools.known import KnownIssue
from day0.tools.learned import match
from day0.tools.taskfile import thinks

Judging = Generator[Fact, None, Verdict]
LEAST_AT_ONCE, MOST_AT_ONCE = 8, canary.TIER_1
"""questions that the checks of answers put at once: while no knee is known, and all there are of a rung"""


def climb(attempt: Attempt, node: Node, inputs: ClimbInputs) -> Facts:
    """All facts of one climb of an attempt.

    Raises `Infrastructure` and its kin, and `Cancelled`; then no verdict about the candidate was told.
    """
    passed = {v.rung for v in attempt.verdicts if v.passed}
    lease = Lease(node, attempt.id, attempt.epoch, attempt.candidate, inputs, attempt.boots + 1)
    rung = Rung.PREPARE
    try:
        yield RungStarted(rung=rung)
        image.ready(node, inputs.environments.folder(attempt.candidate.build))
        verify(inputs, attempt.candidate)
        yield from prove(node, inputs, attempt.candidate, attempt.id, attempt.epoch)
        if rung not in passed:
            yield Verdict(rung=rung, passed=True)
        if attempt.proposer == "baseline" and not inputs.reference:
            inputs = yield from referring.fixed(node, attempt, inputs, ask_answers, ask_task)
        rung = Rung.BOOT
        yield RungStarted(rung=rung)
        yield lease.begin()
        with lease.open() as booted:
            yield booted.ready()
            engaged(booted, inputs, attempt.candidate)
            if rung not in passed:
                yield Verdict(rung=rung, passed=True, detail=f"ready after {booted.server.facts.ready_s:.1f} s")
            for rung, judged in ladder(attempt, inputs):
                if rung in passed:
                    continue
                yield RungStarted(rung=rung)
                verdict = yield from judged(booted, inputs)
                yield verdict
                if not verdict.passed:
                    break
    except CandidateFailed as failed:
        yield from lease.end()
        yield failure(rung, failed, inputs.learned)
        return
    yield from lease.end()


def engaged(booted: Booted, inputs: ClimbInputs, candidate: Candidate) -> None:
    """Patches and tables took effect, as the server's log shows (S44). Raises `CandidateFailed`."""
    if candidate.patches or candidate.tables:
        from day0.tools import engagement

        log = booted.server.log(LOG_BYTES)
        engagement.check(inputs.patches_of(candidate), inputs.tables_of(candidate), log)


def ladder(attempt: Attempt, inputs: ClimbInputs) -> list[tuple[Rung, Callable[[Booted, ClimbInputs], Judging]]]:
    """The rungs above `boot`. Nothing is screened while there is no incumbent to beat."""
    rungs: list[tuple[Rung, Callable[[Booted, ClimbInputs], Judging]]] = [(Rung.ANSWER, answer)]
    if inputs.incumbent:
        rungs.append((Rung.SCREEN, screen))
    return [*rungs, (Rung.ACCURACY, accuracy), (Rung.MEASURE, measure)]


def failure(rung: Rung, failed: CandidateFailed, learned: tuple[KnownIssue, ...] = ()) -> Verdict:
    """The verdict that a candidate's own fault is; what no known issue covers may have been met before."""
    issue = failed.issue
    if issue in ("", "unknown"):
        issue = match(failed.evidence, learned) or issue
    return Verdict(rung=rung, passed=False, failure=FailureClass(failed.failure), evidence=failed.evidence, issue=issue)


def answer(booted: Booted, inputs: ClimbInputs) -> Judging:
    """Real generations: coherent, right, alike alone and at load, at long context; and the canaries."""
    found = ask_answers(booted, inputs)
    yield from keep(found, "answer")
    yield CanariesSeen(boot=booted.lease.boot, found=found.canaries)
    return found.verdict()


def accuracy(booted: Booted, inputs: ClimbInputs) -> Judging:
    """The model's task at the served concurrency, paired with the reference's answers."""
    found = ask_task(booted, inputs)
    yield from keep(found, "accuracy")
    for judged in found.judged:
        yield Judged(boot=booted.lease.boot, found=judged)
    return found.verdict()


def ask_answers(booted: Booted, inputs: ClimbInputs) -> Checked:
    """The questions of rung ANSWER."""
    return canary.answer(
        booted.harness,
        booted.server,
        task=canary.task_of(Path(inputs.model_folder)),
        concurrency=served(booted, inputs),
        long_chars=referring.long_chars(inputs.model_facts),
        reference=reference(inputs),
        kit=kit(booted, inputs),
        room=room(booted, inputs),
    )


def ask_task(booted: Booted, inputs: ClimbInputs) -> Checked:
    """The questions of rung ACCURACY."""
    fixed = referring.of(inputs)
    return canary.accuracy(
        booted.harness,
        booted.server,
        task=canary.task_of(Path(inputs.model_folder)),
        concurrency=served(booted, inputs),
        reference=reference(inputs),
        against=canary.SAME_STACK if fixed is None else fixed.words,
        room=room(booted, inputs),
    )


def kit(booted: Booted, inputs: ClimbInputs) -> probes.Kit:
    """What this boot is asked beyond plain questions: what its launch has a parser for, by the server's own account."""
    named = {name: booted.server.facts.resolved.get(name) for name in ("tool_call_parser", "reasoning_parser")}
    return probes.Kit(
        chat_template=inputs.model_facts.chat_template,
        tool_parser=str(named["tool_call_parser"] or ""),
        reasoning_parser=str(named["reasoning_parser"] or ""),
    )


def keep(found: Checked, name: str) -> Facts:
    """The answers as an artifact."""
    data = referring.REFERENCE.dump_json(found.answers)
    yield ArtifactKept(name=f"answers-{name}.json", data=data)


def reference(inputs: ClimbInputs) -> Reference | None:
    """The answers of the fixed reference on both rungs; None while there is none."""
    fixed = referring.of(inputs)
    return None if fixed is None else fixed.answers or None


def served(booted: Booted, inputs: ClimbInputs) -> int:
    """How many requests the checks put at once: as many as the leaders' knees have in flight (S34).

    A fault that a larger batch brings out is met before it counts as speed. It costs nothing: the questions are the
    same, and more at once end sooner. Never more than the server runs at once: those would only wait.
    """
    least = max([LEAST_AT_ONCE, *(w.clients or 0 for w in inputs.workloads)])
    return at_once(inputs.incumbent.values(), least, booted.server.facts.max_running_requests)


def at_once(knees: Iterable[Knee], least: int, cap: int | None, most: int = MOST_AT_ONCE) -> int:
    """Requests in flight at the fullest of some knees, within what the server runs at once."""
    wanted = max([least, *(ceil(k.in_flight) for k in knees if k.in_flight)])
    return min(wanted, most, cap or wanted)


def room(booted: Booted, inputs: ClimbInputs) -> int:
    """Tokens of an answer to a task: a model that thinks first gets as many as its thinking may take (S35)."""
    split = booted.server.facts.resolved.get("reasoning_parser")
    return probes.THINK_TOKENS if split or thinks(Path(inputs.model_folder)) else canary.TASK_TOKENS


def screen(booted: Booted, inputs: ClimbInputs) -> Judging:
    """One load point at 1.05 times the incumbent's knee, for each workload: promising on any is enough."""
    why = ""
    for workload in inputs.workloads:
        known = inputs.incumbent.get(workload.name)
        if known is None:
            return Verdict(rung=Rung.SCREEN, passed=True, detail=f"the incumbent has no knee on {workload.name}")
        if workload.arrival == "closed_loop":
            return Verdict(rung=Rung.SCREEN, passed=True, detail=f"{workload.name} is one point: nothing to screen")
        yield from booted.warm(workload, Rung.SCREEN, inputs.seed)
        point = yield from booted.point(workload, Rung.SCREEN, judge.screen_rate(known.rate_rps), inputs.seed, "screen")
        booted.screened[workload.name] = point
        good, why = judge.promising(point, known.rate_rps, workload.slo, inputs.noise)
        if good:
            return Verdict(rung=Rung.SCREEN, passed=True, detail=why)
    return Verdict(rung=Rung.SCREEN, passed=False, failure=FailureClass.NOT_PROMISING, evidence=why, detail=why)


def measure(booted: Booted, inputs: ClimbInputs) -> Judging:
    """Brackets the knee of each workload; below the SLO everywhere is a failure, on one of several is not."""
    missed: CandidateFailed | None = None
    found = 0
    for workload in inputs.workloads:
        probe = yield from booted.warm(workload, Rung.MEASURE, inputs.seed)
        start = start_for(workload, inputs, start_rate(probe, workload))
        first = yield from screened(booted, workload, inputs, start)
        try:
            yield from booted.bracket(workload, Rung.MEASURE, start, inputs.target.measure, inputs.seed, first=first)
            found += 1
        except CandidateFailed as failed:
            if failed.failure != FailureClass.BELOW_SLO:
                raise
            missed = failed
    if not found and missed is not None:
        return failure(Rung.MEASURE, missed)
    return Verdict(rung=Rung.MEASURE, passed=True)


def start_for(workload: Workload, inputs: ClimbInputs, probed: float) -> float:
    """Where the search for a knee begins: at the screened rate, else where the saturation probe says."""
    known = inputs.incumbent.get(workload.name)
    return probed if known is None else max(probed * 0.9, judge.screen_rate(known.rate_rps))


def screened(
    booted: Booted, workload: Workload, inputs: ClimbInputs, start: float
) -> Generator[Fact, None, LoadPoint | None]:
    """The screen's point where the search for a knee begins with just that rate: same boot, arrivals and window.

    A boot after an interruption has none: then it is taken again, by the same seeds. None: another rate comes first.
    """
    known = inputs.incumbent.get(workload.name)
    if known is None or start != judge.screen_rate(known.rate_rps) or workload.clients is not None:
        return None
    if workload.name not in booted.screened:
        booted.screened[workload.name] = yield from booted.point(workload, Rung.SCREEN, start, inputs.seed, "screen")
    return booted.screened[workload.name]
