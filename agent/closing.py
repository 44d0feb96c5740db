"""The closing half of the graph: confirm, replay, report. Each workload gets its own winner and recipe."""

from __future__ import annotations

from functools import partial

from day0.agent import confirm, crashpoints, evaluations, story, writing
from day0.agent.accuracies import lossy
from day0.agent.gathering import climb_inputs, current_view
from day0.agent.insist import Perform, insist
from day0.agent.parts import Parts
from day0.agent.policy import decide
from day0.agent.printing import short
from day0.agent.pump import Also
from day0.agent.replay import Replayed, replay
from day0.agent.seeing import pairs_allowed
from day0.agent.stability import stability as under_load
from day0.agent.steps import tell
from day0.agent.view import time_left_s
from day0.runs.facts import Fact, FailureClass, Pair, Rung, Verdict
from day0.runs.ledger_writer import Writer
from day0.runs.patches import Patch
from day0.runs.recipe import parse, render
from day0.runs.schema import Attempt, AttemptStatus, Comparison, Run, RunStatus
from day0.runs.values import sha256
from day0.runs.workload import Workload
from day0.tools import judge

PAIRS_APART = 100
"""pairs are numbered per attempt: those of its second workload begin at 101"""


def confirm_all(parts: Parts, run_id: str) -> None:
    """For each workload: the best candidate against the incumbent, then the next best, until one is confirmed."""
    run = parts.ledger.run(run_id)
    for workload in run.request.workloads:
        while story.winner(parts.ledger, run_id, workload.name) is None:
            challenger = next_challenger(parts, run_id, workload)
            if challenger is None:
                settle(parts, run_id, workload)
                break
            _confirm(parts, run_id, challenger, workload)


def next_challenger(parts: Parts, run_id: str, workload: Workload) -> Attempt | None:
    """The best kept candidate that beats the incumbent as measured and was not confirmed in vain; None: no more."""
    run = parts.ledger.run(run_id)
    seen = current_view(parts, run)
    gpus = run.request.target.gpus or seen.node.gpus
    incumbent = seen.attempt(run.baseline or "")
    floor = decide.worth(incumbent, run.request, gpus, workload) or 0.0
    judged = [e for e in parts.ledger.facts(run_id, "confirmed") if e.data["workload"] == workload.name]
    tried = {str(e.attempt) for e in judged if not e.data["ok"]}
    if 0 < run.request.target.measure.challengers <= len(tried):
        return None
    ranked = [
        (value, -a.number, a)
        for a in seen.attempts
        if a.status == AttemptStatus.KEPT and a.id not in tried and a.id != run.baseline
        if (value := decide.worth(a, run.request, gpus, workload) or 0.0) > floor
    ]
    spent_up = run.spent_node_s >= run.request.budget_hours * 3600
    spent_up = spent_up or time_left_s(parts.ledger, run, parts.pool.count()) <= 0
    if not ranked or (tried and spent_up):
        return None
    return max(ranked, key=lambda row: row[:2])[2]


def settle(parts: Parts, run_id: str, workload: Workload) -> None:
    """Nothing beat the incumbent: it wins itself, if it works."""
    run = parts.ledger.run(run_id)
    seen = current_view(parts, run)
    base = seen.attempt(run.baseline or "")
    works = decide.worth(base, run.request, run.request.target.gpus or seen.node.gpus, workload) is not None
    lost = ""
    if works and base is not None and evaluations.asked(run):
        own = parts.ledger.attempt(base.id)
        lost = evaluations.settle(parts, run, own, own) or lossy(parts.ledger, own.id)
    with parts.ledger.write(run_id) as writer:
        if works and base is not None and not lost:
            data = {"workload": workload.name, "ok": True, "reason": "nothing better than the defaults was found"}
            writer.event("confirmed", data, attempt=base.id)
            writer.set_incumbent(base.id)
        else:
            reason = f"the defaults may not win: {lost}" if lost else "no configuration works"
            writer.event("unsettled", {"workload": workload.name, "reason": reason})


