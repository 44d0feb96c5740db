"""Why a server failed: known issues, found in its log.

A log is untrusted data of any size: it is scanned in one pass, in pieces, and nothing of it is interpreted. Each
signature has an anchor, the longest text that every match contains; finding anchors costs little more than reading
(10 MB in under a second), and regular expressions run only on the lines where one was found.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from day0.runs.engine_facts import EngineFacts
from day0.runs.facts import FailureClass
from day0.runs.values import Frozen
from day0.tools.known import KnownIssue, Remedy, known_issues

PIECE_BYTES = 1 << 20
MAX_LINE_BYTES = 1 << 16
TRIES_PER_SIGNATURE = 200
"""Lines that carry an anchor and may be looked at per signature; a flood of one line can't slow the scan."""
EVIDENCE_CHARS = 400
_ESCAPES = re.compile(rb"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)?|.)|[\x00-\x08\x0b-\x1f\x7f]")
_ERROR = re.compile(
    rb"(?m)^(?:[\w.]+(?:Error|Exception)\b.{0,8192}|.{0,256}\berror: \S.{0,8192}|Segmentation fault.{0,80}|Killed)$"
)


class Diagnosis(Frozen):
    """What a log says. `issue` is `unknown` and `confidence` 0 when no known issue matches; `evidence` is one line."""

    failure: FailureClass
    issue: str = "unknown"
    confidence: float = 0.0
    evidence: str = ""
    cause: str = ""
    remedies: tuple[Remedy, ...] = ()
    upstream: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    """other known issues that matched, most likely first"""


@dataclass
class _Signature:
    issue: KnownIssue
    pattern: re.Pattern[bytes]
    anchor: bytes
    tries: int = TRIES_PER_SIGNATURE


@dataclass
class _Scan:
    signatures: list[_Signature]
    hits: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    last_error: bytes = b""
    last_line: bytes = b""

    def piece(self, text: bytes, offset: int) -> None:
        """Looks at whole lines; `offset` is where they lie in the log."""
        for signature in self.signatures:
            if signature.issue.id not in self.hits and signature.tries > 0:
                self._try(signature, text, offset)
        for error in _ERROR.finditer(text):
            self.last_error = _clean(error[0])
        tail = [line for line in (_clean(raw) for raw in text[-MAX_LINE_BYTES:].splitlines()) if line]
        self.last_line = tail[-1] if tail else self.last_line

    def _try(self, signature: _Signature, text: bytes, offset: int) -> None:
        at = text.find(signature.anchor)
        while at >= 0 and signature.tries > 0:
            start = max(text.rfind(b"\n", 0, at), text.rfind(b"\r", 0, at)) + 1
            ends = [end for end in (text.find(b"\n", at), text.find(b"\r", at)) if end >= 0]
            end = min(ends, default=len(text))
            line = _clean(text[start : min(end, start + MAX_LINE_BYTES)])
            signature.tries -= 1
            if signature.pattern.search(line):
                self.hits[signature.issue.id] = (offset + start, line)
                return
            at = text.find(signature.anchor, max(end, at + 1))


def diagnose(log: bytes | Iterable[bytes], *, facts: EngineFacts | None = None) -> Diagnosis:
    """The most likely known issue of a log; `facts` of the build leave out issues that it no longer has.

    Root causes go before symptoms, then confidence, then what was logged first. Never raises.
    """
    issues = [issue for issue in known_issues() if issue.stack.may_apply(facts)]
    scan = _Scan([_Signature(issue, *compiled) for issue in issues for compiled in issue.compiled()])
    offset = 0
    for piece in _whole_lines([log] if isinstance(log, bytes) else log):
        scan.piece(piece, offset)
        offset += len(piece)
    found = sorted(
        (issue for issue in issues if issue.id in scan.hits),
        key=lambda issue: (issue.symptom, -issue.confidence, scan.hits[issue.id][0], issue.id),
    )
    if not found:
        return Diagnosis(failure=FailureClass.UNKNOWN, evidence=_text(scan.last_error or scan.last_line))
    first = found[0]
    return Diagnosis(
        failure=first.failure,
        issue=first.id,
        confidence=first.confidence,
        evidence=_text(scan.last_error if first.symptom and scan.last_error else scan.hits[first.id][1]),
        cause=first.cause,
        remedies=first.remedies,
        upstream=tuple(f"{link.link} ({link.status})" for link in first.upstream),
        also=tuple(issue.id for issue in found[1:]),
    )


def count_lines(pattern: bytes, log: bytes) -> int:
    """How many lines of a log match, for lines that tell of a slow path."""
    return sum(1 for line in log.splitlines() if re.search(pattern, line)) if re.search(pattern, log) else 0


def _whole_lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Cuts a stream into pieces that end at line ends, each at most about `PIECE_BYTES` + `MAX_LINE_BYTES` long."""
    rest = b""
    for given in pieces:
        for at in range(0, len(given), PIECE_BYTES):
            text = rest + given[at : at + PIECE_BYTES]
            cut = max(text.rfind(b"\n"), text.rfind(b"\r")) + 1
            if cut == 0 and len(text) > MAX_LINE_BYTES:
                cut = len(text)
            if cut:
                yield text[:cut]
            rest = text[cut:]
    if rest:
        yield rest


def _clean(line: bytes) -> bytes:
    return _ESCAPES.sub(b"", line).strip()


def _text(line: bytes) -> str:
    return line.decode(errors="replace")[:EVIDENCE_CHARS]
