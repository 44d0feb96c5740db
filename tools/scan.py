"""One pass over a log of any size: which of many signatures stand on which line.

Most lines of a log repeat each other but for their numbers, so each form of a line is looked at once. Each signature
has an anchor, the longest text that every match contains: only where it is found does the regular expression run.
Nothing of the log is interpreted: it is untrusted data.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache

from day0.tools.anchors import anchors_of

PIECE_BYTES = 1 << 20
MAX_LINE_BYTES = 1 << 16
TRIES_PER_SIGNATURE = 200
"""Lines of different forms that carry an anchor and may be looked at per signature."""
FORMS_KEPT = 1 << 18
"""Forms of lines remembered at most; a log with more of them is looked at again from there, not wrongly."""
LONG_TEXT = 1 << 17
WORDS_OF_TROUBLE = (
    b"rror",
    b"xception",
    b"ailed",
    b"ailure",
    b"atal",
    b"annot",
    b"nable to",
    b"bort",
    b"illed",
    b"ault",
)
"""what a line that may tell something contains, without its first letter"""
TELLING_PER_WORD = 24
_ESCAPES = re.compile(rb"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)?|.)|[\x00-\x08\x0b-\x1f\x7f]")
_PREFIX = re.compile(
    rb"(?:\s*(?:\([\w ]{1,40}(?: \w+=\w+)*\)|\[[^\]]{1,80}\]:?|-->|\|"
    rb"|(?:ERROR|WARNING|INFO|CRITICAL|FATAL|DEBUG|E|W|I)[ :]+(?:\d[\d./-]*[ T])?[\d:.,]*(?= )"
    rb"|\d{4}-\d\d-\d\d[ T][\d:.,]+Z?(?: \w+)?|: (?=\w+Error\b)|\w+\.\w+:\d+:|\d+: ))+\s*"
)
_MASK = bytes.maketrans(b"0123456789abcdefABCDEF\r", b"0" * 22 + b"\n")
_WORD = re.compile(rb"[A-Za-z]{4,}")
_WARNS = re.compile(
    rb"\bWARNING\b|\b\w*Warning: |\bwarnings\.warn\b|^W\d{4} |\[W\d+|Ignore import error|Module Not Found"
    rb"|(?:\w+=[^,]{1,60}, ){12}|(?:'\w+': [^,]{1,60}, ){12}"
)
"""a mere warning, or what looks like a list of settings"""
_SETTINGS = re.compile(rb"\bserver_args=|\bnon-default args: |\bwith config: model=")
"""an engine that tells how it is configured: names of settings are never why it failed"""
_THROWN = re.compile(rb"^[\w.]+(?:Error|Exception|Interrupt|Fault|Timeout|Exit|OutOfResources)\b")


@cache
def compiled(pattern: str) -> re.Pattern[bytes]:
    """A signature over the bytes of a line."""
    return re.compile(pattern.encode())


@cache
def longest_word(anchor: bytes) -> bytes:
    """The longest run of letters in an anchor, which some word of every text with it contains; empty: too short."""
    return max(_WORD.findall(anchor), key=len, default=b"")


@dataclass(frozen=True)
class Line:
    """A line of a log: its text without escapes, and its place among the log's lines."""

    number: int
    text: bytes

    @property
    def body(self) -> bytes:
        """Without what loggers put before the message: time, level, process."""
        return self.text[found.end() :] if (found := _PREFIX.match(self.text)) else self.text