def _confirm(parts: Parts, run_id: str, challenger: Attempt, workload: Workload) -> None:
    """One step: a pair, the comparison, or the stability run; the caller comes again until it is settled."""
    run = parts.ledger.run(run_id)
    if lost := lossy(parts.ledger, challenger.id):
        _judge(parts, run_id, challenger, workload, ok=False, reason=lost)
        return
    base = next(a for a in parts.ledger.attempts(run_id) if a.id == run.baseline)
    rules = run.request.target.measure
    who = short(challenger.id)
    comparison: Comparison | None = None
    if base.knee(workload.name) is not None:
        pairs = _pairs(parts, challenger, workload)
        comparison = _compare(parts, run, challenger, base, pairs) if pairs else None
        if not confirm.enough(pairs, comparison, _allowed(parts, run, challenger, workload)):
            tell(parts, run_id, 7, f"{workload.name}: {who} against the baseline, pair {len(pairs) + 1}")
            number = PAIRS_APART * run.request.workloads.index(workload) + len(pairs) + 1
            inputs = climb_inputs(parts, run, challenger)

            def pair(now: Attempt) -> Perform:
                return partial(
                    confirm.pair, challenger=now, incumbent=base, number=number, workload=workload, inputs=inputs
                )

            if insist(parts, run_id, challenger, pair) is not None:
                _judge(parts, run_id, challenger, workload, ok=False, reason="it failed while it was confirmed")
            crashpoints.reached("pair-done")
            return
        assert comparison is not None
        tell(parts, run_id, 7, f"{workload.name}: {confirm.told(comparison)}")
        with parts.ledger.write(run_id) as writer:
            writer.add_comparison(comparison)
        crashpoints.reached("compared")
        if not comparison.better:
            reason = confirm.told(comparison)
            _judge(parts, run_id, challenger, workload, ok=False, reason=reason)
            return
    if rules.stability_s > 0:
        given = climb_inputs(parts, run, challenger)

        def stability(now: Attempt) -> Perform:
            return partial(under_load, challenger=now, workload=workload, inputs=given)

        if story.held(parts.ledger, run_id, challenger.id, workload.name) is None:
            tell(parts, run_id, 7, f"{who} for {rules.stability_s / 60:.0f} min at 0.9 x its knee")
            insist(parts, run_id, challenger, stability, also=_note("stable", Rung.CONFIRM, challenger.id, workload))
            crashpoints.reached("stable")
        held = story.held(parts.ledger, run_id, challenger.id, workload.name)
        if held is None or not held.data["ok"]:
            reason = f"not stable: {held.data['reason'] if held else 'it failed'}"
            _judge(parts, run_id, challenger, workload, ok=False, reason=reason)
            return
    if lost := evaluations.settle(parts, run, challenger, base) or lossy(parts.ledger, challenger.id):
        _judge(parts, run_id, challenger, workload, ok=False, reason=lost)
        return
    gain = "" if comparison is None else confirm.told(comparison)
    _judge(parts, run_id, challenger, workload, ok=True, reason=gain or "the defaults do not work")


def _pairs(parts: Parts, challenger: Attempt, workload: Workload) -> tuple[Pair, ...]:
    return tuple(p for p in parts.ledger.pairs(challenger.id) if p.challenger.workload == workload.name)


def _compare(parts: Parts, run: Run, challenger: Attempt, base: Attempt, pairs: tuple[Pair, ...]) -> Comparison:
    noise = current_view(parts, run).noise
    workload = next(w for w in run.request.workloads if w.name == pairs[0].challenger.workload)
    most = _allowed(parts, run, challenger, workload)
    return judge.compare(pairs, incumbent=base.id, challenger=challenger.id, noise=noise, most=most)


def _allowed(parts: Parts, run: Run, challenger: Attempt, workload: Workload) -> int:
    """The most pairs of this confirmation, fixed before its first one: the test spends its error over so many looks."""
    known = [
        e.data["most"]
        for e in parts.ledger.facts(run.id, "pairs_allowed", attempt=challenger.id)
        if e.data["workload"] == workload.name
    ]
    if known:
        return int(known[0])
    left = time_left_s(parts.ledger, run, parts.pool.count())
    most = pairs_allowed(run.request, parts.ledger.attempts(run.id), run.spent_node_s, left)
    with parts.ledger.write(run.id) as writer:
        writer.event("pairs_allowed", {"workload": workload.name, "most": most}, attempt=challenger.id)
    return most


def _judge(parts: Parts, run_id: str, challenger: Attempt, workload: Workload, *, ok: bool, reason: str) -> None:
    with parts.ledger.write(run_id) as writer:
        if (
            challenger.verdict(Rung.CONFIRM) is None
            and parts.ledger.attempt(challenger.id).verdict(Rung.CONFIRM) is None
        ):
            failure = (
                None
                if ok
                else (FailureClass.ACCURACY_WRONG_OUTPUT if lossy(parts.ledger, challenger.id) else "not_better")
            )
            verdict = Verdict.model_validate(
                {
                    "rung": Rung.CONFIRM,
                    "passed": ok,
                    "failure": failure,
                    "evidence": "" if ok else reason,
                    "detail": reason,
                }
            )
            writer.record(challenger.id, challenger.epoch, verdict)
        writer.event("confirmed", {"workload": workload.name, "ok": ok, "reason": reason}, attempt=challenger.id)
        if ok:
            writer.set_incumbent(challenger.id)


