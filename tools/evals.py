"""Full evals of the winner (tier 2): tasks from the user's files, of the schemas that the field's benchmarks have.

JSON lines of GSM8K (`question`, `answer` that ends with `#### 42`), of GPQA (`Question`, `Correct Answer`, `Incorrect
Answer 1` to `3`), or plain (`prompt`, `answer`); a task of lm-eval's own as YAML with its data beside it; or a command
that asks the server by itself (tau2, say). Nothing is downloaded. Pure but for reading the user's files.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from day0.runs.errors import Infrastructure, UserError
from day0.runs.values import Frozen, sha256
from day0.tools.served import Answer, Question
from pydantic import Field

MARGIN = 0.01
"""One point."""
ROOM, THINKING_ROOM = 2048, 32768
"""tokens of an answer; of a model whose reasoning the server splits off"""
READABLE = 0.9
"""Of the control's answers must be readable: else the eval is broken, not the model (thinking ate its room)."""
MOST_BYTES = 64 << 20
Kind = Literal["gsm8k", "gpqa", "plain", "lm-eval", "command"]
SHAPES: tuple[tuple[Kind, tuple[str, ...]], ...] = (
    ("gpqa", ("Question", "Correct Answer", "Incorrect Answer 1")),
    ("gsm8k", ("question", "answer")),
    ("plain", ("prompt", "answer")),
)
NUMBER = r"(-?[0-9][0-9,]*\.?[0-9]*)"
READS = {"gsm8k": NUMBER, "gpqa": r"\(?\b([A-D])\b\)?", "plain": r"(\S+)"}
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,40}\Z")


class Eval(Frozen):
    """One task, pinned by its content."""

    name: str
    kind: Kind
    file: str = ""
    pinned: str = Field(default="", description="sha256 of the file")
    margin: float = Field(default=MARGIN, gt=0, lt=1)
    command: tuple[str, ...] = Field(default=(), description="with {base_url}, {model} and {out}")


class Row(Frozen):
    """One question: whether the answer is right, and whether one could be read at all."""

    key: str
    right: bool
    answered: bool = True


class Scores(Frozen):
    """What a configuration scored."""

    task: str
    rows: tuple[Row, ...]
    by: str = Field(default="", description="who answered, in words; empty: a configuration on this node")

    @property
    def share(self) -> float:
        """Of right answers."""
        return sum(r.right for r in self.rows) / len(self.rows) if self.rows else 0.0

    def rights(self) -> dict[str, bool]:
        """By question."""
        return {row.key: row.right for row in self.rows}


def asked(words: Sequence[str], commands: Sequence[str], margin_points: float | None) -> tuple[Eval, ...]:
    """From the command line: `NAME=FILE` each, and `NAME=COMMAND`. Raises `UserError`."""
    margin = MARGIN if margin_points is None else margin_points / 100
    if not 0 < margin < 1:
        raise UserError(f"a margin of {margin_points} points makes no sense: 1 is what most people accept")
    made = [_file(*_split(word), margin) for word in words] + [_command(*_split(word), margin) for word in commands]
    if len({e.name for e in made}) != len(made):
        raise UserError("two evals have the same name")
    return tuple(made)


def _split(word: str) -> tuple[str, str]:
    name, _, rest = word.partition("=")
    if not _NAME.match(name) or not rest:
        raise UserError(f"`{word}`: an eval is NAME=FILE, its name of small letters, digits, - and _")
    return name, rest


def _command(name: str, text: str, margin: float) -> Eval:
    argv = tuple(shlex.split(text))
    if not any("{base_url}" in word for word in argv) or not any("{out}" in word for word in argv):
        raise UserError(f"eval `{name}`: the command must name {{base_url}}, the server, and {{out}}, where it writes")
    return Eval(name=name, kind="command", command=argv, margin=margin)


def _file(name: str, text: str, margin: float) -> Eval:
    path = Path(text).expanduser().absolute()
    data = _read(path)
    made = Eval(name=name, kind=_kind(path, data), file=str(path), pinned=sha256(data), margin=margin)
    if made.kind == "lm-eval":
        files(made)
    else:
        prepared(made, data)
    return made


def _read(path: Path) -> bytes:
    try:
        if path.stat().st_size > MOST_BYTES:
            raise UserError(f"{path} is larger than {MOST_BYTES >> 20} MiB")
        return path.read_bytes()
    except OSError as error:
        raise UserError(f"{path} can't be read: {(error.strerror or 'unknown error').lower()}") from None


def _pinned(task: Eval) -> bytes:
    data = _read(Path(task.file))
    if sha256(data) != task.pinned:
        raise Infrastructure(f"{task.file} is not what the run was asked with: submit it again")
    return data


def _kind(path: Path, data: bytes) -> Kind:
    if path.suffix in {".yaml", ".yml"}:
        return "lm-eval"
    first = _lines(path, data)[0]
    found = next((kind for kind, keys in SHAPES if all(key in first for key in keys)), None)
    if found is None:
        raise UserError(f"{path}, line 1: neither GSM8K's, GPQA's nor prompt and answer: it has {', '.join(first)}")
    return found


def _lines(path: Path, data: bytes) -> list[dict[str, Any]]:
    out = []
    for number, line in enumerate(data.decode(errors="replace").splitlines(), 1):
        try:
            value = json.loads(line)
        except ValueError:
            raise UserError(f"{path}, line {number} is no JSON") from None
        if not isinstance(value, dict):
            raise UserError(f"{path}, line {number} is no JSON object")
        out.append(value)
    if not out:
        raise UserError(f"{path} is empty")
    return out


