"""Failures that runs saw before, in the form of known issues; and how one is made from an evidence line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from day0.runs.engine_facts import EngineFacts
from day0.runs.facts import FailureClass
from day0.runs.learned import Learned
from day0.tools.anchors import anchors_of
from day0.tools.known import KnownIssue, Remedy, Stack

LONGEST = 300
CONFIDENCE = 0.8
DECIDING = ("sglang", "vllm", "atom", "aiter", "torch", "triton", "sgl-kernel", "transformers")
"""packages of which another version makes another stack"""
_LAST_WORD = re.compile(r"^.*?; (?:its last word|last line|known issue): ")
_CHANGES = re.compile(r"0x[0-9a-fA-F]+|(?<![A-Za-z_])\d+(?:\.\d+)*|(?:/[\w.@+-]+){2,}|\b[0-9a-f]{12,}\b")
_ERROR = re.compile(r"Error|Exception|error|fail|fault|abort|assert|not |no |unable|invalid", re.IGNORECASE)
_STAMP = re.compile(r"^(?:\[[^\]]*\]\s*|\([^)]*\)\s*)+")
_ANY = ".{0,160}?"


def packages_of(facts: EngineFacts) -> dict[str, str]:
    """The versions that decide whether a build is the same stack."""
    return {name: facts.packages[name] for name in DECIDING if name in facts.packages}


def line_of(evidence: str) -> str:
    """The log's own line within a verdict's evidence; empty where it says nothing that could be met again."""
    line = _STAMP.sub("", _LAST_WORD.sub("", evidence)).strip()[:LONGEST]
    return line if _ERROR.search(line) else ""


def signature_of(line: str) -> str:
    """A regular expression for a line with other numbers, addresses and paths; empty for one with too little text."""
    words = [re.escape(part) for part in _CHANGES.split(line)]
    signature = _ANY.join(words)
    try:
        longest = max(map(len, anchors_of(signature)))
    except ValueError:
        return ""
    return signature if longest >= 12 else ""


def issues_of(learned: Iterable[Learned], facts: EngineFacts | None = None) -> tuple[KnownIssue, ...]:
    """Known issues of what was learned on this very stack; without facts all, less sure. What mended comes first."""
    groups: dict[str, list[Learned]] = {}
    for one in learned:
        if facts is None or (one.build == facts.build and dict(one.packages) == packages_of(facts)):
            groups.setdefault(one.id, []).append(one)
    return tuple(_issue(name, groups[name], sure=facts is not None) for name in sorted(groups))


def _issue(name: str, group: list[Learned], *, sure: bool) -> KnownIssue:
    ordered = sorted(group, key=lambda one: (not one.mended, one.key))
    first = ordered[0]
    stack = ", ".join(f"{package} {version}" for package, version in first.packages.items()) or first.build[:19]
    return KnownIssue(
        id=name,
        failure=FailureClass(first.failure),
        signatures=(first.signature,),
        cause=f"Seen before, in {first.attempt or first.run}, on {stack}; why is not known.",
        remedies=tuple(_remedy(one) for one in ordered),
        confidence=CONFIDENCE if sure else CONFIDENCE / 2,
        stack=(Stack(build=first.build),),
        examples=(first.example,),
    )


def _remedy(one: Learned) -> Remedy:
    told = [f"--{k} {'left out' if v is None else v}" for k, v in one.flags.items()]
    told += [f"{k} {'not set' if v is None else '= ' + v}" for k, v in one.env.items()]
    said = "it worked with" if one.mended else "it came with a change; without it:"
    return Remedy(kind="flag" if one.flags else "env", text=f"{said} {', '.join(told)}", flags=one.flags, env=one.env)


def match(evidence: str, issues: Sequence[KnownIssue]) -> str:
    """The learned issue whose line an evidence is; empty: none."""
    line = line_of(evidence)
    hit = (i.id for i in issues if line and any(re.search(p, line) for p in i.signatures))
    return next(hit, "")
