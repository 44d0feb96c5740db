"""GitHub, and servers that speak its REST API (version 2022-11-28)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import TracebackType
from typing import Any
from urllib.parse import quote

import httpx
from day0.runs.errors import Infrastructure, Refused, UserError
from day0.tools.forge.base import Draft, Pull
from day0.tools.forge.pace import Pace, asked_to_wait

API = "https://api.github.com"
VERSION = "2022-11-28"
TIMEOUT_S = 30.0
PER_PAGE = 100
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,38}/[A-Za-z0-9._-]{1,100}\Z")


class Api:
    """Requests to a forge of GitHub's kind, one after the other, at the pace that it allows."""

    def __init__(
        self, pace: Pace, *, token: str = "", api: str = API, transport: httpx.BaseTransport | None = None
    ) -> None:
        headers = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": VERSION, "User-Agent": "day0"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        self.pace = pace
        self._client = httpx.Client(base_url=api, headers=headers, timeout=TIMEOUT_S, transport=transport)

    def __enter__(self) -> Api:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def get(self, path: str, params: Mapping[str, str | int] | None = None) -> Any:
        """The answer's JSON; None for 404. Raises `Infrastructure`, `Cancelled`."""
        answer = self._asked("GET", path, params=params)
        return None if answer.status_code == 404 else _json(answer)

    def write(self, method: str, path: str, body: Mapping[str, Any]) -> Any:
        """The same for a write, a second after the last one. Raises `Refused` with the forge's own words."""
        self.pace.write()
        try:
            answer = self._asked(method, path, body=body)
        finally:
            self.pace.written()
        if answer.status_code in {403, 404, 410, 422}:
            raise Refused(f"the forge refuses {method} {path}: {_why(answer)}")
        return _json(answer)

    def _asked(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str | int] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> httpx.Response:
        def ask() -> httpx.Response:
            try:
                return self._client.request(method, path, params=params, json=body)
            except httpx.HTTPError as error:
                raise Infrastructure(f"the forge can't be reached: {type(error).__name__} at {method} {path}") from None

        def wait(answer: httpx.Response) -> float | None:
            return asked_to_wait(answer.status_code, answer.headers, answer.text[:2000], self.pace.clock.now())

        answer = self.pace.patiently(ask, wait)
        if answer.status_code == 401:
            raise Infrastructure("the forge refuses the token: it is wrong, expired or revoked")
        if answer.status_code >= 500:
            raise Infrastructure(f"the forge failed at {method} {path}: HTTP {answer.status_code}")
        return answer


class GitHub:
    """Pull requests into `repository`, from branches of `head` (the fork's owner; the same without a fork)."""

    def __init__(self, api: Api, repository: str, *, fork: str = "") -> None:
        for name in filter(None, (repository, fork)):
            if not NAME.match(name):
                raise UserError(f"{name!r} is no repository: it is written owner/name")
        self.name, self.pace = repository, api.pace
        self._api, self._owner = api, (fork or repository).partition("/")[0]
        self._fork = fork if fork != repository else ""
        self._at = f"/repos/{repository}"

    def pulls(self, branch: str) -> tuple[Pull, ...]:
        """See the port."""
        params: dict[str, str | int] = {
            "state": "all", "head": f"{self._owner}:{branch}", "sort": "created", "direction": "desc",
            "per_page": PER_PAGE,
        }  # fmt: skip
        found = self._api.get(f"{self._at}/pulls", params)
        if found is None:
            raise Infrastructure(f"the forge has no repository {self.name}, or the token may not see it")
        # GitHub answers with everything where it does not understand `head`: nothing of others is taken for ours
        return tuple(pull for pull in map(_pull, found) if pull.branch == branch)

    def pull(self, number: int) -> Pull:
        """See the port."""
        found = self._api.get(f"{self._at}/pulls/{number}")
        if found is None:
            raise Infrastructure(f"{self.name} has no pull request {number}")
        return _pull(found)

    def open(self, asked: Draft) -> Pull:
        """See the port."""
        body: dict[str, Any] = {
            "title": asked.title, "body": asked.body, "base": asked.base, "draft": True, "maintainer_can_modify": True,
            "head": f"{self._owner}:{asked.branch}",
        }  # fmt: skip
        if self._fork and self._owner == self.name.partition("/")[0]:
            body["head_repo"] = self._fork  # a fork that belongs to the same organisation
        return _pull(self._api.write("POST", f"{self._at}/pulls", body))

    def rewrite(self, number: int, asked: Draft) -> Pull:
        """See the port."""
        return _pull(self._api.write("PATCH", f"{self._at}/pulls/{number}", {"title": asked.title, "body": asked.body}))

    def label(self, number: int, labels: tuple[str, ...]) -> tuple[str, ...]:
        """See the port."""
        found = self._api.write("POST", f"{self._at}/issues/{number}/labels", {"labels": list(labels)})
        return tuple(str(label["name"]) for label in found)


def clone_url(repository: str, *, api: str = API) -> str:
    """Where git finds a repository of this forge."""
    host = "https://github.com" if api == API else re.sub(r"/api/v3/?\Z", "", api)
    return f"{host}/{quote(repository)}.git"


def _pull(found: Any) -> Pull:
    try:
        head = found["head"]
        merged = bool(found.get("merged_at"))
        return Pull(
            number=found["number"],
            url=found["html_url"],
            title=found["title"],
            body=(found.get("body") or "").replace("\r\n", "\n"),
            branch=head["ref"],
            commit=head["sha"],
            base=found["base"]["ref"],
            state="merged" if merged else found["state"],
            draft=bool(found.get("draft")),
            labels=tuple(str(label["name"]) for label in found.get("labels") or ()),
        )
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise Infrastructure(f"the forge's answer is no pull request: {type(error).__name__} {error}"[:200]) from None


def _json(answer: httpx.Response) -> Any:
    if not answer.is_success:
        raise Infrastructure(
            f"the forge answers HTTP {answer.status_code} to {answer.request.url.path}: {_why(answer)}"
        )
    try:
        return answer.json()
    except ValueError:
        raise Infrastructure(f"the forge's answer to {answer.request.url.path} is no JSON") from None


def _why(answer: httpx.Response) -> str:
    """The forge's own words, one line."""
    try:
        told = answer.json()
        words = [str(told.get("message", "")), *(str(e.get("message", e)) for e in told.get("errors", []))]
    except (ValueError, AttributeError):
        words = [answer.text]
    return "; ".join(" ".join(word.split()) for word in words if word)[:300] or f"HTTP {answer.status_code}"


__all__ = ["API", "Api", "GitHub", "clone_url"]
