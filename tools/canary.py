"""Is what the server says still right? The rungs ANSWER and ACCURACY.

Both put real questions through the chat endpoint at temperature 0 and at the served concurrency, and compare with
the reference: the answers of the baseline, fixed for the whole run. Fast but wrong is never promoted, and a check
that checked nothing is a failure (S34). Without a reference (the baseline itself) the task's own answers decide.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from day0.runs.errors import UserError
from day0.runs.facts import FailureClass, Rung, Verdict
from day0.runs.values import Frozen
from day0.tools import noninferiority
from day0.tools.bench import Answer, Question, Served
from day0.tools.text import prose

TASK_FILE = "day0-task.jsonl"
MARGIN = 0.05
"""Accuracy may fall behind the reference by five points."""
CONTROL = 0.5
"""Of the task that a baseline must get right: a control that fails says nothing about candidates (S35)."""
SAMPLE, PROSE, PROSE_ACCURACY, ALONE = 24, 8, 40, 4
AGREE_CHARS = 12
AGREE_SHARE = 0.7
REPEAT_SHARE = 0.75
DEGENERATE = 0.2
TASK_TOKENS, PROSE_TOKENS, PROSE_CHARS = 16, 32, 240
LONG_NUMBER = "7341"

Reference = tuple[Answer, ...]
"""The baseline's answers, of both rungs."""


class Asker(Protocol):
    """What puts questions under load (`tools/bench.py`: Harness)."""

    def ask(
        self, questions: Sequence[Question], server: Served, *, concurrency: int, temperature: float = 0.0
    ) -> tuple[Answer, ...]: ...


class TaskItem(Frozen):
    """A question with its right answer."""

    prompt: str
    answer: str


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

    def verdict(self) -> Verdict:
        """The fact for the ledger."""
        return Verdict(
            rung=self.rung, passed=self.passed, failure=self.failure, evidence=self.evidence, detail=self.detail
        )


def task_of(folder: Path) -> tuple[TaskItem, ...]:
    """The task file beside a checkpoint (`day0-task.jsonl`, one {"prompt", "answer"} a line); empty = there is none.

    Raises `UserError` naming the line that can't be read.
    """
    path = folder / TASK_FILE
    if not path.exists():
        return ()
    out = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            value = json.loads(line)
            out.append(TaskItem(prompt=value["prompt"], answer=value["answer"]))
        except (ValueError, KeyError, TypeError):
            raise UserError(f'{path}, line {number}: each line must be {{"prompt": "...", "answer": "..."}}') from None
    return tuple(out)


def answer(
    harness: Asker,
    server: Served,
    *,
    task: Sequence[TaskItem],
    concurrency: int,
    long_chars: int,
    reference: Reference | None = None,
) -> Checked:
    """Rung ANSWER: a few questions alone, then those and more at load, one behind `long_chars` of text."""
    picked = random.Random("answer").sample(range(len(task)), min(SAMPLE, len(task)))
    questions = [*_task_questions(task, picked), *_prose_questions(PROSE), _long_question(long_chars)]
    first = questions[:ALONE]
    alone = harness.ask(first, server, concurrency=1)
    load = harness.ask(questions, server, concurrency=concurrency)
    return judge_answers(task, alone, load, reference)


def accuracy(
    harness: Asker,
    server: Served,
    *,
    task: Sequence[TaskItem],
    concurrency: int,
    reference: Reference | None = None,
) -> Checked:
    """Rung ACCURACY: the whole task at the served concurrency, or 40 continuations where the model has no task."""
    questions = _task_questions(task, range(len(task))) if task else _prose_questions(PROSE_ACCURACY)
    return judge_accuracy(task, harness.ask(questions, server, concurrency=concurrency), reference)


def _task_questions(task: Sequence[TaskItem], picked: Sequence[int]) -> list[Question]:
    return [Question(key=f"task:{i}", prompt=task[i].prompt, max_tokens=TASK_TOKENS) for i in picked]


