"""Is what the server says still right? The rungs ANSWER and ACCURACY.

Both put real questions through the chat endpoint at temperature 0 and at the served concurrency, and compare with
the reference: the answers of the baseline, fixed for the whole run. Fast but wrong is never promoted, and a check
that checked nothing is a failure (S34). Without a reference (the baseline itself) the task's own answers decide.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Protocol

from day0.runs.accuracy import Canary, Judgement
from day0.runs.facts import FailureClass, Rung, Verdict
from day0.runs.values import Frozen
from day0.tools import noninferiority, probes
from day0.tools.bench import Answer, Question, Served
from day0.tools.taskfile import TaskItem, agrees, degenerate, right, rights, score, task_of
from day0.tools.text import prose

# fmt: off
__all__ = [
    "Answer", "Checked", "Reference", "TaskItem", "accuracy", "agrees", "answer", "degenerate", "right", "task_of",
]
# fmt: on

MARGIN = 0.05
"""Accuracy may fall behind the reference by five points."""
FULL_MARGIN = 0.01
"""What the winner may lose on a whole task: one point."""
OWN_TASK = "the model's own task"
CONTROL = 0.5
"""Of the task that a baseline must get right: a control that fails says nothing about candidates (S35)."""
SAMPLE, PROSE, PROSE_ACCURACY, ALONE = 24, 8, 40, 4
AGREE_SHARE = 0.7
REPEAT_SHARE = 0.75
TASK_TOKENS, PROSE_TOKENS, PROSE_CHARS = 16, 32, 240
TIER_1 = 200
"""questions that every candidate is asked"""
SAME_STACK = "same-stack"
"""The reference is the plainest configuration on this very node: what all of them get wrong alike is not seen."""
LONG_NUMBER, LONG = "7341", "long context"
FORCED, FORCED_PROSE = 12, 2

Reference = tuple[Answer, ...]
"""The baseline's answers, of both rungs."""


class Asker(Protocol):
    """What puts questions under load (`tools/bench.py`: Harness)."""

    def ask(
        self, questions: Sequence[Question], server: Served, *, concurrency: int, temperature: float = 0.0
    ) -> tuple[Answer, ...]: ...


class Checked(Frozen):
    """What a check found; `answers` are what a baseline's check hands on as the reference."""

    rung: Rung
    passed: bool
    failure: FailureClass | None = None
    evidence: str = ""
    detail: str = ""
    checked: int = 0
    score: float | None = None
    answers: Reference = ()
    canaries: tuple[Canary, ...] = ()
    judged: tuple[Judgement, ...] = ()

    def verdict(self) -> Verdict:
        """The fact for the ledger."""
        return Verdict(
            rung=self.rung, passed=self.passed, failure=self.failure, evidence=self.evidence, detail=self.detail
        )


def answer(
    harness: Asker,
    server: Served,
    *,
    task: Sequence[TaskItem],
    concurrency: int,
    long_chars: int,
    reference: Reference | None = None,
    kit: probes.Kit | None = None,
    room: int = TASK_TOKENS,
) -> Checked:
    """Rung ANSWER: a few questions alone, then those and more at load, one behind `long_chars` of text; and canaries.

    `kit` says which calls beyond plain questions this server is asked for, at the same load; None: none. `room`: tokens
    of an answer, many for a model that thinks first.
    """
    kit = None if kit is None else kit.model_copy(update={"forced": _forced_texts(task)})
    asked = questions(task, kit, long_chars, room)
    alone = harness.ask(asked[:ALONE], server, concurrency=1)
    load = harness.ask(asked, server, concurrency=concurrency)
    return judge_answers(task, alone, load, reference, kit)


def questions(task: Sequence[TaskItem], kit: probes.Kit | None, long_chars: int, room: int) -> list[Question]:
    """All of rung ANSWER at load."""
    picked = random.Random("answer").sample(range(len(task)), min(SAMPLE, len(task)))
    plain = [*_task_questions(task, picked, room), *_prose_questions(PROSE), _long_question(long_chars, room)]
    return plain if kit is None else [*plain, *probes.questions(kit)]


def _forced_texts(task: Sequence[TaskItem]) -> tuple[str, ...]:
    """Right answers behind their questions, and prose: of a sound model neither is a surprise to another kernel."""
    picked = random.Random("forced").sample(range(len(task)), min(FORCED, len(task)))
    texts = [task[i].prompt + task[i].answer for i in picked]
    return (*texts, *(q.prompt for q in _prose_questions(FORCED_PROSE)))


def accuracy(
    harness: Asker,
    server: Served,
    *,
    task: Sequence[TaskItem],
    concurrency: int,
    reference: Reference | None = None,
    against: str = SAME_STACK,
    room: int = TASK_TOKENS,
) -> Checked:
    """Rung ACCURACY, tier 1: 200 questions of the task at the served concurrency (all, if it has fewer).

    40 continuations where the model has no task. `against` names the reference in words.
    """
    asked = whole(task, room)
    return judge_accuracy(task, harness.ask(asked, server, concurrency=concurrency), reference, against)