def prepared(task: Eval, data: bytes) -> list[dict[str, str]]:
    """Every question as it is put, with the answer that must be read. Raises `UserError` with the line."""
    out = []
    for number, row in enumerate(_lines(Path(task.file), data), 1):
        try:
            out.append(_prepared(task.kind, row))
        except (KeyError, TypeError):
            raise UserError(f"{task.file}, line {number}: {task.kind} needs other keys than {', '.join(row)}") from None
    return out


def _prepared(kind: Kind, row: Mapping[str, Any]) -> dict[str, str]:
    if kind == "gsm8k":
        target = str(row["answer"]).rpartition("#### ")[2].strip()
        return {"prompt": f"{row['question']}\nEnd with the number alone.", "target": target}
    if kind == "plain":
        return {"prompt": str(row["prompt"]), "target": str(row["answer"])}
    choices = [str(row[key]) for key in ("Correct Answer", *(f"Incorrect Answer {n}" for n in (1, 2, 3)))]
    order = random.Random(str(row["Question"])).sample(range(4), 4)
    told = "\n".join(f"({letter}) {choices[n]}" for letter, n in zip("ABCD", order, strict=True))
    prompt = f"{row['Question']}\n{told}\nEnd with: The answer is (X)."
    return {"prompt": prompt, "target": "ABCD"[order.index(0)]}


def questions(task: Eval, room: int) -> list[Question]:
    """What lm-eval asks of a file of known form, each known by its content as there. Raises as `files`."""
    return [Question(key=_key(task, r), prompt=r["prompt"], max_tokens=room) for r in prepared(task, _pinned(task))]


def scored(task: Eval, answers: Sequence[Answer], by: str) -> Scores:
    """Answers of somebody outside, read as lm-eval reads them (`_document`), without what failed. Raises as `files`."""
    said = {a.key: a.text for a in answers if not a.error}
    out = {}
    for row in prepared(task, _pinned(task)):
        if _key(task, row) not in said:
            continue
        found = re.findall(READS[task.kind], said[_key(task, row)])
        picked = (found[0] if task.kind == "plain" else found[-1]) if found else ""
        right = bool(picked) and _bare(picked) == _bare(row["target"])
        out[_key(task, row)] = Row(key=_key(task, row), right=right, answered=bool(picked))
    return Scores(task=task.name, rows=tuple(out[key] for key in sorted(out)), by=by)


def _key(task: Eval, row: Mapping[str, str]) -> str:
    """A question's name in `day0.tools.harness.evaluate`."""
    return f"{task.name}:{hashlib.sha256(json.dumps(row, sort_keys=True).encode()).hexdigest()[:16]}"


def _bare(text: str) -> str:
    return re.sub(r"[,$]|\.$", "", text).lower()


def files(task: Eval) -> dict[str, bytes]:
    """What lies in the sandbox for lm-eval: the task as YAML, and its data. Raises `UserError`, `Infrastructure`."""
    data = _pinned(task)
    if task.kind == "lm-eval":
        return _own(task, data)
    rows = prepared(task, data)
    body = "".join(json.dumps(row) + "\n" for row in rows).encode()
    return {f"{task.name}.jsonl": body, f"{task.name}.yaml": json.dumps(_document(task)).encode()}


def _document(task: Eval) -> dict[str, Any]:
    """JSON is YAML."""
    first = task.kind == "plain"
    pick = {"function": "regex", "group_select": 0 if first else -1, "regex_pattern": READS[task.kind]}
    return {
        "task": task.name,
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": f"task/{task.name}.jsonl"}},
        "test_split": "test",
        "output_type": "generate_until",
        "doc_to_text": "{{prompt}}",
        "doc_to_target": "{{target}}",
        "generation_kwargs": {"until": [], "do_sample": False, "temperature": 0.0},
        "filter_list": [{"name": "read", "filter": [pick, {"function": "take_first"}]}],
        "metric_list": [
            {
                "metric": "exact_match",
                "aggregation": "mean",
                "higher_is_better": True,
                "ignore_case": True,
                "regexes_to_ignore": [",", "\\$", "\\.$"],
            }
        ],
    }


def _own(task: Eval, data: bytes) -> dict[str, bytes]:
    """A user's own task of lm-eval: plain YAML, data beside it; code in it is not run."""
    import yaml

    path = Path(task.file)
    try:
        value = yaml.safe_load(data)
        named = value["dataset_kwargs"]["data_files"]
    except yaml.YAMLError as error:
        raise UserError(f"{path} can't be read as plain YAML (functions in it are not run): {error}"[:300]) from None
    except (KeyError, TypeError):
        raise UserError(
            f"{path} names no data files: dataset_path: json, dataset_kwargs: data_files: test: FILE"
        ) from None
    held = named if isinstance(named, dict) else {"test": named}
    out = {}
    for split, name in held.items():
        beside = path.parent / str(name)
        if beside.parent != path.parent:
            raise UserError(f"{path}: {name} must lie beside it")
        out[beside.name] = _read(beside)
        held = {**held, split: f"task/{beside.name}"}
    value = {**value, "task": task.name, "dataset_path": "json", "dataset_kwargs": {"data_files": held}}
    return {**out, f"{task.name}.yaml": json.dumps(value).encode()}


def broken(control: Scores) -> str:
    """Why a task says nothing about a candidate: its control, a configuration known to be good, fails (S35)."""
    if not control.rows:
        return "not one question was answered"
    read = sum(row.answered for row in control.rows) / len(control.rows)
    if read < READABLE:
        return f"only {read:.0%} of the reference's own answers could be read: its room for tokens is too small, say"
    return "" if control.share > 0 else "the reference itself gets nothing right"
