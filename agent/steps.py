"""The bodies of the search half of the graph: survey, propose, admit, climb, decide.

Each reads the ledger first and does nothing that is already there, so that a body which runs again after a crash
changes nothing (S08). Each ends with one transaction that also appends its event.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from day0.agent import crashpoints, story
from day0.agent.answering import answer
from day0.agent.climb import climb
from day0.agent.gathering import climb_inputs, current_view, hangs_on_noise, note_admission, policys_view
from day0.agent.learning import brought, lessons
from day0.agent.nodes import Ended, Work
from day0.agent.parts import Parts
from day0.agent.policy import decide
from day0.agent.policy.actions import Action, Finish, Sweep, TryCandidate
from day0.agent.policy.base import Answer, Proposal, RunView
from day0.agent.policy.context_facts import SHOWN, briefly
from day0.agent.policy.turns import LLM
from day0.agent.surveying import look
from day0.runs.candidate import Candidate
from day0.runs.errors import Cancelled, Infrastructure, Refused
from day0.runs.facts import Fact, NodeChecked, Progress, Rung, Surveyed
from day0.runs.ledger_writer import Writer
from day0.runs.schema import FINISHED, Attempt, AttemptStatus, Run

MOST_INTERRUPTIONS = 3
IDLE_ROUNDS = 3
"""rounds in a row without an admitted experiment after which the search ends"""


def survey(parts: Parts, run_id: str) -> None:
    """Model, engine and node facts; the baseline is queued."""
    ledger, run = parts.ledger, parts.ledger.run(run_id)
    if run.baseline is not None:
        return
    at = parts.environments
    known = ledger.facts_engine(at.engine_build)
    perform = partial(look, folder=parts.model_folder, request=run.request, engine=parts.engine, at=at, known=known)
    parts.pump.start(Work(run_id, 0, perform))
    ended = parts.pump.until_ended(also=partial(_surveyed, run=run, build=at.engine_build))
    if ended.error is not None:
        raise ended.error
    for line in run.request.options.get("because", ()):
        tell(parts, run_id, 2, str(line))
    for line in current_view(parts, ledger.run(run_id)).model.warnings:
        tell(parts, run_id, 2, f"expect: {line}")
    crashpoints.reached("surveyed")


def _surveyed(writer: Writer, fact: Fact, *, run: Run, build: str) -> None:
    """What a survey's fact changes, in its own transaction."""
    if isinstance(fact, NodeChecked):
        writer.keep_node(fact.node)
    if not isinstance(fact, Surveyed):
        return
    writer.keep_model(fact.model)
    writer.keep_engine(fact.engine)
    baseline = writer.add_attempt(
        candidate=baseline_of(run, build),
        proposer="baseline",
        action="baseline",
        hypothesis=f"{run.request.target.baseline_label}: what every gain is measured against",
    )
    writer.set_baseline(baseline.id)
    writer.event("surveyed", {"model": fact.model.architecture, "engine": fact.engine.version})


def baseline_of(run: Run, build: str) -> Candidate:
    """The engine's defaults on this target."""
    request = run.request
    return Candidate(
        engine=request.target.engine,
        build=build,
        model=request.model,
        revision=request.revision,
        flags=request.target.base_flags,
        env=request.target.base_env,
    )


def tell(parts: Parts, run_id: str, step: int, text: str) -> None:
    """A line for whoever watches, under one of the nine steps of a run."""
    parts.pump.listener(run_id, run_id, Progress(text=text, step=step))


def told_of(action: Action, round_: int, proposal: Proposal) -> str:
    """A proposed action in one line."""
    who = f"round {round_}, {proposal.proposer}"
    if isinstance(action, TryCandidate):
        return f"{who}: {action.axis or 'a change'} ({action.expected_gain:+.0%} expected): {action.hypothesis}"
    if isinstance(action, Finish):
        return f"{who}: the search may end: {action.reason}"
    if isinstance(action, Sweep):
        return f"{who}: a sweep of {', '.join(sorted(action.space))}, {action.trials} points: {action.hypothesis}"
    return f"{who}: asks: {briefly(action)}"


