"""A task: questions with their right answers, in a file beside the checkpoint or of the user's own."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from day0.runs.errors import UserError
from day0.runs.values import Frozen
from day0.tools.served import Answer

TASK_FILE = "day0-task.jsonl"


class TaskItem(Frozen):
    """A question with its right answer."""

    prompt: str
    answer: str


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


def right(item: TaskItem, got: Answer) -> bool:
    """The answer's first line begins with the right one and no further letter or digit."""
    text = got.text.strip()
    return text.startswith(item.answer) and not text[len(item.answer) : len(item.answer) + 1].isalnum()


def score(task: Sequence[TaskItem], answers: Mapping[str, Answer]) -> tuple[int, int]:
    """(right, asked) of the task questions among the answers."""
    asked = [(task[int(k.removeprefix("task:"))], a) for k, a in answers.items() if k.startswith("task:")]
    return sum(right(item, got) for item, got in asked), len(asked)


def rights(task: Sequence[TaskItem], answers: Mapping[str, Answer]) -> dict[str, bool]:
    """Right or wrong per task question; one that was not answered is wrong."""
    asked = {k: a for k, a in answers.items() if k.startswith("task:")}
    return {k: not a.error and right(task[int(k.removeprefix("task:"))], a) for k, a in asked.items()}