@dataclass
class Scan:
    """What was found so far; `patterns` are looked for, `marks` are texts of which any one counts."""

    patterns: tuple[str, ...]
    marks: tuple[bytes, ...] = ()
    loud: frozenset[str] = frozenset()
    """patterns that a mere warning does not fulfil"""
    hits: dict[str, Line] = field(default_factory=dict)
    last: Line = Line(0, b"")
    marked: bool = False
    lines: int = 0
    telling: list[Line] = field(default_factory=list)
    _tries: dict[str, int] = field(default_factory=dict)
    _forms: set[int] = field(default_factory=set)

    def piece(self, text: bytes) -> None:
        """Looks at whole lines."""
        fresh, numbers = self._fresh(text)
        if not fresh:
            return
        starts = [0]
        for line in fresh:
            starts.append(starts[-1] + len(line) + 1)
        place = _Place(b"\n".join(fresh), starts, numbers)
        self.marked = self.marked or any(mark in place.text for mark in self.marks)
        words = b" ".join(set(_WORD.findall(place.text))) if len(place.text) > LONG_TEXT else None
        for pattern in self.patterns:
            if pattern not in self.hits:
                self._try(pattern, place, words)
        self._tell(place)

    def _fresh(self, text: bytes) -> tuple[list[bytes], list[int]]:
        """Lines of forms not seen before, and their numbers."""
        masked, lines = text.translate(_MASK).split(b"\n"), text.replace(b"\r", b"\n").split(b"\n")
        fresh, numbers, forms = [], [], self._forms
        for i, line in enumerate(masked):
            form = hash(line)
            if form not in forms:
                forms.add(form)
                fresh.append(lines[i][:MAX_LINE_BYTES])
                numbers.append(self.lines + i)
        if len(forms) > FORMS_KEPT:
            forms.clear()
        self.lines += len(lines)
        for i in range(len(lines) - 1, max(-1, len(lines) - 200), -1):
            if cleaned := clean(lines[i][:MAX_LINE_BYTES]):
                self.last = Line(self.lines - len(lines) + i, cleaned)
                break
        return fresh, numbers

    def _try(self, pattern: str, place: _Place, words: bytes | None) -> None:
        for anchor in anchors_of(pattern):
            word = longest_word(anchor)
            if (words is None or not word or word in words) and self._try_at(pattern, anchor, place):
                return

    def _try_at(self, pattern: str, anchor: bytes, place: _Place) -> bool:
        at = place.text.find(anchor)
        while at >= 0 and self._tries.get(pattern, 0) < TRIES_PER_SIGNATURE:
            self._tries[pattern] = self._tries.get(pattern, 0) + 1
            line, after = place.line(at)
            if _SETTINGS.search(line.text) or (pattern in self.loud and _WARNS.search(line.text)):
                at = place.text.find(anchor, after)
                continue
            if compiled(pattern).search(line.text) or compiled(pattern).search(line.body):
                self.hits[pattern] = line
                return True
            at = place.text.find(anchor, after)
        return False

    def _tell(self, place: _Place) -> None:
        found: dict[int, Line] = {line.number: line for line in self.telling}
        for word in WORDS_OF_TROUBLE:
            at = len(place.text)
            for _ in range(TELLING_PER_WORD):
                at = place.text.rfind(word, 0, at)
                if at < 0:
                    break
                line, _after = place.line(at)
                found[line.number] = line
                at = place.start(at)
        self.telling = [found[number] for number in sorted(found)][-4 * TELLING_PER_WORD :]

    def last_error(self) -> bytes:
        """The last exception that stands at the beginning of a message, else the last line of trouble."""
        thrown = [line for line in self.telling if _THROWN.match(line.body)]
        loud = [line for line in self.telling if not line.body.startswith((b"File ", b"raise "))]
        return (thrown or [line for line in loud if b"rror:" in line.text] or [Line(0, b"")])[-1].text

    def most_telling(self, count: int) -> tuple[bytes, ...]:
        """The lines that tell most: exceptions before words of trouble, later ones before earlier, in their order."""
        ranked = sorted(self.telling, key=lambda line: (bool(_THROWN.match(line.body)), line.number), reverse=True)
        chosen = sorted({line.text: line for line in ranked}.values(), key=ranked.index)[:count]
        return tuple(line.text for line in sorted(chosen, key=lambda line: line.number))


@dataclass(frozen=True)
class _Place:
    """Lines joined to one text."""

    text: bytes
    starts: list[int]
    numbers: list[int]

    def _index(self, at: int) -> int:
        from bisect import bisect_right

        return bisect_right(self.starts, at) - 1

    def start(self, at: int) -> int:
        """Where the line of a position begins."""
        return self.starts[self._index(at)]

    def line(self, at: int) -> tuple[Line, int]:
        """The line of a position, and where the next one begins."""
        i = self._index(at)
        return Line(self.numbers[i], clean(self.text[self.starts[i] : self.starts[i + 1] - 1])), self.starts[i + 1]


def scan(
    log: bytes | Iterable[bytes],
    patterns: tuple[str, ...],
    marks: tuple[bytes, ...] = (),
    loud: frozenset[str] = frozenset(),
) -> Scan:
    """Reads a log to its end. Never raises for what stands in it."""
    found = Scan(patterns, marks, loud)
    for piece in whole_lines([log] if isinstance(log, bytes) else log):
        found.piece(piece)
    return found


def whole_lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Cuts a stream into pieces that end at line ends, each at most about `PIECE_BYTES` + `MAX_LINE_BYTES` long."""
    rest = b""
    for given in pieces:
        for at in range(0, len(given), PIECE_BYTES):
            text = rest + given[at : at + PIECE_BYTES]
            cut = max(text.rfind(b"\n"), text.rfind(b"\r")) + 1
            if cut == 0 and len(text) > MAX_LINE_BYTES:
                cut = len(text)
            if cut:
                yield text[:cut].removesuffix(b"\n")
            rest = text[cut:]
    if rest:
        yield rest


def clean(line: bytes) -> bytes:
    """A line without terminal escapes and blanks around it."""
    return _ESCAPES.sub(b"", line).strip()