def saw(seen: RunView) -> dict[str, Any]:
    """What a view holds that the ledger alone does not tell later, for `day0 replay-llm`."""
    shown = seen.experience[:SHOWN]
    return seen.model_dump(mode="json", include={"noise", "budget_left_s", "attempts_left"}) | {
        "experience": [one.model_dump(mode="json") for one in shown]
    }


def propose(parts: Parts, run_id: str) -> None:
    """Asks the policy for the next experiments, unless some are still to climb or the search has ended."""
    run = parts.ledger.run(run_id)
    if any(a.status not in FINISHED for a in parts.ledger.attempts(run_id)):
        return
    if story.search_ended(parts.ledger, run_id) or story.open_proposal(parts.ledger, run_id):
        return
    seen = policys_view(parts, run)
    proposal = parts.policy.decide(seen)
    round_ = run.round + 1
    with parts.ledger.write(run_id) as writer:
        writer.set_round(round_)
        for number, call in enumerate(parts.calls):
            writer.add_llm_call({**call, "round": round_}, key=f"{round_}:{number}")
        told = {"round": round_, "proposal": proposal.model_dump(mode="json")}
        if parts.calls:
            told |= {"batch": parts.pool.count(), "seen": saw(seen)}
        writer.event("proposed", told, key=f"round:{round_}")
    parts.calls.clear()
    if proposal.note:
        tell(parts, run_id, 3, f"round {round_}: {proposal.note}")
    for action in proposal.actions:
        tell(parts, run_id, 3, told_of(action, round_, proposal))
    crashpoints.reached("proposed")


def admit(parts: Parts, run_id: str) -> None:
    """Puts every proposed action before the guard: admitted, refused with the reason, or answered."""
    run, opened = parts.ledger.run(run_id), story.open_proposal(parts.ledger, run_id)
    if opened is None:
        return
    proposal, seen = Proposal.model_validate(opened["proposal"]), current_view(parts, run)
    admitted: list[str] = []
    crafts: list[str] = []
    finish = next((a.reason for a in proposal.actions if isinstance(a, Finish)), "")
    answers = [
        (n, a, answer(parts, run_id, a, seen)) for n, a in enumerate(proposal.actions) if not isinstance(a, Finish)
    ]
    with parts.ledger.write(run_id) as writer:
        for number, action, found in answers:
            if isinstance(found, Candidate) and isinstance(action, TryCandidate) and action.crafted:
                crafts.append(f"{run.round}:{number}")
                wanted = {"craft": crafts[-1], "proposer": proposal.proposer, "action": action.model_dump(mode="json")}
                writer.event("craft_wanted", wanted, key=f"craft:{crafts[-1]}")
                continue
            if isinstance(found, Candidate) and isinstance(action, TryCandidate):
                attempt = writer.add_attempt(
                    candidate=found,
                    proposer=proposal.proposer,
                    parent=action.parent,
                    action=action.axis,
                    hypothesis=action.hypothesis,
                    expected_gain=action.expected_gain,
                )
                admitted.append(attempt.id)
                note_admission(writer, attempt, seen)
                continue
            refused = isinstance(found, Refused)
            told = Answer(round=run.round, action=action, refused=refused, text=str(found))
            writer.add_answer(told, key=f"{run.round}:{number}")
        told_all = {"round": run.round, "attempts": sorted(set(admitted)), "crafts": crafts}
        writer.event("admitted", told_all, key=f"admitted:{run.round}")
        idle = 0 if admitted else (not crafts) + story.idle_rounds(parts.ledger, run_id)
        gave_up = idle >= IDLE_ROUNDS and proposal.proposer != LLM
        if not admitted and ((finish and not crafts) or gave_up):
            reason = finish or f"{idle} rounds in a row brought nothing that could be tried"
            writer.event("search_ended", {"status": "finished", "reason": reason})
    for _, action, found in answers:
        if isinstance(found, Refused):
            tell(parts, run_id, 4, f"refused: {found}")
        elif isinstance(action, TryCandidate):
            first = ", once it is made" if action.crafted else ""
            tell(parts, run_id, 4, f"admitted{first}: it exists, is allowed, new, fits and can be paid for")
    crashpoints.reached("admitted")


