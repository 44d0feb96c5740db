"""An LLM's tool calls: the schemas it is shown, and how its answers become typed actions or a reason why not."""

from __future__ import annotations

import json
from typing import Any

from day0.agent.policy.actions import Action, Finish, ReadLog, TryCandidate
from day0.runs.errors import Refused
from day0.runs.values import Frozen
from pydantic import Field, TypeAdapter, ValidationError

MAX_ARGUMENTS = 80_000


class ReadHelp(Frozen):
    """Show what the engine's own --help says about flags whose name or text contains a word."""

    word: str = Field(min_length=2, max_length=60)


TOOLS: dict[str, type[Frozen]] = {
    "try_candidate": TryCandidate,
    "read_log": ReadLog,
    "read_help": ReadHelp,
    "finish": Finish,
}
_ACTION: TypeAdapter[Action] = TypeAdapter(Action)


def schema(name: str) -> dict[str, Any]:
    """A tool as the OpenAI tools API wants it. Raises KeyError for a tool that doesn't exist."""
    model = TOOLS[name]
    parameters = model.model_json_schema()
    parameters.get("properties", {}).pop("kind", None)
    parameters.pop("title", None)
    parameters.pop("description", None)
    for described in parameters.get("properties", {}).values():
        described.pop("title", None)
    doc = " ".join((model.__doc__ or "").split())
    return {"type": "function", "function": {"name": name, "description": doc, "parameters": parameters}}


def parse(name: str, arguments: str) -> Action | ReadHelp:
    """A raw call as a typed action. Raises `Refused` with one sentence that says what is wrong with it."""
    if name not in TOOLS:
        raise Refused(f"there is no tool {name[:60]!r}; the tools are {', '.join(TOOLS)}")
    if len(arguments) > MAX_ARGUMENTS:
        raise Refused(f"{name}: {len(arguments)} characters of arguments; {MAX_ARGUMENTS} are the limit")
    try:
        given = json.loads(arguments or "{}", parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise Refused(f"{name}: the arguments are not JSON ({str(error)[:120]})") from None
    if not isinstance(given, dict):
        raise Refused(f"{name}: the arguments must be a JSON object")
    if name == "try_candidate":
        given = _tidy(given)
    try:
        if name == "read_help":
            return ReadHelp.model_validate(given)
        return _ACTION.validate_python({**given, "kind": name})
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(p) for p in first["loc"] if p != name) or "arguments"
        raise Refused(f"{name}: {where}: {first['msg']}") from None


def _no_constant(text: str) -> None:
    raise ValueError(f"{text} is not a JSON number")


def _tidy(given: dict[str, Any]) -> dict[str, Any]:
    """Flag names as day0 writes them: no dashes in front, dashes inside."""
    flags = given.get("flags")
    if isinstance(flags, dict):
        given = {**given, "flags": {str(k).strip().lstrip("-").replace("_", "-"): v for k, v in flags.items()}}
    return given
