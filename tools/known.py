"""The known issues: documents `day0/known-issue/v1`, shipped in `tools/knowledge/`, several to a file.

Two kinds of document share one form. A known issue is one defect of certain builds, with its report and its remedies.
A general form (`general: true`) is a way in which servers of this stack fail whatever the defect: it gives the class of
a failure that nobody has reported yet, and never an issue's name.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from itertools import pairwise
from typing import Any, Literal, Self

from day0.runs.engine_facts import EngineFacts
from day0.runs.facts import FailureClass
from day0.runs.values import Frozen, Map
from day0.runs.workload import FlagValue
from day0.tools.anchors import anchors_of
from pydantic import Field, ValidationError, field_validator, model_validator

KIND = "known-issue"
SCHEMA = f"day0/{KIND}/v1"
RemedyKind = Literal["flag", "env", "image", "patch", "codemod", "wait", "none"]


class Remedy(Frozen):
    """What helps. `none` needs a person.

    `flags` and `env` state it so that day0 can try it alone: they are set on top of the candidate that failed, a value
    of null removes the key.
    """

    kind: RemedyKind
    text: str = Field(min_length=1)
    flags: Map[FlagValue | None] = Field(default_factory=dict, description="without leading dashes")
    env: Map[str | None] = Field(default_factory=dict)

    @property
    def typed(self) -> bool:
        """Whether day0 can try it without a person: settings, or a shipped repair by name."""
        return bool(self.flags or self.env) or self.kind == "codemod"


class Upstream(Frozen):
    """Where it was reported and what became of it, on the day the document was written."""

    link: str
    status: Literal["open", "fixed", "workaround", "by_design", "wontfix", "closed", "unknown"]


class Stack(Frozen):
    """Which builds have the issue: versions of one package, `since` included, `before` excluded; empty = any.

    `package` is a name as pip prints it (sglang, aiter, torch), or `rocm`, whose version torch's carries. `build` binds
    to one engine build: what was learned on it says nothing of another.
    """

    package: str = ""
    since: str = ""
    before: str = ""
    build: str = ""

    def may_apply(self, facts: EngineFacts | None) -> bool:
        """False only where the build, or its package's version, is known to lie outside the range."""
        if facts is None:
            return True
        if self.build and self.build != facts.build:
            return False
        installed = installed_version(facts, self.package) if self.package else ""
        if not installed:
            return True
        version = release(installed)
        return not (self.since and version < release(self.since)) and not (
            self.before and version >= release(self.before)
        )


class KnownIssue(Frozen):
    """One way to fail.

    `tells`: the cause of a failure; its `quality`, where the server runs but slowly or wrongly; or only a `death`, that
    something died, not why. `needs` must all, `without` must not stand on some line of the same log. `at_end`: the
    signature must be the log's last word. An issue without signatures leaves no line: `shows` says how it is seen.
    """

    id: str = Field(pattern=r"^[a-z0-9][a-z0-9.-]*$")
    failure: FailureClass
    signatures: tuple[str, ...] = Field(default=(), description="regular expressions over one line of a log")
    shows: str = Field(default="", description="how it is seen where no line of a log tells it")
    cause: str = Field(min_length=1)
    remedies: tuple[Remedy, ...] = Field(min_length=1)
    confidence: float = Field(gt=0, le=1, description="how sure a match alone makes the class")
    tells: Literal["cause", "death", "quality"] = "cause"
    general: bool = False
    needs: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    at_end: bool = False
    stack: tuple[Stack, ...] = Field(default=(), description="all must apply")
    seen_on: str = Field(default="", description="hardware and models of the report")
    upstream: tuple[Upstream, ...] = ()
    examples: tuple[str, ...] = Field(default=(), description="a line for every signature, in their order")

    @field_validator("signatures", "needs", "without")
    @classmethod
    def _searchable(cls, patterns: tuple[str, ...]) -> tuple[str, ...]:
        for pattern in patterns:
            anchors_of(pattern)
        return patterns

    @model_validator(mode="after")
    def _seen_somehow(self) -> Self:
        if bool(self.signatures) == bool(self.shows):
            raise ValueError("either signatures, or `shows` where no line of a log tells it")
        return self

    def may_apply(self, facts: EngineFacts | None) -> bool:
        """Whether a build may have it; True where nothing is known."""
        return all(stack.may_apply(facts) for stack in self.stack)


