"""A hub on this machine: the API's shape for models, files behind redirects, ranges, and how it refuses."""

from __future__ import annotations

import hashlib
import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

LARGE = 512
"""bytes from which a file is one of the store behind the hub"""


@dataclass
class Model:
    """One repository with one commit."""

    files: dict[str, bytes]
    commit: str = "a" * 40
    gated: bool = False
    lies: frozenset[str] = frozenset()
    """files of which the listed hash is another one"""


@dataclass
class HubServer:
    """Starts with `with`; `requests` are method, host, path, range and token of everything that was asked."""

    models: dict[str, Model] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)
    breaks: dict[str, int] = field(default_factory=dict)
    """file name -> bytes after which its next download breaks off, once"""
    requests: list[tuple[str, str, str, str, str]] = field(default_factory=list)
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> HubServer:
        hub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None:
                pass

            def do_GET(self) -> None:
                hub.answer(self)

            do_HEAD = do_GET

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def gets(self, part: str) -> list[tuple[str, str, str, str, str]]:
        return [r for r in self.requests if r[0] == "GET" and part in r[2]]

    def answer(self, http: BaseHTTPRequestHandler) -> None:
        path = unquote(urlsplit(http.path).path)
        asked = http.headers.get("Range", ""), http.headers.get("Authorization", "")
        self.requests.append((http.command, http.headers.get("Host", ""), path, *asked))
        if path.startswith("/cdn/"):
            return self._store(http, path.removeprefix("/cdn/"))
        parts = path.removeprefix("/api/models/").strip("/").split("/")
        name, rest = "/".join(parts[:2]), parts[2:]
        if name in self.renamed:
            return send(http, 307, location=path.replace(name, self.renamed[name], 1))
        model = self.models.get(name)
        if model is None:
            return send(http, 404, {"error": "Repository not found"}, error="RepoNotFound")
        if path.startswith("/api/"):
            return self._api(http, name, model, rest)
        if model.gated:
            return send(http, 403, {"error": "gated"}, error="GatedRepo")
        return self._file(http, model, rest[1], "/".join(rest[2:]))

    def _api(self, http: BaseHTTPRequestHandler, name: str, model: Model, rest: list[str]) -> None:
        if len(rest) > 1 and rest[1] not in ("main", model.commit):
            return send(http, 404, {"error": "Invalid rev id"}, error="RevisionNotFound")
        if rest[:1] == ["tree"]:
            return send(http, 200, [entry(n, d, n in model.lies) for n, d in model.files.items()])
        listed = [sibling(n, d, n in model.lies) for n, d in model.files.items()]
        gated = "manual" if model.gated else False
        return send(http, 200, {"id": name, "modelId": name, "sha": model.commit, "gated": gated, "siblings": listed})

    def _file(self, http: BaseHTTPRequestHandler, model: Model, revision: str, file: str) -> None:
        data = model.files.get(file)
        if data is None or revision not in ("main", model.commit):
            return send(http, 404, {"error": "Entry not found"}, error="EntryNotFound")
        large = len(data) >= LARGE
        digest = hashlib.sha256(data).hexdigest()
        more = {"X-Repo-Commit": model.commit, "ETag": f'"{digest if large else git(data)}"'}
        if not large:
            return send(http, 200, data, **more)
        more |= {"X-Linked-Etag": f'"{digest}"', "X-Linked-Size": str(len(data))}
        # another host: a token must not follow
        return send(http, 302, b"", location=f"http://localhost:{self.port}/cdn/{file}/{digest}", **more)

    def _store(self, http: BaseHTTPRequestHandler, what: str) -> None:
        file, _, digest = what.rpartition("/")
        data = next(
            d for m in self.models.values() for d in m.files.values() if hashlib.sha256(d).hexdigest() == digest
        )
        first = int(http.headers.get("Range", "bytes=0-").removeprefix("bytes=").rstrip("-"))
        more = {"Content-Range": f"bytes {first}-{len(data) - 1}/{len(data)}"} if first else {}
        stop = self.breaks.pop(file, None) if http.command == "GET" else None
        send(http, 206 if first else 200, data[first:], cut=stop, **more)


def git(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def sibling(name: str, data: bytes, lies: bool) -> dict[str, object]:
    out: dict[str, object] = {"rfilename": name, "size": len(data), "blobId": "0" * 40 if lies else git(data)}
    if len(data) >= LARGE:
        digest = "0" * 64 if lies else hashlib.sha256(data).hexdigest()
        out["lfs"] = {"sha256": digest, "size": len(data), "pointerSize": 134}
    return out


def entry(name: str, data: bytes, lies: bool) -> dict[str, object]:
    found = sibling(name, data, lies)
    out: dict[str, object] = {"type": "file", "path": name, "size": len(data), "oid": found["blobId"]}
    if "lfs" in found:
        out["lfs"] = {"oid": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 134}
    return out


def send(
    http: BaseHTTPRequestHandler,
    status: int,
    body: object = b"",
    *,
    error: str = "",
    location: str = "",
    cut: int | None = None,
    **headers: str,
) -> None:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    http.send_response(status)
    for key, value in {**headers, "X-Error-Code": error, "Location": location}.items():
        if value:
            http.send_header(key, value)
    http.send_header("Content-Type", "application/octet-stream" if isinstance(body, bytes) else "application/json")
    http.send_header("Content-Length", str(len(data)))
    http.end_headers()
    if http.command != "HEAD":
        http.wfile.write(data if cut is None else data[:cut])
        if cut is not None:
            http.wfile.flush()
            http.close_connection = True
            http.connection.shutdown(2)
