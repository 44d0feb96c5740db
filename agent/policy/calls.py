"""An LLM's tool calls: the schemas it is shown, and how its answers become typed calls or a reason why not."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from day0.agent.policy.actions import (
    Action,
    Finish,
    GrepSource,
    ReadLog,
    ReadSource,
    SearchUpstream,
    Sweep,
    TryCandidate,
)
from day0.agent.policy.tools import (
    Ablate,
    ApplyCodemod,
    AtOnce,
    BuildImage,
    Making,
    ReadHelp,
    SearchKnownIssues,
    TryCandidates,
    TuneKernels,
    WritePatch,
)
from day0.runs.errors import Refused
from day0.runs.values import Frozen
from pydantic import ValidationError

if TYPE_CHECKING:
    from day0.agent.policy.base import RunView

MAX_ARGUMENTS = 80_000

TOOLS: dict[str, type[Frozen]] = {
    "try_candidates": TryCandidates,
    "sweep": Sweep,
    "write_patch": WritePatch,
    "apply_codemod": ApplyCodemod,
    "build_image": BuildImage,
    "tune_kernels": TuneKernels,
    "ablate": Ablate,
    "read_log": ReadLog,
    "grep_source": GrepSource,
    "read_source": ReadSource,
    "search_known_issues": SearchKnownIssues,
    "search_upstream": SearchUpstream,
    "read_help": ReadHelp,
    "finish": Finish,
}
KNOWN: dict[str, type[Frozen]] = {**TOOLS, "try_candidate": TryCandidate}
"""also understood, though not offered: one candidate, by the shared action itself"""
FLAGGED = ("flags", "space")
"""arguments whose keys are flag names"""
Call = Action | Making | AtOnce


def schema(name: str) -> dict[str, Any]:
    """A tool as the OpenAI tools API wants it. Raises KeyError for a tool that doesn't exist."""
    from day0.agent.policy.critic import VERDICT, Objection

    model = Objection if name == VERDICT else KNOWN[name]
    parameters = model.model_json_schema()
    parameters.get("properties", {}).pop("kind", None)
    parameters.pop("title", None)
    parameters.pop("description", None)
    for described in parameters.get("properties", {}).values():
        described.pop("title", None)
    doc = " ".join((model.__doc__ or "").split())
    return {"type": "function", "function": {"name": name, "description": doc, "parameters": parameters}}


def parse(name: str, arguments: str) -> Call:
    """A raw call as a typed one. Raises `Refused` with one sentence that says what is wrong with it."""
    if name not in KNOWN:
        raise Refused(f"there is no tool {name[:60]!r}; the tools are {', '.join(TOOLS)}")
    given = arguments_of(name, arguments)
    try:
        call: Any = KNOWN[name].model_validate(_tidy(given))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(p) for p in first["loc"] if p != name) or "arguments"
        raise Refused(f"{name}: {where}: {first['msg']}") from None
    return call  # type: ignore[no-any-return]


def arguments_of(name: str, arguments: str) -> dict[str, Any]:
    """A call's arguments as an object, without `kind`, which the tool's name tells. Raises `Refused`."""
    if len(arguments) > MAX_ARGUMENTS:
        raise Refused(f"{name}: {len(arguments)} characters of arguments; {MAX_ARGUMENTS} are the limit")
    try:
        given = json.loads(arguments or "{}", parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise Refused(f"{name}: the arguments are not JSON ({str(error)[:120]})") from None
    if not isinstance(given, dict):
        raise Refused(f"{name}: the arguments must be a JSON object")
    return {key: value for key, value in given.items() if key != "kind"}


def actions_of(call: Action | Making, view: RunView) -> Sequence[Action]:
    """The shared actions that a call stands for. Raises `Refused` where it can't be any."""
    if isinstance(call, Making):
        return call.actions(view)
    return [call]


def _no_constant(text: str) -> None:
    raise ValueError(f"{text} is not a JSON number")


def _tidy(given: dict[str, Any]) -> dict[str, Any]:
    """Flag names as day0 writes them: no dashes in front, dashes inside; also in a list of candidates."""
    out = dict(given)
    for key in FLAGGED:
        if isinstance(named := out.get(key), dict):
            out[key] = {str(k).strip().lstrip("-").replace("_", "-"): v for k, v in named.items()}
    if isinstance(several := out.get("candidates"), list):
        out["candidates"] = [_tidy(one) if isinstance(one, dict) else one for one in several]
    return out
