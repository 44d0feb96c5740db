from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from day0.runs.errors import UserError
from day0.runs.facts import FailureClass
from day0.tools.bench import Answer, Question
from day0.tools.canary import TaskItem, accuracy, agrees, answer, degenerate, judge_accuracy, right, task_of

TASK = tuple(TaskItem(prompt=f"{a}+{a + 7}=", answer=str(2 * a + 7)) for a in range(10, 90))


class Talker:
    """Answers sums rightly, except where `wrong` says so, and prose with the same words each time."""

    def __init__(
        self, wrong: float = 0.0, *, prose: str = "and then the {n} rabbit", error: str = "", shaky: bool = False
    ) -> None:
        self.wrong, self.prose, self.error, self.shaky = wrong, prose, error, shaky
        self.concurrencies: list[int] = []

    def ask(
        self, questions: Sequence[Question], server: object, *, concurrency: int, temperature: float = 0.0
    ) -> tuple[Answer, ...]:
        assert temperature == 0
        self.concurrencies.append(concurrency)
        return tuple(self.one(q, i, concurrency) for i, q in enumerate(questions))

    def one(self, q: Question, i: int, concurrency: int) -> Answer:
        if self.error:
            return Answer(key=q.key, error=self.error)
        if q.key.startswith("task:"):
            a, b = q.prompt.rstrip("=").split("+")
            off = hash(q.prompt) % 1 if self.wrong == 0 else (int(a) % 20) < 20 * self.wrong
            return Answer(key=q.key, text=str(int(a) + int(b) + bool(off)))
        if q.key.startswith("long:"):
            return Answer(key=q.key, text="7341" if "7341" in q.prompt else "?")
        return Answer(key=q.key, text=self.prose.format(n=q.key) + (str(concurrency) if self.shaky else ""))


def try_answer(talker: Talker, reference=None, task=TASK):
    return answer(talker, None, task=task, concurrency=16, long_chars=2000, reference=reference)  # type: ignore[arg-type]


def try_accuracy(talker: Talker, reference=None, task=TASK):
    return accuracy(talker, None, task=task, concurrency=16, reference=reference)  # type: ignore[arg-type]


def test_a_right_baseline_passes_and_becomes_the_reference() -> None:
    talker = Talker()
    got = try_answer(talker)
    assert got.passed and got.score == 1.0 and got.checked == len(got.answers) == 24 + 8 + 1
    assert talker.concurrencies == [1, 16]
    assert try_answer(Talker(), got.answers).passed
    assert got.verdict().passed and "24 of 24" in got.verdict().detail


def test_s34_fast_but_wrong_is_refused_with_and_without_a_reference() -> None:
    fine = try_answer(Talker()).answers
    for reference in (None, fine):
        got = try_answer(Talker(wrong=1.0), reference)
        assert not got.passed and got.failure == FailureClass.ACCURACY_WRONG_OUTPUT
        assert "0 of 24 right" in got.evidence and "right is" in got.evidence


def test_s34_zero_checked_items_is_a_failure() -> None:
    for got in (
        judge_accuracy(TASK, (), None),
        judge_accuracy(TASK, (Answer(key="task:0", error="timeout"),), None),
        judge_accuracy(TASK, (Answer(key="task:0", text="27"),), (Answer(key="task:5", text="x"),)),
    ):
        assert not got.passed and "zero items were checked" in got.evidence


def test_accuracy_allows_five_points_and_no_more() -> None:
    reference = try_accuracy(Talker()).answers
    assert len(reference) == len(TASK)
    assert try_accuracy(Talker(wrong=0.05), reference).passed
    got = try_accuracy(Talker(wrong=0.1), reference)
    assert not got.passed and "72 of 80 right, the reference 80" in got.evidence


def test_s35_a_baseline_that_fails_its_own_control_is_refused() -> None:
    got = try_accuracy(Talker(wrong=0.8))
    assert not got.passed and got.failure == FailureClass.ACCURACY_WRONG_OUTPUT


def test_unanswered_questions_are_wrong_and_shown() -> None:
    reference = try_accuracy(Talker()).answers
    half = [a if i % 2 else Answer(key=a.key, error="HTTP 500") for i, a in enumerate(reference)]
    got = judge_accuracy(TASK, half, reference)
    assert not got.passed and "40 not answered" in got.evidence
    got = try_answer(Talker(error="HTTP 503: busy"))
    assert not got.passed and "HTTP 503" in got.evidence


def test_without_a_task_texts_are_compared_and_it_says_so() -> None:
    reference = (*try_answer(Talker(), task=()).answers, *try_accuracy(Talker(), task=()).answers)
    got = try_accuracy(Talker(), reference, task=())
    assert got.passed and got.checked == 40 and "no task file" in got.detail
    assert not try_accuracy(Talker(prose="zzz {n}"), reference, task=()).passed
    assert not try_answer(Talker(prose="zzz {n}"), reference, task=()).passed


def test_a_stuck_loop_counts_only_where_the_reference_is_not_stuck() -> None:
    loop = "ab" * 40
    reference = try_answer(Talker()).answers
    got = try_answer(Talker(prose=loop), reference)
    assert not got.passed and "repeats itself" in got.evidence
    assert try_answer(Talker(prose=loop), try_answer(Talker(prose=loop)).answers).passed


def test_an_empty_answer_is_wrong() -> None:
    reference = try_answer(Talker()).answers
    assert "empty answer to prose:0 (8 in all)" in try_answer(Talker(prose=""), reference).evidence
    assert "empty answer" in try_answer(Talker(prose=""), task=()).evidence
    silent = try_answer(Talker(prose=""))  # right in its task, and prose is nothing to it: that is the model
    assert silent.passed and try_answer(Talker(prose=""), silent.answers).passed


def test_answers_that_change_at_load_are_wrong() -> None:
    got = try_answer(Talker(prose="{n}", shaky=True), task=())
    assert not got.passed and "change at load" in got.evidence


def test_blind_at_long_context_where_the_reference_sees() -> None:
    reference = try_answer(Talker()).answers
    talker = Talker()
    talker.one = lambda q, i, c: Answer(key=q.key, text="no idea") if q.key == "long:0" else Talker.one(talker, q, i, c)  # type: ignore[method-assign]
    got = try_answer(talker, reference)
    assert not got.passed and "long context" in got.evidence


def test_right_is_the_whole_number() -> None:
    item = TaskItem(prompt="1+1=", answer="2")
    assert right(item, Answer(key="k", text=" 2")) and right(item, Answer(key="k", text="2</s>"))
    assert not right(item, Answer(key="k", text="22")) and not right(item, Answer(key="k", text="the 2"))
    assert not agrees(Answer(key="k"), Answer(key="k"))
    assert (
        degenerate("x" * 60)
        and not degenerate("short")
        and not degenerate("The quick brown fox jumps over the lazy dog.")
    )


def test_the_task_file_names_the_line_it_cannot_read(tmp_path: Path) -> None:
    assert task_of(tmp_path) == ()
    file = tmp_path / "day0-task.jsonl"
    file.write_text(json.dumps({"prompt": "1+1=", "answer": "2"}) + "\n")
    assert task_of(tmp_path) == (TaskItem(prompt="1+1=", answer="2"),)
    file.write_text('{"prompt": "1+1=", "answer": "2"}\n{"question": 3}\n')
    with pytest.raises(UserError, match="line 2"):
        task_of(tmp_path)
