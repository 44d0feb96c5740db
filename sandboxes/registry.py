"""Asking a registry of container images what a tag stands for, how large it is, and which tags there are.

Speaks the registry's own protocol (OCI Distribution Specification 1.1) without credentials; images that need some are
fetched by the daemon, which has them, and asked about through it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import httpx
from day0.runs.errors import Infrastructure, Refused
from day0.sandboxes.images import missing

HUB = "registry-1.docker.io"
TIMEOUT_S = 20.0
MANIFESTS = (
    "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, "
    "application/vnd.docker.distribution.manifest.list.v2+json, application/vnd.docker.distribution.manifest.v2+json"
)
PLATFORM = {"os": "linux", "architecture": "amd64"}
_NAME = re.compile(
    r"(?P<repository>[a-z0-9]+(?:[._:/-]+[a-z0-9]+)*?)(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9._-]{0,127}))?"
    r"(?:@(?P<digest>sha256:[0-9a-f]{64}))?\Z"
)
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}\Z")


@dataclass(frozen=True)
class Name:
    """An image's name, taken apart: registry host, repository there, what the daemon calls that repository, tag."""

    host: str
    path: str
    repository: str
    tag: str
    digest: str = ""

    @classmethod
    def parse(cls, name: str, hub: str = HUB) -> Name | None:
        """None for what can't be the name of an image; `hub` is the host of names without one."""
        found = _NAME.match(name) if len(name) < 400 else None
        if found is None:
            return None
        repository = found["repository"]
        first, _, rest = repository.partition("/")
        away = bool(rest) and ("." in first or ":" in first or first == "localhost")
        host = first if away else hub
        path = rest if away else (repository if rest else f"library/{repository}")
        return cls(host, path, repository, found["tag"] or "latest", found["digest"] or "")


@dataclass(frozen=True)
class Found:
    """What a registry says of an image: its digest and the bytes of its compressed layers."""

    digest: str
    bytes: int


class Registry:
    """`plain` are hosts that speak HTTP without TLS, as a daemon takes those on its own loopback."""

    def __init__(self, plain: Sequence[str] = ("127.0.0.1", "localhost"), *, timeout_s: float = TIMEOUT_S) -> None:
        self._plain, self._timeout_s = tuple(plain), timeout_s

    def find(self, name: Name) -> Found:
        """Raises `Refused` with the nearest tags where there is no such image; `Infrastructure`: nobody answers."""
        with httpx.Client(timeout=self._timeout_s, follow_redirects=True) as http:
            answer = self._get(http, name, f"manifests/{name.digest or name.tag}", MANIFESTS)
            if answer.status_code in {401, 403, 404}:
                raise missing(f"{name.repository}:{name.tag}", self._tags(http, name))
            manifest = self._json(answer, name)
            digest = answer.headers.get("docker-content-digest", "") or name.digest
            if not _DIGEST.match(digest):
                raise Infrastructure(f"the registry {name.host} gives no digest for {name.repository}:{name.tag}")
            if "manifests" in manifest:  # an index over platforms: a pull names its digest, one entry is what comes
                manifest = self._json(self._get(http, name, f"manifests/{self._ours(manifest, name)}", MANIFESTS), name)
        return Found(digest, sum(int(layer["size"]) for layer in manifest.get("layers", ())))

    @staticmethod
    def _ours(index: dict[str, Any], name: Name) -> str:
        for entry in index["manifests"]:
            if PLATFORM.items() <= entry.get("platform", {}).items():
                return str(entry["digest"])
        raise Refused(f"{name.repository}:{name.tag} has no image for {PLATFORM['os']}/{PLATFORM['architecture']}")

    def _tags(self, http: httpx.Client, name: Name) -> list[str]:
        """Full names of the repository's tags; none where it can't be listed."""
        try:
            answer = self._get(http, name, "tags/list", "application/json")
            tags = answer.json().get("tags") or () if answer.status_code == 200 else ()
        except (Infrastructure, ValueError):
            return []
        return [f"{name.repository}:{tag}" for tag in tags]

    def _get(self, http: httpx.Client, name: Name, what: str, accept: str) -> httpx.Response:
        scheme = "http" if name.host.partition(":")[0] in self._plain else "https"
        url = f"{scheme}://{name.host}/v2/{name.path}/{what}"
        headers = {"accept": accept}
        try:
            answer = http.get(url, headers=headers)
            if answer.status_code == 401 and (token := self._token(http, answer)):
                answer = http.get(url, headers=headers | {"authorization": f"Bearer {token}"})
        except httpx.HTTPError as error:
            raise Infrastructure(f"the registry {name.host} can't be reached: {error}") from error
        if answer.status_code >= 500 or answer.status_code == 429:
            raise Infrastructure(f"the registry {name.host} answers {answer.status_code}")
        return answer

    @staticmethod
    def _token(http: httpx.Client, answer: httpx.Response) -> str:
        """An anonymous token for a public repository, as the registry says where to get it."""
        asked = dict(re.findall(r'(\w+)="([^"]*)"', answer.headers.get("www-authenticate", "")))
        realm = asked.pop("realm", "")
        if not realm.startswith("https://"):
            return ""
        given = http.get(realm, params=asked)
        return str(given.json().get("token", "")) if given.status_code == 200 else ""

    @staticmethod
    def _json(answer: httpx.Response, name: Name) -> dict[str, Any]:
        try:
            found = answer.json()
        except ValueError:
            found = None
        if answer.status_code != 200 or not isinstance(found, dict):
            raise Infrastructure(f"the registry {name.host} answers {answer.status_code} without a manifest")
        return found
