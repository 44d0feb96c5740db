"""A task: questions with their right answers, in a file beside the checkpoint or of the user's own."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from day0.runs.errors import UserError
from day0.runs.values import Frozen
from day0.tools.served import Answer

TASK_FILE = "day0-task.jsonl"
TEMPLATES = ("chat_template.jinja", "tokenizer_config.json")
THOUGHT = re.compile(r"<think>|enable_thinking|reasoning_content")
MOST_CHARS = 1 << 22
AGREE_CHARS = 12
DEGENERATE = 0.2


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


def thinks(folder: Path) -> bool:
    """Whether the checkpoint's chat template has a place for thinking: then an answer needs room before it begins."""
    for name in TEMPLATES:
        try:
            if THOUGHT.search((folder / name).read_text(encoding="utf-8", errors="replace")[:MOST_CHARS]):
                return True
        except OSError:
            continue
    return False


def right(item: TaskItem, got: Answer) -> bool:
    """The answer's first line begins with the right one and no further letter or digit."""
    text = got.text.rpartition("</think>")[2].strip()
    return text.startswith(item.answer) and not text[len(item.answer) : len(item.answer) + 1].isalnum()


def score(task: Sequence[TaskItem], answers: Mapping[str, Answer]) -> tuple[int, int]:
    """(right, asked) of the task questions among the answers."""
    asked = [(task[int(k.removeprefix("task:"))], a) for k, a in answers.items() if k.startswith("task:")]
    return sum(right(item, got) for item, got in asked), len(asked)


def rights(task: Sequence[TaskItem], answers: Mapping[str, Answer]) -> dict[str, bool]:
    """Right or wrong per task question; one that was not answered is wrong."""
    asked = {k: a for k, a in answers.items() if k.startswith("task:")}
    return {k: not a.error and right(task[int(k.removeprefix("task:"))], a) for k, a in asked.items()}


def agrees(one: Answer, other: Answer) -> bool:
    """Greedy texts agree when they begin alike: rounding of another kernel lets long ones part in the end."""
    return bool(one.text) and one.text[:AGREE_CHARS] == other.text[:AGREE_CHARS]


def degenerate(text: str) -> bool:
    """Long, and made of few different pieces of four characters: a stuck loop."""
    pieces = [text[i : i + 4] for i in range(len(text) - 3)]
    return len(pieces) >= 32 and len(set(pieces)) < DEGENERATE * len(pieces)
