"""What the engines' own repositories have: issues and pull requests of GitHub, searched, cached, and never trusted.

The answers are text of strangers: titles are cut and cleaned before they are shown, nothing of them is run. A token is
not needed; with one GitHub allows more. Answers are kept for an hour; an older one still serves while GitHub can't be
asked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from day0.runs.errors import Infrastructure
from day0.runs.patches import Patch
from day0.runs.values import Frozen, sha256
from day0.tools.forge.github import Api
from day0.tools.publish_text import OWNERS, cited, line
from pydantic import Field

FRESH_S = 3600.0
MOST = 20
"""of one search: what is not among the first is not what was asked for"""
State = Literal["open", "closed", "merged"]
_WORD = re.compile(r"[A-Za-z0-9][\w.-]{2,60}")
NIGHTLY = "rocm/sgl-dev"
"""where nightly images with the newest source are (`engine.md`: tags end in the day they were made)"""


class Found(Frozen):
    """An issue or a pull request of a repository."""

    repository: str
    number: int
    title: str = Field(description="one line, cleaned")
    url: str
    is_pull: bool
    state: State
    labels: tuple[str, ...] = ()
    updated: str = ""

    @property
    def cited(self) -> str:
        """As a patch or a recipe names it."""
        return f"{self.repository.rpartition('/')[2]} PR {self.number}"


Step = Literal["use version", "cherry-pick", "try", "ours"]


class Advice(Frozen):
    """What to do first about something that an engine lacks.

    `use version`: a release or nightly has it. `cherry-pick`: merged, but no image has it: its commits, with their
    source named. `try`: an open one, as base and cited. `ours`: nobody has it.
    """

    step: Step
    why: str
    source: Found | None = None
    base: str = Field(default="", description="image or git ref to begin from; empty: none is known")
    others: tuple[Found, ...] = ()


class Cache:
    """Answers by question, in a folder. Damaged or missing files are no answers."""

    def __init__(self, folder: Path, now: Callable[[], float]) -> None:
        self._folder, self._now = folder, now

    def fresh(self, question: str) -> Any:
        """The answer if it is not older than an hour, else None."""
        try:
            kept = json.loads(self._file(question).read_text(encoding="utf-8"))
            return kept["answer"] if self._now() - float(kept["at"]) < FRESH_S else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def stale(self, question: str) -> Any:
        """The last answer, however old, or None."""
        try:
            return json.loads(self._file(question).read_text(encoding="utf-8"))["answer"]
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def keep(self, question: str, answer: Any) -> None:
        """Remembers an answer; where the folder can't be written it is asked again next time."""
        file = self._file(question)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            part = file.with_suffix(".part")
            part.write_text(json.dumps({"at": self._now(), "question": question, "answer": answer}), encoding="utf-8")
            part.replace(file)
        except OSError:
            return

    def _file(self, question: str) -> Path:
        return self._folder / f"{sha256(question)[7:39]}.json"


class Upstream:
    """Questions to GitHub about the engines' repositories."""

    def __init__(self, api: Api, cache: Cache) -> None:
        self._api, self._cache = api, cache

    def search(
        self, words: Sequence[str], repositories: Iterable[str], *, pulls_only: bool = False
    ) -> tuple[Found, ...]:
        """Issues and pull requests that have all the words, best match first.

        Raises `Infrastructure` when GitHub can't be asked and nothing is remembered.
        """
        kept = [f'"{word}"' for word in words if _WORD.fullmatch(word)]
        if not kept:
            return ()
        where = [f"repo:{name}" for name in repositories]
        query = " ".join([*kept, *where, *(["is:pr"] if pulls_only else [])])
        answer = self._asked("/search/issues", {"q": query, "per_page": MOST, "advanced_search": "true"})
        items = answer.get("items", []) if isinstance(answer, dict) else []
        return tuple(found for item in items if (found := _found(item)) is not None)

    def pull(self, repository: str, number: int) -> Found | None:
        """One pull request; None where there is none. Raises `Infrastructure`."""
        answer = self._asked(f"/repos/{repository}/pulls/{number}", {})
        return None if answer is None else _found(answer, repository)

    def _asked(self, path: str, params: dict[str, str | int]) -> Any:
        question = json.dumps([path, params], sort_keys=True)
        if (known := self._cache.fresh(question)) is not None:
            return known
        try:
            answer = self._api.get(path, params or None)
        except Infrastructure:
            if (known := self._cache.stale(question)) is not None:
                return known
            raise
        self._cache.keep(question, answer)
        return answer