def installed_version(facts: EngineFacts, package: str) -> str:
    """A build's version of a package; empty: not known. ROCm's is read from torch's, e.g. 2.9.1+rocm7.2.0."""
    if package == "rocm" and "rocm" not in facts.packages:
        found = re.search(r"\+rocm([\d.]+)", facts.packages.get("torch", ""))
        return found[1] if found else ""
    return facts.packages.get(package, facts.version if package == facts.engine else "")


def release(version: str) -> tuple[int, ...]:
    """A version's numbers, enough to order releases: 0.5.15.post1 -> (0, 5, 15, 1); the local part is left out."""
    return tuple(int(number) for number in re.findall(r"\d+", version.partition("+")[0]))


@cache
def known_issues() -> tuple[KnownIssue, ...]:
    """All shipped documents, by file and place.

    Raises `UserError` that names file and line: not YAML, another schema, unknown keys, wrong types, a signature that
    is no regular expression or has nothing to search for, two documents of one id.
    """
    folder = files(__package__).joinpath("knowledge")
    texts = {f.name: f.read_text() for f in folder.iterdir() if f.name.endswith(".yaml")}
    return read_issues(texts)


def read_issues(texts: dict[str, str]) -> tuple[KnownIssue, ...]:
    """The documents of several files, in the order of the files' names. Raises as `known_issues` does."""
    found: list[KnownIssue] = []
    places: dict[str, str] = {}
    for name, text in sorted(texts.items()):
        for issue, line in zip(_fast(text) or strictly(name, text), _starts(text), strict=True):
            if issue.id in places:
                raise _wrong(f"{name}:{line}: the id `{issue.id}` is taken by {places[issue.id]}")
            places[issue.id] = f"{name}:{line}"
            found.append(issue)
    return tuple(found)


def _wrong(why: str) -> Exception:
    from day0.runs.errors import UserError

    return UserError(why)


def _starts(text: str) -> list[int]:
    """The line of each document's first line, counted from 1."""
    marks = [number for number, line in enumerate(text.splitlines(), 1) if line == "---"]
    return [1, *(mark + 1 for mark in marks)]


def _fast(text: str) -> tuple[KnownIssue, ...]:
    """The documents of a file by the C reader; empty where anything is wrong: the strict reader says what and where."""
    import yaml

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        documents = list(yaml.load_all(text, Loader=loader))
        if any(document.pop("schema", None) != SCHEMA for document in documents):
            return ()
        return tuple(KnownIssue.model_validate(document) for document in documents)
    except (yaml.YAMLError, ValidationError, AttributeError, TypeError):
        return ()


def strictly(name: str, text: str) -> tuple[KnownIssue, ...]:
    """The documents of a file under the rules of every document. Raises `UserError` with file and line."""
    from day0.runs.documents import load
    from day0.runs.errors import UserError

    found, lines = [], text.splitlines()
    starts = [*_starts(text), len(lines) + 2]
    for start, after in pairwise(starts):
        # blank lines in place of what stands before, so that the lines are counted as in the file
        padded = "\n" * (start - 1) + "\n".join(lines[start - 1 : after - 2])
        try:
            found.append(load(padded, KIND, KnownIssue, name=name))
        except UserError as error:  # what is wrong with a document as a whole stands nowhere in it
            raise UserError(str(error).replace(f"{name}:1:", f"{name}:{start}:", 1)) from None
    return tuple(found)


def known_issue(issue_id: str) -> KnownIssue | None:
    """The shipped issue of that ID; None: there is none (`unknown` is none)."""
    return next((issue for issue in known_issues() if issue.id == issue_id), None)


def codemod_of(issue_id: str) -> str:
    """The name of the codemod that repairs an issue's cause; empty: no shipped one does."""
    issue = known_issue(issue_id)
    texts = [remedy.text for remedy in issue.remedies if remedy.kind == "codemod"] if issue else []
    return texts[0].partition(":")[0].strip() if texts else ""
