"""A simulated process behind the `Process` port."""

from __future__ import annotations

from collections.abc import Sequence

from day0.runs.errors import Cancelled, Timeout
from day0.sandboxes.clock import CANCELLED_GRACE_S
from day0.sandboxes.simulated.machine import KILLED, Machine, SimProcess, Tree
from day0.sandboxes.spec import CancelToken, Exit, Vitals
from day0.sandboxes.spool import SpoolReader


class VirtualProcess:
    """The program of a tree, and through it the whole tree."""

    def __init__(self, machine: Machine, tree: Tree, process: SimProcess, cancel: CancelToken) -> None:
        self._machine, self._tree, self._process, self._cancel = machine, tree, process, cancel
        self._spool = SpoolReader(tree.spool.folder)

    def _check(self) -> None:
        if self._cancel():
            raise Cancelled("cancelled")

    def poll(self) -> Exit | None:
        """How the program itself ended, or None."""
        code = self._process.code
        return None if code is None else Exit(code, oom=False)

    def wait(self, timeout_s: float) -> Exit:
        """Raises `Timeout`, `Cancelled`."""
        kernel = self._machine.kernel
        if not kernel.run(kernel.now + timeout_s, lambda: self._process.code is not None, self._check):
            raise Timeout(f"the program still runs after {timeout_s:g} s")
        return Exit(self._process.code or 0, oom=False)

    def output(self, offset: int, max_bytes: int) -> bytes:
        """Both streams, from a logical offset."""
        return self._spool.read(offset, max_bytes) if offset < self._tree.spool.total else b""

    def vitals(self) -> Vitals:
        """Signs of life of the tree."""
        living = self._tree.living()
        members = self._tree.members
        return Vitals(
            output_bytes=self._tree.spool.total,
            cpu_s=sum(p.cpu_s for p in members),
            io_bytes=sum(p.io_bytes for p in members),
            children=len(living),
            vram_bytes=sum(p.vram_bytes for p in living),
        )

    def pin(self, cores: Sequence[int]) -> None:
        """A simulated machine has as many cores as it needs."""

    def stop(self, grace_s: float) -> Exit:
        """SIGTERM to the tree, SIGKILL after the grace. The cancel token does not interrupt it."""
        kernel, tree = self._machine.kernel, self._tree
        for process in tree.living():
            process.terminate()
        start, grace = kernel.now, min(grace_s, CANCELLED_GRACE_S)
        kernel.run(start + grace, lambda: not tree.living(), lambda: None)
        if grace < grace_s and not self._cancel():
            kernel.run(start + grace_s, lambda: not tree.living() or self._cancel(), lambda: None)
        while living := tree.living():
            for process in living:
                process.end(KILLED)
        return Exit(self._process.code or 0, oom=False)
