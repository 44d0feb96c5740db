"""GitHub's REST API as far as day0 asks it: pull requests, labels and searches of one repository, in memory."""

from __future__ import annotations

import json
import re
from typing import Any

import httpx


class GitHubServer:
    """Answers requests; `template` is what a pull request has beside the fields that matter."""

    def __init__(self, repository: str = "owner/name", template: dict[str, Any] | None = None) -> None:
        self.repository, self.template = repository, template or {}
        self.heads: dict[str, str] = {}
        self.pulls: list[dict[str, Any]] = []
        self.found: list[dict[str, Any]] = []
        self.asked: list[tuple[str, str, dict[str, str], Any]] = []
        self.script: list[httpx.Response] = []
        self.etag = '"one"'

    def __call__(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content) if request.content else None
        self.asked.append((request.method, request.url.path, dict(request.url.params), body))
        if self.script:
            return self.script.pop(0)
        return self._route(request, body)

    def transport(self) -> httpx.MockTransport:
        return httpx.MockTransport(self)

    def _route(self, request: httpx.Request, body: Any) -> httpx.Response:
        if request.url.path == "/search/issues":
            told = {"total_count": len(self.found), "incomplete_results": False, "search_type": "lexical"}
            return httpx.Response(200, json={**told, "items": self.found})
        at = re.fullmatch(rf"/repos/{self.repository}/(pulls|issues)(?:/(\d+))?(/labels)?", request.url.path)
        if at is None:
            return self._missing()
        if at[2] is None:
            return self._list(request) if request.method == "GET" else self._create(body)
        pull = next((p for p in self.pulls if p["number"] == int(at[2])), None)
        if pull is None:
            return self._missing()
        if at[3]:
            names = {label["name"] for label in pull["labels"]}
            label = next(iter(self.template.get("labels", [])), {})
            pull["labels"] += [{**label, "name": name} for name in body["labels"] if name not in names]
            return httpx.Response(200, json=pull["labels"])
        if request.method == "PATCH":
            pull.update(body)
        branch = pull["head"]["ref"]
        pull["head"]["sha"] = self.heads.get(branch, pull["head"]["sha"])
        return httpx.Response(200, json=pull)

    def _list(self, request: httpx.Request) -> httpx.Response:
        owner, _, branch = request.url.params["head"].partition(":")
        found = [p for p in self.pulls if (p["head"]["ref"], p["head"]["user"]["login"]) == (branch, owner)]
        return httpx.Response(200, json=sorted(found, key=lambda p: -p["number"]))

    def _create(self, body: dict[str, Any]) -> httpx.Response:
        owner, _, branch = body["head"].partition(":")
        if branch not in self.heads:
            return self._invalid("head is invalid")
        if any(p["state"] == "open" and p["head"]["ref"] == branch for p in self.pulls):
            return self._invalid(f"A pull request already exists for {body['head']}.")
        number = 101 + len(self.pulls)
        made = self.template | {
            "number": number, "html_url": f"https://github.com/{self.repository}/pull/{number}", "title": body["title"],
            "body": body["body"], "state": "open", "draft": body["draft"], "merged_at": None, "labels": [],
            "head": {**self.template.get("head", {}), "ref": branch, "sha": self.heads[branch],
                     "user": {**self.template.get("head", {}).get("user", {}), "login": owner}},
            "base": {**self.template.get("base", {}), "ref": body["base"]},
        }  # fmt: skip
        self.pulls.append(made)
        return httpx.Response(201, json=made)

    def _missing(self) -> httpx.Response:
        return httpx.Response(404, json={"message": "Not Found", "documentation_url": "https://docs.github.com/rest"})

    def _invalid(self, why: str) -> httpx.Response:
        return httpx.Response(422, json={"message": "Validation Failed", "errors": [{"message": why}]})