def for_architecture(upstream: Upstream, architecture: str, *, engine: str = "sglang", newest: str = "") -> Advice:
    """Where an engine that does not know an architecture gets it from. `newest`: when the newest image was made.

    Merged before that day: the image has it. Merged later: cherry-picked. Open: its head is the base. Nothing: ours.
    Raises `Infrastructure`.
    """
    found = upstream.search([architecture], [OWNERS[engine]], pulls_only=True)
    return advice(found, newest=newest, what=f"support for {architecture}")


def for_issue(upstream: Upstream, words: Sequence[str], *, engine: str = "sglang", newest: str = "") -> Advice:
    """The same for a defect, by telling words of its log line or its file."""
    found = upstream.search(words, [OWNERS[engine]])
    return advice(found, newest=newest, what=" ".join(words))


def advice(found: Sequence[Found], *, newest: str, what: str) -> Advice:
    """The first step, from what was found: merged before open, newer before older."""
    pulls = [f for f in found if f.is_pull]
    merged = [f for f in pulls if f.state == "merged"]
    still = [f for f in pulls if f.state == "open"]
    if merged:
        first = merged[0]
        if newest and first.updated and _day(first.updated) <= _day(newest):
            why = f"{first.cited} was merged before {_day(newest)}: an image of that day or later has it"
            return Advice(step="use version", why=why, source=first, base=NIGHTLY, others=tuple(pulls[1:]))
        why = f"{first.cited} was merged: use an image made after {_day(first.updated)}, or take its commits"
        return Advice(step="cherry-pick", why=why, source=first, base=f"pull/{first.number}/head", others=tuple(still))
    if still:
        first = still[0]
        why = f"{first.cited} is open: its head is tried as base and cited"
        return Advice(step="try", why=why, source=first, base=f"pull/{first.number}/head", others=tuple(still[1:]))
    told = f"; issue {found[0].number} tells of it" if found else ""
    return Advice(step="ours", why=f"upstream has no pull request about {line(what, 120)}{told}", others=tuple(found))


class Watched(Frozen):
    """Where a patch that was made or sent stands upstream now."""

    patch: str
    name: str
    state: Literal["merged", "open", "closed", "unknown"]
    drop: bool = Field(description="merged: the next base is tried without it, and verified again")
    why: str


def watch(upstream: Upstream, patches: Sequence[tuple[Patch, str]]) -> tuple[Watched, ...]:
    """Each patch with the pull request that it became (a URL, or empty: the one that it cites). Raises nothing."""
    return tuple(_watched(upstream, patch, url) for patch, url in patches)


def _watched(upstream: Upstream, patch: Patch, url: str) -> Watched:
    where = _of_url(url) or cited(patch.upstream)
    state: Literal["merged", "open", "closed", "unknown"] = "unknown"
    why = "no pull request is known for it"
    if where is not None:
        try:
            found = upstream.pull(*where)
        except Infrastructure as error:
            found, why = None, str(error)
        else:
            why = f"{where[0]} has no pull request {where[1]}"
        if found is not None:
            state, why = found.state, f"{found.url} is {found.state}"
    if state == "merged":
        why += ": the next base is tried without the patch, and verified again"
    return Watched(patch=patch.digest(), name=patch.name, state=state, drop=state == "merged", why=why)


def _of_url(url: str) -> tuple[str, int] | None:
    found = re.search(r"/([\w.-]+/[\w.-]+)/pull/(\d+)\Z", url)
    return (found[1], int(found[2])) if found else None


def _found(item: Any, repository: str = "") -> Found | None:
    """An item of a search, or a pull request; None for what is neither."""
    try:
        of_url = re.search(r"/repos/([\w.-]+/[\w.-]+)\Z", str(item.get("repository_url", "")))
        where = repository or (of_url[1] if of_url else "")
        pull = {"merged_at": item["merged_at"]} if "merged_at" in item else item.get("pull_request")
        merged = str((pull or {}).get("merged_at") or "")
        state: State = "merged" if merged else "open" if item["state"] == "open" else "closed"
        return Found(
            repository=where,
            number=item["number"],
            title=line(str(item["title"]), 160),
            url=str(item["html_url"]),
            is_pull=pull is not None,
            state=state,
            labels=tuple(line(str(label["name"]), 60) for label in item.get("labels", []))[:10],
            updated=merged or str(item.get("updated_at") or ""),
        )
    except (KeyError, TypeError, AttributeError, ValueError):
        return None


def _day(stamp: str) -> str:
    """The day of an RFC 3339 stamp or of `20260820` as it stands in a nightly's tag; what is neither stays."""
    if re.fullmatch(r"\d{8}", stamp):
        return f"{stamp[:4]}-{stamp[4:6]}-{stamp[6:]}"
    try:
        return datetime.fromisoformat(stamp.replace("Z", "+00:00")).date().isoformat()
    except ValueError:
        return stamp


__all__ = ["Advice", "Cache", "Found", "Upstream", "Watched", "advice", "for_architecture", "for_issue", "watch"]
