"""Text that others wrote, made safe to show and to put before an LLM: it is data, never an instruction."""

from __future__ import annotations

import re

# CSI, OSC/DCS/APC/PM strings (ended by BEL or ST), and any other two-byte escape.
ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_].*?(?:\x07|\x1b\\|\Z)|\x1b[ -/]*[0-~]?|\x9b[0-?]*[ -/]*[@-~]", re.S
)
CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
# Invisible marks that reorder or hide text: zero width, bidirectional, tag characters, line separators.
INVISIBLE = re.compile("[\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f]")
FENCES = re.compile(r"<{3,}|>{3,}|`{3,}")
SECRETS = re.compile(
    r"\b(sk-[A-Za-z0-9_-]{8,}|hf_[A-Za-z0-9]{8,}|gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}"
    r"|xox[abprs]-[\w-]{8,}|AKIA[0-9A-Z]{12,}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]{4,})"
)
KEYED = re.compile(
    r"(?i)\b([a-z0-9_-]*(?:api[_-]?key|token|secret|passw(?:or)?d|authorization)\b[\"']?\s*[:=]\s*)"
    r"(?:bearer\s+)?[\"']?[^\s\"',;]{6,}"
)
URL_LOGIN = re.compile(r"(?i)\b([a-z][a-z0-9+.-]*://)[^\s/@:]+:[^\s/@]+@")
HIDDEN = "[hidden]"


def clean(text: str) -> str:
    """The text without terminal escapes, control characters and invisible marks; tabs and newlines stay."""
    text = ESCAPES.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    return INVISIBLE.sub("", CONTROLS.sub("", text))


def redact(text: str) -> str:
    """The text without what looks like a secret by its form or by the name in front of it."""
    text = URL_LOGIN.sub(r"\1" + HIDDEN + "@", text)
    return SECRETS.sub(HIDDEN, KEYED.sub(r"\1" + HIDDEN, text))


def cut(text: str, limit: int) -> str:
    """At most `limit` characters: head and tail, with a note of how much is missing between them."""
    if len(text) <= limit:
        return text
    note = f"\n[… {len(text) - limit} characters left out …]\n"
    room = max(0, limit - len(note))
    head = room // 3
    return (text[:head] + note + text[len(text) - (room - head) :])[:limit]


def line(text: str, limit: int = 200) -> str:
    """One clean line of at most `limit` characters, without anything that could pass for a fence."""
    flat = FENCES.sub("«»", " ".join(redact(clean(text)).split()))
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def fence(text: str, label: str, limit: int) -> str:
    """The text as fenced data: cleaned, redacted, cut, and unable to close its own fence."""
    # a flood is cut roughly before it is cleaned, far from what is kept in the end, and exactly afterwards
    rough = cut(text, 8 * limit + 1000)
    body = FENCES.sub("«»", cut(redact(clean(rough)), limit))
    return f"<<<data {line(label, 200)}\n{body}\n>>>"
