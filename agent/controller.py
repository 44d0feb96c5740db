"""Works on one run as its database's only controller: recovers what a dead one left, drives the graph, ends cleanly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from day0.agent import checkpoints, compose, graph
from day0.agent.nodes import NodePool, Work
from day0.agent.overhead import Meter
from day0.agent.parts import Desk, Parts
from day0.agent.pump import Listener
from day0.agent.settings import Settings
from day0.agent.signals import as_interrupt
from day0.agent.steps import climbed
from day0.agent.surveying import sweep
from day0.runs.errors import Cancelled, Day0Error, Infrastructure, LostLease
from day0.runs.ledger import Ledger
from day0.runs.queue import ControllerLock, cancel_requested
from day0.runs.schema import AttemptStatus, Run, RunStatus
from day0.runs.workload import Target


class Interrupted(Cancelled):
    """Ctrl-C or SIGTERM: the run stays, its servers do not."""

    exit_code = 3


MakePool = Callable[[Settings, Meter, Target, str], NodePool]
MakeParts = Callable[[Run, NodePool, Desk], Parts]


@dataclass
class Controller:
    """Drives runs of one ledger. `make_pool` and `make_parts` are `compose`'s, or those of a shipped fake."""

    settings: Settings
    ledger: Ledger
    lock: ControllerLock
    listener: Listener
    make_pool: MakePool = compose.pool
    make_parts: MakeParts = compose.parts

    def work(self, run_id: str) -> Run:
        """Drives a queued or orphaned run to its end and returns it.

        Raises `Interrupted` (the run waits for `resume`), `UserError`, `Infrastructure` (the run is marked failed and
        can be resumed), `LostLease`. Whatever happens, no server of this run is left on a node.
        """
        run = self.ledger.run(run_id)
        meter = Meter()
        with as_interrupt(), checkpoints.saver(self.settings) as saver:
            pool = self.make_pool(self.settings, meter, run.request.target, run_id)
            try:
                parts = self.make_parts(run, pool, Desk(self.settings, self.ledger, self.lock, self.listener, meter))
                self._recover(parts, run)
                graph.drive(parts, run_id, saver)
            except LostLease:
                raise
            except (KeyboardInterrupt, Cancelled) as stopped:
                pool.close()
                self._stopped(run_id, stopped)
            except Infrastructure as error:
                pool.close()
                self._failed(run_id, error)
                raise
            finally:
                pool.close()
        return self.ledger.run(run_id)

    def _recover(self, parts: Parts, run: Run) -> None:
        """Takes over from a dead controller: its processes stopped, its attempts back in the queue (S01, S12)."""
        with self.ledger.write(run.id) as writer:
            writer.move_run(RunStatus.RUNNING)
            if parts.stand_in:
                writer.event("stand_in", {"reason": parts.stand_in})
            for attempt in self.ledger.attempts(run.id):
                if attempt.status == AttemptStatus.RUNNING and not climbed(attempt):
                    writer.interrupt(attempt.id, "its controller died")
        parts.pump.start(Work(run.id, 0, sweep))
        ended = parts.pump.until_ended()
        if ended.error is not None:
            raise ended.error

    def _stopped(self, run_id: str, stopped: BaseException) -> None:
        """A person cancelled the run, or stopped this process."""
        if isinstance(stopped, Cancelled) and cancel_requested(self.ledger, run_id):
            self._leave(run_id, RunStatus.CANCELLED, "cancelled")
            return
        self._leave(run_id, RunStatus.QUEUED, "interrupted")
        raise Interrupted(f"stopped; `day0 resume {run_id}` goes on where it was") from None

    def _failed(self, run_id: str, error: Day0Error) -> None:
        try:
            self._leave(run_id, RunStatus.FAILED, str(error))
        except Infrastructure:
            return  # the ledger itself is what failed: the first error says it

    def _leave(self, run_id: str, status: RunStatus, reason: str) -> None:
        with self.ledger.write(run_id) as writer:
            for attempt in self.ledger.attempts(run_id):
                if attempt.status == AttemptStatus.RUNNING and not climbed(attempt):
                    writer.interrupt(attempt.id, reason)
            if self.ledger.run(run_id).status == RunStatus.RUNNING:
                writer.move_run(status, reason)
