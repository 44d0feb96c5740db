"""Documents: YAML with `schema: day0/KIND/vN`. What does not fit is one sentence with file and line."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin

from day0.runs import trace
from day0.runs.errors import UserError
from day0.runs.values import Frozen
from day0.runs.workload import Target, Workload
from day0.runs.yaml_text import Lines, Malformed, parse
from pydantic import BaseModel, ValidationError

F = TypeVar("F", bound=Frozen)
MAX_BYTES = 2**20
VERSIONS = {"workload": (1,), "target": (1,), "recipe": (1,), "known-issue": (1,), "world": (1,)}
"""Every version of a kind that this day0 reads, oldest first; the last is the one it writes."""
TRACED = ("input_tokens", "output_tokens", "cached_share", "prefixes", "longest_tokens", "trace_digest")
"""Keys of a workload that are its trace's to say; the last two nobody else has."""


Fill = Callable[[dict[str, Any], Callable[[str], int]], None]
"""Completes a document's data before it is checked; gets the line of a key too. Raises `UserError`."""


def load(source: Path | str, kind: str, model: type[F], *, name: str = "document", fill: Fill | None = None) -> F:
    """The document in a file (a `Path`) or in text (a `str`, called `name` in messages).

    Raises `UserError` that names file and line: not readable, not YAML, another kind, a version this day0 does
    not know, unknown or repeated keys (with those that are allowed), wrong types, values out of range.
    """
    text, name = (_text(source), str(source)) if isinstance(source, Path) else (source, name)
    try:
        data, lines = parse(text)
    except Malformed as error:
        raise UserError(f"{name}:{error.line}: {error.why}") from None
    except RecursionError:
        raise UserError(f"{name}:1: nested too deeply") from None
    if not isinstance(data, dict):
        raise UserError(f"{name}:1: a document is a list of `key: value` lines that begins with {_schema(kind)}")
    _check_schema(data.pop("schema", None), kind, f"{name}:{lines.get(('schema',), 1)}")
    if fill is not None:
        fill(data, lambda key: lines.get((key,), 1))
    try:
        return model.model_validate_json(json.dumps(data), strict=True)
    except ValidationError as error:
        raise UserError(_first(error, model, name, lines)) from None


def _text(path: Path) -> str:
    try:
        if path.is_dir():
            raise UserError(f"{path} is a folder, not a document")
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise UserError(f"{path} can't be read: {(error.strerror or 'unknown error').lower()}") from None
    if len(data) > MAX_BYTES:
        raise UserError(f"{path} is larger than {MAX_BYTES >> 20} MiB: not a document")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise UserError(f"{path} is not UTF-8 text") from None


def _schema(kind: str) -> str:
    return f"`schema: day0/{kind}/v{VERSIONS[kind][-1]}`"


def _check_schema(found: object, kind: str, where: str) -> None:
    if found is None:
        raise UserError(f"{where}: the line {_schema(kind)} is missing")
    known = {f"day0/{kind}/v{version}" for version in VERSIONS[kind]}
    if not isinstance(found, str) or found not in known:
        raise UserError(
            f"{where}: schema `{str(found)[:80]}` is not one that this day0 reads here ({', '.join(sorted(known))})"
        )


def _first(error: ValidationError, model: type[Frozen], name: str, lines: Lines) -> str:
    """The first thing wrong, by line, as one sentence."""
    problems = error.errors(include_url=False, include_context=True)
    # a mistyped required key is both unknown and missing: the first says where it stands
    problem = min(problems, key=lambda problem: (problem["type"] == "missing", _line(problem["loc"], lines)))
    path, line = tuple(problem["loc"]), _line(problem["loc"], lines)
    key = ".".join(map(str, path if problem["type"] == "missing" else _known_prefix(path, lines))) or "document"
    if problem["type"] == "extra_forbidden":
        allowed = ", ".join(_fields(model, path[:-1]))
        return f"{name}:{line}: unknown key `{path[-1]}`; allowed here: {allowed}"
    if problem["type"] == "missing":
        return f"{name}:{line}: `{key}` is missing"
    given = problem.get("input")
    told = "" if isinstance(given, (dict, list, type(None))) else f", not {json.dumps(given, default=str)[:80]}"
    return f"{name}:{line}: `{key}`: {_lower(problem['msg'])}{told}"


