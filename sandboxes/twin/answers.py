"""What the simulated model says: the same question, the same answer, right or wrong as its world wants it."""

from __future__ import annotations

import re

from day0.runs.values import sha256

_SUM = re.compile(r"(\d+)\s*\+\s*(\d+)")
_DOOR = re.compile(r"The number on the blue door is (\d+)\.")
_WORDS = (
    "the",
    "river",
    "runs",
    "past",
    "a",
    "mill",
    "where",
    "people",
    "still",
    "grind",
    "corn",
    "and",
    "talk",
    "about",
    "weather",
    "roads",
    "prices",
    "children",
    "old",
    "songs",
    "small",
    "boats",
    "lamps",
    "winter",
    "bread",
    "letters",
    "from",
    "far",
    "away",
    "what",
    "paper",
    "said",
    "of",
    "towns",
    "they",
    "never",
    "saw",
)
CHARS_PER_TOKEN = 4


def dice(*parts: str) -> float:
    """A number in [0, 1) that depends on the parts alone."""
    return int(sha256("\0".join(parts))[7:20], 16) / 16**13


def reply(prompt: str, max_tokens: int, *, right: float, wrong: float = 0.0, flavour: str = "") -> str:
    """The answer. A share `right` of sums is right; of these, and of all other texts, a share `wrong` is spoilt.

    `flavour` names what spoils: two different faults spoil different questions.
    """
    spoilt = wrong > 0 and dice("spoilt", flavour, prompt) < wrong
    door = _DOOR.search(prompt)
    if door:
        return "7" if spoilt else door[1]
    sum_ = None if len(prompt) > 200 else _SUM.search(prompt)
    if sum_:
        total = int(sum_[1]) + int(sum_[2])
        knows = dice("knows", prompt) < right
        return str(total if knows and not spoilt else total + 1 + int(9 * dice("off", flavour, prompt)))
    text = prose(prompt + (flavour if spoilt else ""), max_tokens)
    return ("!" * len(text)) if spoilt and dice("loop", prompt) < 0.5 else text


def prose(seed: str, max_tokens: int) -> str:
    """Words that depend on the seed, about `max_tokens` tokens of them."""
    length, digest = max(1, max_tokens) * CHARS_PER_TOKEN, sha256(seed).removeprefix("sha256:")
    picked = [_WORDS[int(digest[i : i + 2], 16) % len(_WORDS)] for i in range(0, 64, 2)]
    text = " ".join(picked)
    while len(text) < length:
        text += " " + text
    return text[:length].strip()


def tokens(text: str) -> int:
    """Of a text, by length."""
    return max(1, -(-len(text) // CHARS_PER_TOKEN))
