"""The known issues: documents `day0/known-issue/v1`, shipped in `tools/knowledge/`, several to a file."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import Literal

from day0.runs.engine_facts import EngineFacts
from day0.runs.facts import FailureClass
from day0.runs.values import Frozen
from pydantic import Field

SCHEMA = "day0/known-issue/v1"
RemedyKind = Literal["flag", "env", "image", "patch", "codemod", "wait", "none"]


class Remedy(Frozen):
    """What helps. `flag` and `env` can be tried by day0 itself, `none` needs a person."""

    kind: RemedyKind
    text: str


class Upstream(Frozen):
    """Where it was reported and what became of it, on the day the document was written."""

    link: str
    status: Literal["open", "fixed", "workaround", "by_design", "unknown"]


class Stack(Frozen):
    """Which builds have the issue: package versions, `since` included, `before` excluded; empty = any."""

    package: str = ""
    since: str = ""
    before: str = ""

    def may_apply(self, facts: EngineFacts | None) -> bool:
        """False only where the build's package version is known to lie outside the range."""
        installed = facts.packages.get(self.package) if facts and self.package else None
        if installed is None:
            return True
        version = release(installed)
        return not (self.since and version < release(self.since)) and not (
            self.before and version >= release(self.before)
        )


class KnownIssue(Frozen):
    """One way to fail that was seen before. `symptom`: it tells that something died, not why."""

    id: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    failure: FailureClass
    signatures: tuple[str, ...] = Field(min_length=1, description="regular expressions over one line of a log")
    cause: str
    remedies: tuple[Remedy, ...] = Field(min_length=1)
    confidence: float = Field(gt=0, le=1, description="how sure a match alone makes the class")
    symptom: bool = False
    stack: Stack = Stack()
    upstream: tuple[Upstream, ...] = ()
    examples: tuple[str, ...] = Field(min_length=1, description="a line for every signature, in their order")

    def compiled(self) -> tuple[tuple[re.Pattern[bytes], bytes], ...]:
        """Each signature with its anchor. Raises `ValueError` for one whose anchor is too short to search for."""
        out = []
        for signature in self.signatures:
            anchor = longest_literal(signature)
            if len(anchor) < 4:
                raise ValueError(f"{self.id}: no text of four characters is in every match of {signature!r}")
            out.append((re.compile(signature.encode()), anchor.encode()))
        return tuple(out)


def release(version: str) -> tuple[int, ...]:
    """A version's numbers, enough to order releases: 0.5.15.post1 -> (0, 5, 15, 1); the local part is left out."""
    return tuple(int(number) for number in re.findall(r"\d+", version.partition("+")[0]))


def longest_literal(pattern: str) -> str:
    """The longest text that every match of a regular expression contains; "" when none can be told.

    Reads only the top level: groups and character classes end a run, a quantifier takes its character out.
    """
    best, run, depth, i = "", "", 0, 0
    while i < len(pattern):
        char, step = pattern[i], 1
        if char == "\\":
            char, step = (pattern[i + 1], 2) if not pattern[i + 1].isalnum() else ("", 2)
        elif char == "[":
            step, char = pattern.index("]", i + 2) - i + 1, ""
        elif char in "(|).^$*+?{}":
            if char == "|" and depth == 0:
                return ""
            depth += {"(": 1, ")": -1}.get(char, 0)
            step, char = (pattern.index("}", i) - i + 1 if char == "{" else 1), ""
        i += step
        optional = i < len(pattern) and pattern[i] in "*?{"
        run = run + char if char and depth == 0 and not optional else ""
        best = max(best, run, key=len)
    return best


@cache
def known_issues() -> tuple[KnownIssue, ...]:
    """All shipped issues, by file and place. Raises `ValueError` for a wrong document; a test reads them all."""
    import yaml

    found: list[KnownIssue] = []
    folder = files(__package__).joinpath("knowledge")
    for file in sorted((f for f in folder.iterdir() if f.name.endswith(".yaml")), key=lambda f: f.name):
        for document in yaml.safe_load_all(file.read_text()):
            if document.pop("schema", None) != SCHEMA:
                raise ValueError(f"{file.name}: a document without schema: {SCHEMA}")
            found.append(KnownIssue.model_validate(document))
    if len({issue.id for issue in found}) != len(found):
        raise ValueError("two known issues share an id")
    return tuple(found)


def known_issue(issue_id: str) -> KnownIssue | None:
    """The shipped issue of that ID; None: there is none (`unknown` is none)."""
    return next((issue for issue in known_issues() if issue.id == issue_id), None)


def codemod_of(issue_id: str) -> str:
    """The name of the codemod that repairs an issue's cause; empty: no shipped one does."""
    issue = known_issue(issue_id)
    texts = [remedy.text for remedy in issue.remedies if remedy.kind == "codemod"] if issue else []
    return texts[0].partition(":")[0].strip() if texts else ""