def _prose_questions(count: int) -> list[Question]:
    text, rng = prose(), random.Random("prose")
    starts = [rng.randrange(len(text) - PROSE_CHARS) for _ in range(count)]
    pieces = [text[start : start + PROSE_CHARS] for start in starts]
    return [Question(key=f"prose:{i}", prompt=piece, max_tokens=PROSE_TOKENS) for i, piece in enumerate(pieces)]


def _long_question(chars: int) -> Question:
    """A fact at the start, text between, a question for it at the end."""
    head, tail = f"The number on the blue door is {LONG_NUMBER}. ", " What is the number on the blue door? Answer:"
    body = prose()
    middle = (body * (chars // len(body) + 1))[: max(0, chars - len(head) - len(tail))]
    return Question(key="long:0", prompt=head + middle + tail, max_tokens=PROSE_TOKENS)


def right(item: TaskItem, got: Answer) -> bool:
    """The answer's first line begins with the right one and no further letter or digit."""
    text = got.text.strip()
    return text.startswith(item.answer) and not text[len(item.answer) : len(item.answer) + 1].isalnum()


def agrees(one: Answer, other: Answer) -> bool:
    """Greedy texts agree when they begin alike: rounding of another kernel lets long ones part in the end."""
    return bool(one.text) and one.text[:AGREE_CHARS] == other.text[:AGREE_CHARS]


def degenerate(text: str) -> bool:
    """Long, and made of few different pieces of four characters: a stuck loop."""
    pieces = [text[i : i + 4] for i in range(len(text) - 3)]
    return len(pieces) >= 32 and len(set(pieces)) < DEGENERATE * len(pieces)


def _score(task: Sequence[TaskItem], answers: Mapping[str, Answer]) -> tuple[int, int]:
    """(right, asked) of the task questions among the answers."""
    asked = [(task[int(k.removeprefix("task:"))], a) for k, a in answers.items() if k.startswith("task:")]
    return sum(right(item, got) for item, got in asked), len(asked)


def _rights(task: Sequence[TaskItem], answers: Mapping[str, Answer]) -> dict[str, bool]:
    """Right or wrong per task question; one that was not answered is wrong."""
    asked = {k: a for k, a in answers.items() if k.startswith("task:")}
    return {k: not a.error and right(task[int(k.removeprefix("task:"))], a) for k, a in asked.items()}


def _fail(rung: Rung, failure: FailureClass, evidence: str, detail: str = "", checked: int = 0) -> Checked:
    return Checked(rung=rung, passed=False, failure=failure, evidence=evidence[:500], detail=detail, checked=checked)


def judge_answers(
    task: Sequence[TaskItem], alone: Sequence[Answer], load: Sequence[Answer], reference: Reference | None
) -> Checked:
    """The verdict on rung ANSWER: errors, empty texts, the task, coherence, the same question alone and at load."""
    everything, now = (*alone, *load), {a.key: a for a in load}
    got, asked = _score(task, now)
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
    if evidence:
        return _fail(Rung.ANSWER, failure, evidence, detail, len(load))
    return Checked(
        rung=Rung.ANSWER,
        passed=True,
        detail=detail,
        checked=len(load),
        score=got / asked if asked else None,
        answers=tuple(load),
    )


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
    got, asked = _score(task, now)
    if asked:
        return _behind(got, asked, None if before is None else _score(task, before)[0], now, task)
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


def judge_accuracy(task: Sequence[TaskItem], answers: Sequence[Answer], reference: Reference | None) -> Checked:
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
    got, _ = _score(task, now)
    asked = len(answers)
    was = _score(task, before)[0] if before else None
    detail = f"{got} of {asked} right" + (f", the reference {was}" if was is not None else "")
    detail += f", {lost} not answered" if lost else ""
    if before:
        # a collapse is what this rung refuses; what the pairs show beyond that is told beside it
        mine, theirs = (_rights(task, which) for which in ({a.key: a for a in answers}, before))
        detail += f"; {noninferiority.paired(theirs, mine, margin=MARGIN).told()}"
    floor = CONTROL * asked if was is None else was - MARGIN * asked
    if got < floor:
        return _fail(rung, wrong, detail, detail, len(now))
    return Checked(rung=rung, passed=True, detail=detail, checked=len(now), score=got / asked, answers=tuple(answers))