def _lower(message: str) -> str:
    message = message.removeprefix("Value error, ")
    return message[:1].lower() + message[1:]


def _known_prefix(path: Sequence[str | int], lines: Lines) -> tuple[str | int, ...]:
    """Pydantic's paths also name union members; only what stands in the file has a line."""
    known: tuple[str | int, ...] = ()
    for part in path:
        if (*known, part) in lines:
            known = (*known, part)
    return known


def _line(path: Sequence[str | int], lines: Lines) -> int:
    return lines[_known_prefix(path, lines)]


def _fields(model: type[BaseModel], path: Sequence[str | int]) -> list[str]:
    """Keys allowed at a path: descends through the fields' types as far as they are models."""
    for part in path:
        field = model.model_fields.get(str(part))
        if field is not None:
            inner = _model_in(field.annotation)
            if inner is not None:
                model = inner
    return [*model.model_fields]


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if get_origin(annotation) in (Union, UnionType, tuple, list):
        return next((found for found in map(_model_in, get_args(annotation)) if found), None)
    return None


# ---- what ships with day0
def names(kind: str) -> tuple[str, ...]:
    """Names of the shipped documents of a kind, sorted."""
    folder = files("day0.runs") / "library" / kind
    return tuple(sorted(item.name.removesuffix(".yaml") for item in folder.iterdir() if item.name.endswith(".yaml")))


def shipped(kind: str, name: str) -> Path:
    """The file of a shipped document. Raises `UserError` with the names there are."""
    known = names(kind)
    if name not in known:
        raise UserError(f"there is no {kind} `{name}`: take one of {', '.join(known)}, or the path of a YAML file")
    return Path(str(files("day0.runs") / "library" / kind / f"{name}.yaml"))


def workload(name_or_file: str) -> Workload:
    """A shipped workload by name, or one's own by its file's path; with what its trace says. Raises `UserError`."""
    path = _find("workload", name_or_file)

    def fill(data: dict[str, Any], line: Callable[[str], int]) -> None:
        file = data.get("trace")
        for key in TRACED if data.get("arrival") == "trace" else TRACED[-2:]:
            if key in data:
                raise UserError(f"{path}:{line(key)}: `{key}` comes from the trace itself: leave it out")
        if data.get("arrival") == "trace" and isinstance(file, str) and file:
            place = Path(path).parent / file
            found, digest = trace.read(place)
            if data.get("text") == "trace" and not found.texts:
                raise UserError(f"{path}:{line('text')}: no request of {place} has a `text`")
            data |= {**found.workload(), "trace": str(place.resolve()), "trace_digest": digest}
        elif data.get("arrival") == "trace":
            data |= {"input_tokens": 1, "output_tokens": 1}  # what is wrong with `trace` is said below

    return load(path, "workload", Workload, fill=fill)


def target(name_or_file: str) -> Target:
    """A shipped target by name, or one's own by the path of its file. Raises `UserError`."""
    return load(_find("target", name_or_file), "target", Target)


def _find(kind: str, name_or_file: str) -> Path:
    own = Path(name_or_file)
    try:
        looks_like_file = own.suffix in {".yaml", ".yml"} or "/" in name_or_file or own.is_file()
    except OSError as error:  # a name that no file system takes
        raise UserError(f"{kind} {name_or_file[:80]!r} can't be read: {(error.strerror or 'error').lower()}") from None
    return own if looks_like_file else shipped(kind, name_or_file)
