"""What to raise for a server that died, hangs or can't work: the candidate's fault, or the machine's."""

from __future__ import annotations

import re

from day0.runs.engine_facts import EngineFacts
from day0.runs.errors import CandidateFailed, Day0Error, DiskFull, Infrastructure
from day0.runs.facts import FailureClass
from day0.sandboxes.base import Process
from day0.sandboxes.spec import Exit
from day0.sandboxes.watch import Life
from day0.tools.diagnose import diagnose

LOG_BYTES = 8 << 20
SURE_ENOUGH = 0.8
"""confidence from which a log lays a death on the machine"""
NOT_THE_CANDIDATES = {FailureClass.NETWORK_DOWNLOAD, FailureClass.PERMISSION_DEVICE, FailureClass.PORT_LEFTOVER}


_PORT = re.compile(r"(?i)\bport\b|address already in use|\bbind\b")


class PortTaken(Infrastructure):
    """Something else listens on the port that the server was given."""


def read_log(process: Process, max_bytes: int) -> bytes:
    """A process' output from its beginning, at most `max_bytes`."""
    kept = bytearray()
    while len(kept) < max_bytes and (piece := process.output(len(kept), min(1 << 20, max_bytes - len(kept)))):
        kept += piece
    return bytes(kept)


def failure(process: Process, facts: EngineFacts, ended: Exit | None, said: str = "") -> Day0Error:
    """What to raise for a server that died or can't work: the candidate's fault, or the machine's."""
    log = read_log(process, 64 << 20)
    found = diagnose(log, facts=facts)
    kind, evidence = found.failure, found.evidence
    if kind in NOT_THE_CANDIDATES and found.confidence < SURE_ENOUGH:
        kind = FailureClass.UNKNOWN
    if kind == FailureClass.UNKNOWN or found.tells == "quality":  # that it ran slowly does not tell why it died
        kind = FailureClass.OOM if ended is not None and ended.oom else FailureClass.CRASHED
        how = said or (f"the server ended with {_code(ended)}" if ended else "the server does not work")
        evidence = f"{how}; its last word: {evidence}" if evidence else how
    if kind == FailureClass.DISK_FULL:
        return DiskFull(f"the server found no room: {evidence}")
    if kind == FailureClass.PORT_LEFTOVER and not _PORT.search(evidence):
        # memory that another process holds: a smaller share may still serve, so the candidate is told of it
        return CandidateFailed(FailureClass.OOM, evidence, found.issue, log[-LOG_BYTES:])
    if kind == FailureClass.PORT_LEFTOVER:
        return PortTaken(f"the server could not have its port: {evidence}")
    if kind in NOT_THE_CANDIDATES:
        return Infrastructure(f"{kind}: {evidence}")
    return CandidateFailed(kind, evidence, found.issue, log[-LOG_BYTES:])


def hung(process: Process, facts: EngineFacts, life: Life) -> CandidateFailed:
    """What to raise for a server without progress; a known issue of that class in the log explains it."""
    log = read_log(process, 64 << 20)
    found = diagnose(log, facts=facts)
    known = found if found.failure == FailureClass.HANG_DEADLOCK else None
    evidence = f"{life.why}; {'known issue: ' if known else 'last line: '}{found.evidence}"
    return CandidateFailed(FailureClass.HANG_DEADLOCK, evidence, known.issue if known else "unknown", log[-LOG_BYTES:])


def _code(ended: Exit) -> str:
    return f"signal {ended.code - 128}" if ended.code > 128 else f"exit code {ended.code}"
