"""Secrets taken out of text before it reaches a log, prompt, recipe, branch or page.

Two nets: known values in every form in which they travel (plain, URL-quoted, base64 at each of the three
alignments, hex, JSON-escaped), and keys that name a secret (`api_key: ...`, `Authorization: Bearer ...`, URLs with a
password), whatever the value.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Mapping
from typing import overload
from urllib.parse import quote, quote_plus

MASK = "[redacted]"
SHORTEST = 6
"""Shorter values are no secrets that could be told from ordinary text; they are never matched."""

_WORDS = "api[-_]?key|secret|password|passwd|token|credentials?|private[-_]?key|access[-_]?key|authorization"
_NAME = re.compile(rf"(?:^|[-_.])(?:{_WORDS}|auth|pwd)s?(?:$|[-_.])|(?:{_WORDS})$", re.I)
_NO_SECRET = re.compile(r"tokens$|tokenizer|max[-_.]?token|token[-_.]?(?:id|count|s\b)|num[-_.]?token", re.I)
_ASSIGNED = re.compile(
    rf"""(?P<key>(?<![\w-])["']?[\w.-]*?(?:{_WORDS})["']?)(?P<sep>\s*[:=]\s*)(?P<scheme>(?:bearer|basic|token)\s+)?"""
    r"""(?P<value>"[^"\n]+"|'[^'\n]+'|[^\s,;&"'}}\])]+)""",
    re.I,
)
_BEARER = re.compile(r"\b(bearer|basic)\s+([A-Za-z0-9._~+/=-]{8,})", re.I)
_URL = re.compile(r"(\b[a-z][a-z0-9+.-]*://[^\s/@:]*):([^\s/@]+)@", re.I)
_KNOWN = re.compile(
    r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|hf_[A-Za-z0-9]{20,}|sk-[A-Za-z0-9_-]{20,}|glpat-[\w-]{16,}|xox[abp]-[\w-]{10,})"
)


def looks_secret(name: str) -> bool:
    """Whether a variable or key of that name holds a secret (`HF_TOKEN`), not a count (`max_tokens`)."""
    return _NAME.search(name) is not None and _NO_SECRET.search(name) is None


def forms(secret: str) -> set[str]:
    """Every text in which `secret` may travel, none shorter than `SHORTEST`."""
    raw = secret.encode()
    found = {secret, quote(secret, safe=""), quote_plus(secret), json.dumps(secret)[1:-1], raw.hex(), raw.hex().upper()}
    for lead in range(3):
        # the same bytes at another place of a longer base64 text: only the characters they alone decide
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            text = encode(b"\0" * lead + raw).decode().rstrip("=")
            whole = text[(lead * 8 + 5) // 6 : (len(raw) + lead) * 8 // 6]
            found.add(whole)
            if lead == 0:
                found |= {text, encode(raw).decode()}
    return {form for form in found if len(form) >= SHORTEST}


class Redactor:
    """Masks `secrets` and whatever stands beside a key that names one. Masking twice changes nothing."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        every = {form for secret in secrets if len(secret.strip()) >= SHORTEST for form in forms(secret.strip())}
        ordered = sorted(every, key=lambda form: (-len(form), form))
        self._values = re.compile("|".join(map(re.escape, ordered))) if ordered else None

    @classmethod
    def of_environment(cls, environment: Mapping[str, str]) -> Redactor:
        """Knows every value whose variable names a secret."""
        return cls(value for name, value in environment.items() if looks_secret(name))

    @overload
    def __call__(self, text: str) -> str: ...
    @overload
    def __call__(self, text: bytes) -> bytes: ...
    def __call__(self, text: str | bytes) -> str | bytes:
        """The text without secrets. Bytes that are no UTF-8 pass through unchanged."""
        if isinstance(text, bytes):
            return self._mask(text.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
        return self._mask(text)

    def tree(self, value: object) -> object:
        """A JSON-like value: strings masked, and the whole value where the key names a secret."""
        if isinstance(value, str):
            return self._mask(value)
        if isinstance(value, Mapping):
            return {
                self._mask(str(k)): MASK if v and isinstance(v, str) and looks_secret(str(k)) else self.tree(v)
                for k, v in value.items()
            }
        if isinstance(value, list | tuple):
            return [self.tree(item) for item in value]
        return value

    def _mask(self, text: str) -> str:
        if self._values is not None:
            text = self._values.sub(MASK, text)
        text = _KNOWN.sub(MASK, text)
        text = _URL.sub(rf"\1:{MASK}@", text)
        text = _BEARER.sub(rf"\1 {MASK}", text)
        return _ASSIGNED.sub(_assigned, text)


def _assigned(found: re.Match[str]) -> str:
    key, value = found["key"].strip("\"'"), found["value"]
    bare = value.strip("\"'").lower()
    if not looks_secret(key) or MASK in value or bare in {"none", "null", "true", "false", ""}:
        return found[0]
    if key.lower().endswith("token") and bare.replace(".", "", 1).isdigit():
        return found[0]  # a count
    mark = value[0] if value[0] in "\"'" else ""
    return f"{found['key']}{found['sep']}{found['scheme'] or ''}{mark}{MASK}{mark}"
