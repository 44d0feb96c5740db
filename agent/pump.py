"""Gives work to nodes and writes what it tells: the only place where a climb's facts enter the ledger."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from day0.agent import crashpoints
from day0.agent.nodes import Ended, NodePool, Told, Work
from day0.runs.artifacts import Artifacts
from day0.runs.errors import Cancelled
from day0.runs.facts import ArtifactKept, Fact, FigureChecked, PointMeasured, Progress, Rung, Verdict
from day0.runs.ledger import Ledger
from day0.runs.ledger_writer import Writer
from day0.runs.queue import ControllerLock, cancel_requested

Listener = Callable[[str, str, Fact], None]
"""(run, attempt, fact): whoever shows progress; never decides anything"""
Also = Callable[[Writer, Fact], None]
HEARTBEAT_S = 1.0


@dataclass
class Pump:
    """One run's connection between its nodes and the ledger. The thread that owns it is the only writer."""

    run: str
    ledger: Ledger
    pool: NodePool
    artifacts: Artifacts
    lock: ControllerLock
    listener: Listener
    heartbeat_s: float = HEARTBEAT_S
    """how often the controller lock and a wish to cancel are looked at, wall seconds"""
    _beat: float = field(default=0.0, init=False)

    def start(self, work: Work) -> None:
        """Starts a work on a free node. Raises `Infrastructure` when none is free."""
        self.pool.start(work)

    def until_ended(self, *, also: Also | None = None) -> Ended:
        """Writes facts as they come and returns when the first work ends.

        `also` may add to the transaction that writes a fact. Raises `Cancelled` when a person cancelled the run
        (every work is stopped first) and `LostLease` when another controller took over.
        """
        while True:
            if self._due():
                self.lock.check()
                if cancel_requested(self.ledger, self.run):
                    self.pool.close()
                    raise Cancelled(f"run {self.run} was cancelled")
            told = self.pool.next(HEARTBEAT_S)
            if isinstance(told, Ended):
                return told
            if told is not None:
                self._write(told, also)

    def _due(self) -> bool:
        now = time.monotonic()
        if now - self._beat < self.heartbeat_s:
            return False
        self._beat = now
        return True

    def _write(self, told: Told, also: Also | None) -> None:
        fact = told.fact
        if isinstance(fact, ArtifactKept) and not fact.stored:
            fact = fact.model_copy(update={"stored": self.artifacts.put(fact.data), "data": b""})
        if not isinstance(fact, Progress):
            with self.ledger.write(self.run) as writer:
                if told.key != self.run and not self._stands(told.key, fact):
                    writer.record(told.key, told.epoch, fact, node_s=told.node_s)
                if also is not None:
                    also(writer, fact)
        self.listener(self.run, told.key, fact)
        _crash_points(fact)

    def _stands(self, attempt: str, fact: Fact) -> bool:
        """A winner of two workloads is confirmed and replayed twice; its rung's verdict is the first one's."""
        if not isinstance(fact, Verdict) or fact.rung not in (Rung.CONFIRM, Rung.REPLAY):
            return False
        return self.ledger.attempt(attempt).verdict(fact.rung) is not None


def _crash_points(fact: Fact) -> None:
    """The joints inside a climb, a pair and a replay, named for crash tests."""
    if isinstance(fact, Verdict) and fact.rung not in (Rung.ADMIT, Rung.CONFIRM, Rung.REPLAY):
        crashpoints.reached(f"verdict-{fact.rung}")
    if isinstance(fact, PointMeasured):
        crashpoints.reached({Rung.CONFIRM: "mid-pair", Rung.REPLAY: "mid-replay"}.get(fact.rung, "mid-point"))
    if isinstance(fact, FigureChecked):
        crashpoints.reached("mid-replay")
