"""A scripted LLM that mends engine source through the tools, as a good model would: by log, search, source, patch.

It follows the playbook until a log tells of a function that gave something else than it should, looks where that is
defined, reads the file, and writes a patch from what it read. What it knows beforehand are only the mends themselves.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping
from itertools import repeat

from day0.agent.policy.base import Asked, Told
from day0.agent.scripted_llm import COST, ScriptedLLM, advised, call, leader

MENDS: Mapping[str, str] = {
    "    return heads": "    return min(pieces * heads, 4 * 256)",
    "    return rank * (experts // 8)": (
        "    whole, rest = divmod(experts, ranks)\n    return rank * whole + min(rank, rest)"
    ),
}
"""line of a file -> what takes its place"""
DOUBTFUL = ("kv-cache-dtype", "chunked-prefill-size")
"""flags that a bundle often holds, and that are worth a boot without them"""
MADE = " by llm, changes "
"""stands in a context where a patch of the LLM's was made"""
_RUNS = re.compile(r"^The leader runs with: (.*)$", re.M)
_LAYOUT = re.compile(r"--(tp-size|dp-size) (\d+)")
_WRONG = re.compile(r"(\w+)\([\d, ]+\) = \S+, not ")
_ANSWER = re.compile(r"^<<<data answer to (\w+) (\S+)(.*?) in round \d+\n(.*?)\n>>>", re.M | re.S)
_FAILED = re.compile(r"^(\S+) \[failed", re.M)


def engineer(mends: Mapping[str, str] = MENDS) -> ScriptedLLM:
    """Reads, searches and patches; in between it follows the advice."""

    def turn(asked: Asked) -> Told:
        text = asked.messages[1].content
        asked_for = {(tool, attempt, rest) for tool, attempt, rest, _ in _ANSWER.findall(text)}
        for tool, attempt, _, body in reversed(_ANSWER.findall(text)):
            if (told := _next(tool, attempt, body, mends)) is not None and not _done(told, asked_for, text):
                return told
        for attempt in [*_FAILED.findall(text)[-1:], leader(asked)]:
            told = call("read_log", attempt=attempt, lines=200)
            if not any(tool == "read_log" and a == attempt for tool, a, _ in asked_for) and attempt not in read:
                read.add(attempt)
                return told
        if (told := _doubt(leader(asked), text, doubted)) is not None:
            return told
        advice = [dict(one) for one in advised(asked)]
        calls = tuple((str(one.pop("kind")), json.dumps(one)) for one in advice)
        return Told(text="Following the playbook.", calls=calls[:1], usage=COST, model="scripted-engineer")

    read, doubted = set[str](), set[str]()
    return ScriptedLLM(repeat(turn))


def _doubt(lead: str, text: str, doubted: set[str]) -> Told | None:
    """Once it has mended something: the leader without what often costs more than it brings, and narrower replicas."""
    found = _RUNS.search(text)
    if found is None or MADE not in text:
        return None
    claim = {"hypothesis": "the bundle hid what it costs", "expected_gain": 0.1}
    for flag in DOUBTFUL:
        if f"--{flag} " in found[1] and flag not in doubted:
            doubted.add(flag)
            return call("ablate", attempt=lead, without=[flag], **claim)
    held = {name: int(value) for name, value in _LAYOUT.findall(found[1])}
    narrow = {"tp-size": held.get("tp-size", 1) // 2, "dp-size": held.get("dp-size", 1) * 2}
    if narrow["tp-size"] and str(narrow) not in doubted:
        doubted.add(str(narrow))
        claim = {"hypothesis": "narrower replicas exchange less", "expected_gain": 0.05}
        return call("try_candidates", candidates=[{"parent": lead, "flags": narrow, **claim}])
    return None


def _next(tool: str, attempt: str, body: str, mends: Mapping[str, str]) -> Told | None:
    """What an answer leads to."""
    if tool == "read_log" and (wrong := _WRONG.search(body)):
        return call("grep_source", attempt=attempt, text=f"def {wrong[1]}(")
    if tool == "grep_source" and (place := re.match(r"(\S+?):(\d+):", body)):
        return call("read_source", attempt=attempt, path=place[1])
    if tool == "read_source":
        path, _, source = body.partition("\n")
        return _patch(attempt, path.partition(",")[0], source + "\n", mends)
    return None


def _patch(attempt: str, path: str, source: str, mends: Mapping[str, str]) -> Told | None:
    old = next((line for line in mends if f"{line}\n" in source), None)
    if old is None:
        return None
    after = source.replace(f"{old}\n", f"{mends[old]}\n")
    lines = difflib.unified_diff(
        source.splitlines(keepends=True), after.splitlines(keepends=True), f"a/{path}", f"b/{path}"
    )
    return call(
        "write_patch",
        parent=attempt,
        diff=f"diff --git a/{path} b/{path}\n" + "".join(lines),
        hypothesis=f"{old.strip()} is not what the function promises",
        expected_gain=0.5,
    )


def _done(told: Told, asked_for: set[tuple[str, str, str]], text: str) -> bool:
    """Whether that was asked or sent before."""
    name, arguments = told.calls[0]
    given = json.loads(arguments)
    if name == "grep_source":
        return any(tool == name and given["text"] in rest for tool, _, rest in asked_for)
    if name == "read_source":
        return any(tool == name and given["path"] in rest for tool, _, rest in asked_for)
    return MADE in text or "refused to try_candidate" in text
