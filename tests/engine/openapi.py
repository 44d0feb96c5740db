"""GitHub's own OpenAPI description as a judge of requests and answers; `npm` fetches it, nothing of it is kept here.

The judge knows the words of JSON Schema that the description uses and stops at any other, so that it can't pass by
not understanding.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

PACKAGE = "@octokit/openapi@23"
FILE = "package/generated/api.github.com.json"
SAYS_NOTHING = {
    "title", "description", "example", "examples", "default", "deprecated", "format", "x-github-breaking-changes",
    "readOnly", "writeOnly", "externalDocs",
}  # fmt: skip
KNOWN = SAYS_NOTHING | {
    "type", "nullable", "enum", "properties", "required", "additionalProperties", "items", "minItems", "maxItems",
    "oneOf", "anyOf", "allOf", "$ref", "minLength", "maxLength", "pattern", "minimum", "maximum",
}  # fmt: skip
TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}


def fetch(folder: Path) -> dict[str, Any] | str:
    """The description, or why it can't be had here."""
    npm = shutil.which("npm")
    if npm is None:
        return "npm is not installed"
    words = [npm, "pack", "--silent", PACKAGE]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    archives = list(folder.glob("octokit-openapi-*.tgz"))
    if done.returncode or not archives:
        return f"npm can't fetch {PACKAGE}: {done.stderr.strip()[-200:]}"
    with tarfile.open(archives[0]) as archive:
        held = archive.extractfile(FILE)
        assert held is not None
        found: dict[str, Any] = json.load(held)
    return found


class Judge:
    """Raises `AssertionError` with the place for what the description does not allow."""

    def __init__(self, description: dict[str, Any]) -> None:
        self.of = description

    def request(self, method: str, path: str, query: dict[str, str], body: Any) -> None:
        """A request that day0 made."""
        operation = self.operation(method, path)
        known = {p["name"]: p for p in map(self.known, operation.get("parameters", []))}
        for name, value in query.items():
            assert known.get(name, {}).get("in") == "query", f"{method} {path}: unknown parameter {name}"
            schema = self.known(known[name]["schema"])
            self.value(int(value) if schema.get("type") == "integer" else value, schema, f"?{name}")
        for name, parameter in known.items():
            needed = parameter.get("required") and parameter["in"] == "query"
            assert not needed or name in query, f"{method} {path}: {name} is missing"
        wanted = operation.get("requestBody")
        assert (body is None) == (wanted is None), f"{method} {path}: a body where none is described, or none"
        if wanted is not None:
            schema = self.known(self.known(wanted)["content"]["application/json"]["schema"])
            self.value(body, schema, "body")
            if "properties" in schema:  # GitHub ignores what it does not know: a typing error would pass
                unknown = set(body) - set(schema["properties"])
                assert not unknown, f"{method} {path}: unknown fields {sorted(unknown)}"

    def answer(self, method: str, path: str, status: int, body: Any) -> None:
        """An answer of the stand-in for GitHub."""
        described = self.known(self.operation(method, path)["responses"][str(status)])
        self.value(body, described["content"]["application/json"]["schema"], "answer")

    def operation(self, method: str, path: str) -> dict[str, Any]:
        for template, item in self.of["paths"].items():
            if re.fullmatch(re.sub(r"\\\{[^}]+\\\}", "[^/]+", re.escape(template)), path) and method.lower() in item:
                found: dict[str, Any] = item[method.lower()]
                return found
        raise AssertionError(f"GitHub has no {method} {path}")

    def example(self, name: str) -> Any:
        return self.of["components"]["examples"][name]["value"]

    def known(self, node: dict[str, Any]) -> dict[str, Any]:
        while "$ref" in node:
            found: Any = self.of
            for part in node["$ref"].removeprefix("#/").split("/"):
                found = found[part]
            node = found
        return node

    def value(self, value: Any, schema: dict[str, Any], at: str) -> None:
        schema = self.known(schema)
        assert set(schema) <= KNOWN, f"{at}: the judge does not know {sorted(set(schema) - KNOWN)}"
        if value is None and schema.get("nullable"):
            return
        for word in ("oneOf", "anyOf"):
            if word in schema:
                fits = [self._fits(value, {**schema, word: None, **self.known(each)}, at) for each in schema[word]]
                assert any(not problem for problem in fits), f"{at}: {fits}"
        for each in schema.get("allOf", []):
            self.value(value, each, at)
        if "enum" in schema:
            assert value in schema["enum"], f"{at}: {value!r} is none of {schema['enum']}"
        if (kind := schema.get("type")) is not None:
            self._typed(value, kind, schema, at)

    def _typed(self, value: Any, kind: str, schema: dict[str, Any], at: str) -> None:
        if kind in {"integer", "number"}:
            assert isinstance(value, int if kind == "integer" else (int, float)) and not isinstance(value, bool), at
        else:
            assert isinstance(value, TYPES[kind]), f"{at}: {type(value).__name__} is no {kind}"
        if kind == "array":
            assert len(value) >= schema.get("minItems", 0), f"{at}: too few"
            for number, item in enumerate(value):
                self.value(item, schema.get("items", {}), f"{at}[{number}]")
        if kind == "object":
            missing = set(schema.get("required", [])) - set(value)
            assert not missing, f"{at}: {sorted(missing)} are missing"
            for name, item in value.items():
                if name in schema.get("properties", {}):
                    self.value(item, schema["properties"][name], f"{at}.{name}")

    def _fits(self, value: Any, schema: dict[str, Any], at: str) -> str:
        try:
            self.value(value, {k: v for k, v in schema.items() if v is not None}, at)
        except AssertionError as error:
            return str(error)
        return ""