def whole(task: Sequence[TaskItem], room: int) -> list[Question]:
    """All of rung ACCURACY."""
    picked = sorted(random.Random("tier 1").sample(range(len(task)), min(TIER_1, len(task))))
    return _task_questions(task, picked, room) if task else _prose_questions(PROSE_ACCURACY)


def _task_questions(task: Sequence[TaskItem], picked: Sequence[int], room: int) -> list[Question]:
    return [Question(key=f"task:{i}", prompt=task[i].prompt, max_tokens=room) for i in picked]


def _prose_questions(count: int) -> list[Question]:
    text, rng = prose(), random.Random("prose")
    starts = [rng.randrange(len(text) - PROSE_CHARS) for _ in range(count)]
    pieces = [text[start : start + PROSE_CHARS] for start in starts]
    return [Question(key=f"prose:{i}", prompt=piece, max_tokens=PROSE_TOKENS) for i, piece in enumerate(pieces)]


def _long_question(chars: int, room: int) -> Question:
    """A fact at the start, text between, a question for it at the end."""
    head, tail = f"The number on the blue door is {LONG_NUMBER}. ", " What is the number on the blue door? Answer:"
    body = prose()
    middle = (body * (chars // len(body) + 1))[: max(0, chars - len(head) - len(tail))]
    return Question(key="long:0", prompt=head + middle + tail, max_tokens=max(PROSE_TOKENS, room))


def _fail(rung: Rung, failure: FailureClass, evidence: str, detail: str = "", checked: int = 0) -> Checked:
    return Checked(rung=rung, passed=False, failure=failure, evidence=evidence[:500], detail=detail, checked=checked)


def judge_answers(
    task: Sequence[TaskItem],
    alone: Sequence[Answer],
    load: Sequence[Answer],
    reference: Reference | None,
    kit: probes.Kit | None = None,
) -> Checked:
    """The verdict on rung ANSWER: errors, empty texts, the task, coherence, alone and at load, then the canaries."""
    plain = [a for a in load if not a.key.startswith(probes.PREFIX)]
    everything, now = (*alone, *plain), {a.key: a for a in plain}
    got, asked = score(task, now)
    detail = f"{got} of {asked} right at load" if asked else "no task file: texts are compared"
    failure, evidence = FailureClass.UNKNOWN, ""
    if not everything:
        evidence = "nothing was checked"
    elif bad := [a for a in everything if a.error]:
        evidence = f"{len(bad)} of {len(everything)} questions were not answered: {bad[0].error}"
    else:
        failure = FailureClass.ACCURACY_WRONG_OUTPUT
        before = None if reference is None else {a.key: a for a in reference if a.key in now}
        evidence = _wrong_text(now, before) or _wrong_task(task, now, before) or _changed_at_load(alone, now)
    seen = () if kit is None else (_long(now, reference), *probes.judge(kit, load, reference))
    if not evidence and (broken := [c for c in seen if c.state == "failed"]):
        evidence = f"canary {broken[0].name}: {broken[0].why}"
    if seen:
        detail += "; canaries: " + "; ".join(c.told() for c in seen)
    if evidence:
        failed = _fail(Rung.ANSWER, failure, evidence, detail, len(plain))
        return failed.model_copy(update={"canaries": seen})
    return Checked(
        rung=Rung.ANSWER,
        passed=True,
        detail=detail,
        checked=len(plain),
        score=got / asked if asked else None,
        answers=tuple(load),
        canaries=seen,
    )


def _long(now: Mapping[str, Answer], reference: Reference | None) -> Canary:
    """The needle as a canary: where the reference does not find it either, it says nothing."""
    mine, theirs = now.get("long:0"), next((a for a in reference or () if a.key == "long:0"), None)
    said = "" if mine is None else f"it says {mine.text[:40]!r}"
    if mine is not None and LONG_NUMBER in mine.text:
        return Canary(name=LONG, state="passed", why="the number at the start of a long text is found")
    if reference is None or theirs is None or LONG_NUMBER not in theirs.text:
        return Canary(name=LONG, state="not applicable", why=f"the reference does not find it either: {said}")
    return Canary(name=LONG, state="failed", why=said)


def _wrong_text(now: Mapping[str, Answer], before: Mapping[str, Answer] | None) -> str:
    """Empty, stuck in a loop, or blind at long context where the reference is not; in words."""
    known = before or {}
    # a small model may have nothing to say to prose; what the reference answered, and the task, must be answered
    empty = [k for k, a in now.items() if not a.text.strip() and (k not in known or known[k].text.strip())]
    if before is None and len(empty) < len(now) / 2:
        empty = [k for k in empty if k.startswith("task:")]
    if empty:
        return f"empty answer to {empty[0]} ({len(empty)} in all)"
    stuck = [k for k, a in now.items() if degenerate(a.text) and k in known and not degenerate(known[k].text)]
    if len(stuck) > 1:
        return f"{stuck[0]} repeats itself: {now[stuck[0]].text[:80]!r}"
    long, was = now.get("long:0"), known.get("long:0")
    if long and was and LONG_NUMBER in was.text and LONG_NUMBER not in long.text:
        return f"long context: the reference finds the number, this says {long.text[:80]!r}"
    return ""


def _wrong_task(task: Sequence[TaskItem], now: Mapping[str, Answer], before: Mapping[str, Answer] | None) -> str:
    """Too few right answers; without a task, too few texts that begin as the reference's. In words."""
    got, asked = score(task, now)
    if asked:
        return _behind(got, asked, None if before is None else score(task, before)[0], now, task)
    share = 1.0 if before is None else _agreement(now, before)
    return f"only {share:.0%} of the texts begin as the reference's" if share < AGREE_SHARE else ""


def _changed_at_load(alone: Sequence[Answer], now: Mapping[str, Answer]) -> str:
    same = sum(agrees(a, now[a.key]) or a.text == now[a.key].text for a in alone)
    return f"{len(alone) - same} of {len(alone)} answers change at load" if same < REPEAT_SHARE * len(alone) else ""


def _behind(got: int, asked: int, was: int | None, now: Mapping[str, Answer], task: Sequence[TaskItem]) -> str:
    """Why a task's score is too low, in words; empty = it is not. A small sample may miss one more than the margin."""
    floor = CONTROL * asked if was is None else was - max(MARGIN * asked, 1)
    if got >= floor:
        return ""
    key = next(k for k, a in now.items() if k.startswith("task:") and not right(task[int(k[5:])], a))
    item = task[int(key[5:])]
    against = f"the reference {was}" if was is not None else f"a working model at least {CONTROL:.0%}"
    return f"{got} of {asked} right, {against}; {item.prompt!r} -> {now[key].text[:60]!r}, right is {item.answer!r}"


def _agreement(now: Mapping[str, Answer], before: Mapping[str, Answer]) -> float:
    common = [k for k in now if k in before]
    return sum(agrees(now[k], before[k]) for k in common) / len(common) if common else 0.0


def judge_accuracy(
    task: Sequence[TaskItem], answers: Sequence[Answer], reference: Reference | None, against: str = SAME_STACK
) -> Checked:
    """The verdict on rung ACCURACY: paired with the reference on the same questions, margin five points."""
    rung, wrong = Rung.ACCURACY, FailureClass.ACCURACY_WRONG_OUTPUT
    now = {a.key: a for a in answers if not a.error}
    if not now:
        why = answers[0].error if answers else "no question was asked"
        return _fail(rung, FailureClass.UNKNOWN, f"zero items were checked: {why}")
    before = {a.key: a for a in reference or () if a.key in {b.key for b in answers}}
    if reference is not None and not before:
        return _fail(rung, FailureClass.UNKNOWN, "zero items were checked: the reference holds other questions")
    lost = len(answers) - len(now)
    if not task:
        share = _agreement({a.key: a for a in answers}, before) if before else 1.0
        detail = f"no task file: {share:.0%} of {len(answers)} greedy texts begin as the reference's"
        if share < AGREE_SHARE:
            return _fail(rung, wrong, detail, detail, len(now))
        return Checked(rung=rung, passed=True, detail=detail, checked=len(now), score=share, answers=tuple(answers))
    got, _ = score(task, now)
    asked = len(answers)
    was = score(task, before)[0] if before else None
    detail = f"{got} of {asked} right" + (f", the reference {was}" if was is not None else "")
    detail += f", {lost} not answered" if lost else ""
    judged: tuple[Judgement, ...] = ()
    if before:
        # a collapse is what this rung refuses; what the pairs show beyond that is told beside it
        mine, theirs = (rights(task, which) for which in ({a.key: a for a in answers}, before))
        shown = noninferiority.paired(theirs, mine, margin=MARGIN)
        detail, judged = f"{detail}; {shown.told()}", (shown.judgement(OWN_TASK, against, tier=1),)
        if len(answers) == len(task):  # the whole task was asked: no further boot can tell more of it
            full = noninferiority.paired(theirs, mine, margin=FULL_MARGIN)
            judged += (full.judgement(OWN_TASK, against, tier=2),)
    floor = CONTROL * asked if was is None else was - MARGIN * asked
    if got < floor:
        return _fail(rung, wrong, detail, detail, len(now)).model_copy(update={"judged": judged})
    kept, share = tuple(answers), got / asked
    return Checked(rung=rung, passed=True, detail=detail, checked=len(now), score=share, answers=kept, judged=judged)