def _note(kind: str, rung: Rung, attempt: str, workload: Workload, text: str = "") -> Also:
    """An event of `kind` for this workload, in the very transaction of the rung's verdict."""

    def also(writer: Writer, fact: Fact) -> None:
        if isinstance(fact, Verdict) and fact.rung == rung:
            reason = fact.detail if fact.passed else fact.evidence
            data = {"workload": workload.name, "ok": fact.passed, "reason": reason}
            writer.event(kind, {**data, "recipe": sha256(text)} if text else data, attempt=attempt)

    return also


def replay_all(parts: Parts, run_id: str) -> None:
    """Renders each winner's recipe and measures it again from the recipe alone."""
    run = parts.ledger.run(run_id)
    for workload in run.request.workloads:
        winner = story.winner(parts.ledger, run_id, workload.name)
        if winner is None:
            continue
        text = story.recipe(parts.ledger, run_id, workload.name)
        if text is None:
            crashpoints.reached("before-recipe")
            text = render(writing.recipe_of(parts, run, parts.ledger.attempt(winner), workload))
            with parts.ledger.write(run_id) as writer:
                writer.add_recipe(workload.name, text, sha256(text))
            crashpoints.reached("after-recipe")
        if story.replayed(parts.ledger, run_id, workload.name, text) is None:
            _replay(parts, run, winner, workload, text)


def _replay(parts: Parts, run: Run, winner: str, workload: Workload, text: str) -> None:
    attempt = parts.ledger.attempt(winner)
    inputs = climb_inputs(parts, run, attempt)
    tell(parts, run.id, 8, f"{workload.name}: the recipe of {winner.rpartition('-')[2]}, alone, from empty caches")

    def again(now: Attempt) -> Perform:
        return partial(replay, recipe=parse(text), inputs=inputs, name=Replayed(now.id, now.epoch, now.boots + 1))

    insist(parts, run.id, attempt, again, also=_note("replayed", Rung.REPLAY, winner, workload, text))


def report(parts: Parts, run_id: str) -> None:
    """Ends the run: done, or finished without a working configuration; and what orchestration itself took."""
    run = parts.ledger.run(run_id)
    if run.status != RunStatus.RUNNING:
        return
    good, words = [], []
    for workload in run.request.workloads:
        winner = story.winner(parts.ledger, run_id, workload.name)
        again = story.replayed(parts.ledger, run_id, workload.name)
        if winner is None:
            why = [e.data for e in parts.ledger.facts(run_id, "unsettled") if e.data["workload"] == workload.name]
            words.append(f"{workload.name}: {why[-1]['reason'] if why else 'no configuration works'}")
        elif again is None or not again.data["ok"]:
            words.append(f"{workload.name}: {winner} does not replay: {again.data['reason'] if again else 'not tried'}")
        else:
            good.append(winner)
            told = story.confirmed(parts.ledger, run_id, workload.name)
            words.append(f"{workload.name}: {winner}, {told.data['reason'] if told else ''}")
    status = RunStatus.DONE if len(good) == len(run.request.workloads) else RunStatus.NO_WINNER
    wall, inside = parts.meter.read()
    waiting = _reviews(parts, run_id, good)
    with parts.ledger.write(run_id) as writer:
        for patch in waiting:
            writer.add_patch(patch)
        writer.event("overhead", {"wall_s": wall, "inside_s": inside, "nodes": parts.pool.count()})
        writer.move_run(status, "; ".join(words))
    for patch in waiting:
        tell(parts, run_id, 9, f"{patch.title}: waits for review (`day0 patch show {patch.digest()[7:19]}`)")
    if not waiting:
        tell(parts, run_id, 9, "the winner carries no patch: nothing waits for review")
    crashpoints.reached("reported")


def _reviews(parts: Parts, run_id: str, winners: list[str]) -> list[Patch]:
    """The patches that winners carry, each once, at its smallest: only what is part of a result goes before people."""
    made, _ = parts.ledger.made(run_id)
    named = [digest for winner in winners for digest in parts.ledger.attempt(winner).candidate.patches]
    less = {patch: str(told["smallest"]) for patch, told in story.minimised(parts.ledger, run_id).items()}
    return [made[digest] for digest in dict.fromkeys(less.get(digest, digest) for digest in named)]