def climb_some(parts: Parts, run_id: str) -> None:
    """Starts what is queued on free nodes and returns at the first finished climb."""
    run = parts.ledger.run(run_id)
    for attempt in parts.ledger.attempts(run_id):
        if attempt.status == AttemptStatus.QUEUED and parts.pool.free():
            _start(parts, run, attempt)
    if not parts.pool.busy():
        return
    ended = parts.pump.until_ended()
    with parts.ledger.write(run_id) as writer:
        writer.spend(ended.node_s)
        writer.event("climbed", {"node": ended.node}, attempt=ended.key, epoch=ended.epoch, node_s=ended.node_s)
    if ended.error is not None:
        interrupted(parts, run_id, ended)


def _start(parts: Parts, run: Run, attempt: Attempt) -> None:
    with parts.ledger.write(run.id) as writer:
        epoch = writer.start_attempt(attempt.id, parts.pool.free()[0])
    crashpoints.reached("attempt-started")
    inputs = climb_inputs(parts, run, attempt)
    parts.pump.start(
        Work(attempt.id, epoch, partial(climb, attempt.model_copy(update={"epoch": epoch}), inputs=inputs))
    )


def interrupted(parts: Parts, run_id: str, ended: Ended) -> None:
    """A climb that ended without a verdict: back to the queue, at most three times; then the run fails.

    Raises `Cancelled`, what nobody foresaw, and `Infrastructure` when it happened too often.
    """
    error = ended.error
    if not isinstance(error, Infrastructure):
        raise error if error is not None else Cancelled("stopped")
    before = [e for e in parts.ledger.facts(run_id, "infrastructure") if e.attempt == ended.key]
    with parts.ledger.write(run_id) as writer:
        writer.event("infrastructure", {"error": str(error)}, attempt=ended.key)
        writer.interrupt(ended.key, str(error))
    if len(before) + 1 >= MOST_INTERRUPTIONS:
        raise Infrastructure(f"attempt {ended.key} was interrupted {len(before) + 1} times, last by: {error}")


def climbed(attempt: Attempt) -> bool:
    """Whether the ladder is behind it: a rung failed, or the last one passed."""
    return any(not v.passed for v in attempt.verdicts) or attempt.verdict(Rung.MEASURE) is not None


def decide_some(parts: Parts, run_id: str) -> None:
    """Ends what has climbed, moves the lead, and says when the search is over."""
    run = parts.ledger.run(run_id)
    for attempt in sorted(parts.ledger.attempts(run_id), key=lambda a: a.number):
        if attempt.status in FINISHED:
            continue
        if not (attempt.status == AttemptStatus.RUNNING and climbed(attempt)):
            break  # in the order of numbers: which node was faster, or was lost, changes no decision
        if not story.floors(parts.ledger, run_id) and hangs_on_noise(parts, run, attempt):
            break  # the noise floor comes first, once no node is at work (`day0.agent.floor`)
        _finish(parts, parts.ledger.run(run_id), attempt)
    seen = current_view(parts, run)
    stop = decide.stop(seen)
    if stop is not None and not story.search_ended(parts.ledger, run_id):
        with parts.ledger.write(run_id) as writer:
            writer.event("search_ended", {"status": stop.status, "reason": stop.reason})
        tell(parts, run_id, 6, f"the search ends: {stop.reason}")
    crashpoints.reached("decided")


def _finish(parts: Parts, run: Run, attempt: Attempt) -> None:
    seen = current_view(parts, run)
    gpus = run.request.target.gpus or seen.node.gpus
    end = decide.outcome(attempt, seen.attempts, run.request, seen.noise, gpus)
    after = [a.model_copy(update={"status": end.status}) if a.id == attempt.id else a for a in seen.attempts]
    leader = decide.leader_of(after, run.request, gpus)
    with parts.ledger.write(run.id) as writer:
        writer.finish_attempt(attempt.id, attempt.epoch, end.status, end.reason)
        if leader is not None and leader.id != run.leader:
            writer.set_leader(leader.id)
        writer.event("decided", end, attempt=attempt.id)
        for lesson in lessons(attempt, seen.attempts, seen.engine):
            writer.keep_learned(lesson)
        ended = next(a for a in after if a.id == attempt.id)
        if (found := brought(ended, seen.attempts, run.request, seen.model, gpus)) is not None:
            writer.keep_gained(found)
    tell(parts, run.id, 6, f"{attempt.id.rpartition('-')[2]} {end.status}: {end.reason}")
