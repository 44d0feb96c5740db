"""The simulated machine: processes, ports, and whose they are. It goes on when a day0 that used it is gone."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from day0.sandboxes.simulated.exchange import Exchange
from day0.sandboxes.simulated.kernel import Event, Kernel
from day0.sandboxes.simulated.steps import (
    Await,
    Exit,
    Handler,
    Listen,
    Out,
    Program,
    Request,
    Start,
    Step,
    Terminated,
    Use,
    Wait,
)
from day0.sandboxes.spool import SpoolWriter

TERMINATED, KILLED = 128 + 15, 128 + 9


@dataclass(frozen=True)
class Context:
    """What a program sees of its surroundings."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    folder: Path
    machine: Machine
    pid: int
    stdin: bytes = b""


@dataclass
class Tree:
    """One spawned program with all that descends from it: what a warden watches on a real machine."""

    attempt: str
    owner: object
    spool: SpoolWriter
    members: list[SimProcess] = field(default_factory=list)

    def living(self) -> list[SimProcess]:
        """Members that have not ended."""
        return [process for process in self.members if process.code is None]


class SimProcess:
    """A program being run: a generator and where it stands."""

    def __init__(self, machine: Machine, program: Program, context: Context, tree: Tree) -> None:
        self.machine, self.tree, self.pid, self.argv = machine, tree, context.pid, context.argv
        self.code: int | None = None
        self._vram_bytes = self.io_bytes = 0
        self.exchanges: list[Exchange] = []
        self.context = context
        self._cpu_s = 0.0
        self._waiting: tuple[float, float] | None = None
        self._event: Event | None = None
        self._turn = 0
        self._body: Generator[Step, object, None] = program(context)
        tree.members.append(self)
        self._resume_later(0.0, None)

    @property
    def vram_bytes(self) -> int:
        """Accelerator memory that it holds."""
        return self._vram_bytes

    @vram_bytes.setter
    def vram_bytes(self, held: int) -> None:
        self.machine.changes += held != self._vram_bytes
        self._vram_bytes = held

    @property
    def cpu_s(self) -> float:
        """CPU seconds used up to now."""
        if self._waiting is None:
            return self._cpu_s
        since, share = self._waiting
        return self._cpu_s + (self.machine.kernel.now - since) * share

    def terminate(self) -> None:
        """SIGTERM."""
        if self.code is None:
            self._forget()
            self._go(lambda: self._body.throw(Terminated()))

    def end(self, code: int) -> None:
        """The process is gone: ports free, connections dropped, nothing of it runs any more."""
        if self.code is not None:
            return
        self._forget()
        self.code = code
        with contextlib.suppress(RuntimeError, ValueError):  # it refused to close, or is the one that runs now
            self._body.close()
        self.machine.release(self)
        for exchange in list(self.exchanges):
            exchange.drop()

    def _resume_later(self, seconds: float, value: object) -> None:
        self._event = self.machine.kernel.after(seconds, lambda: self._resume(value))

    def _resume(self, value: object) -> None:
        self._forget()
        self._go(lambda: self._body.send(value))

    def _forget(self) -> None:
        """Whatever it waited for no longer counts."""
        self._cpu_s, self._waiting = self.cpu_s, None
        self._turn += 1
        if self._event is not None:
            self._event.drop()
            self._event = None

    def _go(self, advance: Callable[[], Step]) -> None:
        """Runs the program until it waits for something or ends."""
        while self.code is None:
            try:
                step = advance()
            except StopIteration:
                return self.end(0)
            except Terminated:
                return self.end(TERMINATED)
            except OSError as error:
                self.tree.spool.append(f"{type(error).__name__}: {error}\n".encode())
                return self.end(1)
            waits, advance = self._do(step)
            if waits:
                return None
        return None

    def _do(self, step: Step) -> tuple[bool, Callable[[], Step]]:
        """Does one step; whether the program now waits, else how it goes on."""
        value: object = None
        match step:
            case Wait(seconds, cpu):
                self._waiting = (self.machine.kernel.now, cpu)
                self._resume_later(seconds, None)
                return True, lambda: self._body.send(None)
            case Await(start, cpu):
                self._waiting = (self.machine.kernel.now, cpu)
                turn = self._turn
                start(
                    lambda result: self._resume_later(0.0, result) if self._turn == turn and not self._event else None
                )
                return True, lambda: self._body.send(None)
            case Exit(code):
                self.end(code)
            case Out(data):
                self.tree.spool.append(data)
            case Use(io_bytes, vram_bytes):
                self.io_bytes += io_bytes
                self.vram_bytes += vram_bytes
            case Listen(port, handler):
                if not self.machine.is_free(port):
                    return False, lambda: self._body.throw(OSError(98, f"port {port}: address already in use"))
                self.machine.listen(port, self, handler)
            case Start(program, argv):
                value = self.machine.start(
                    program, argv, self.tree, env=self.context.env, folder=self.context.folder
                ).pid
        return False, lambda: self._body.send(value)


class Machine:
    """Clock, processes and ports of one simulated node."""

    def __init__(self) -> None:
        self.kernel = Kernel()
        self.trees: list[Tree] = []
        self.changes = 0
        """counts whatever changed of processes, their memory and ports"""
        self._ports: dict[int, tuple[SimProcess, Handler]] = {}
        self._watchers: dict[object, list[Callable[[], None]]] = {}
        self._pid = 100

    def start(
        self,
        program: Program,
        argv: Sequence[str],
        tree: Tree,
        *,
        env: Mapping[str, str],
        folder: Path,
        stdin: bytes = b"",
    ) -> SimProcess:
        """Runs a program as part of `tree`; it takes its first step when time next passes."""
        self._pid += 1
        self.changes += 1
        return SimProcess(self, program, Context(tuple(argv), dict(env), folder, self, self._pid, stdin), tree)

    def fork(self, parent: SimProcess, program: Program, argv: Sequence[str]) -> SimProcess:
        """A child: the parent's tree, environment and folder."""
        return self.start(program, argv, parent.tree, env=parent.context.env, folder=parent.context.folder)

    def is_free(self, port: int) -> bool:
        """Whether nobody listens there."""
        return port not in self._ports

    def listen(self, port: int, process: SimProcess, handler: Handler) -> None:
        """Gives the port to a process until it ends."""
        self.changes += 1
        self._ports[port] = (process, handler)

    def watch(self, key: object, wake: Callable[[], None]) -> None:
        """Calls `wake` once, when something is written into a folder from outside, or when a process ends."""
        self._watchers.setdefault(key, []).append(wake)

    def tell(self, key: object) -> None:
        """Something happened to a folder or a process."""
        for wake in self._watchers.pop(key, ()):
            wake()

    def release(self, process: SimProcess) -> None:
        """Frees what a dead process held."""
        self.changes += 1
        process.vram_bytes = 0
        self._ports = {port: held for port, held in self._ports.items() if held[0] is not process}
        self.tell(process)

    def connect(self, port: int, request: Request) -> Exchange | None:
        """Sends a request; None when nobody listens. The answer comes as time passes."""
        if port not in self._ports:
            return None
        process, handler = self._ports[port]
        exchange = Exchange(self.kernel, handler(request), die=process.end, ended=process.exchanges.remove)
        process.exchanges.append(exchange)
        return exchange
