r"""A node that plays scripts: the shipped fake of the node port.

Time is virtual and everything is deterministic; files are real, in a folder. Programs are generators
(`day0.sandboxes.simulated.steps`) found by the beginning of their argv, servers answer httpx through the same event
queue. A program nobody registered exits 127, as on a real node.

    def server(ctx):
        yield Out(b"loading\n")
        yield Wait(20.0, cpu=1.0)
        yield Listen(int(ctx.argv[-1]), lambda request: iter([Head(200), Body(b"ok")]))
        yield Wait(math.inf)

    node = ScriptedNode("n1", tmp_path, {"serve": server}, cancel=lambda: False)
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx
from day0.runs.errors import Cancelled, Infrastructure, Timeout
from day0.sandboxes import environment, files
from day0.sandboxes.host import HOST_OUTPUT, admit_command
from day0.sandboxes.images import Images, Installed
from day0.sandboxes.portbook import FIRST, PortBook
from day0.sandboxes.simulated.machine import KILLED, Context, Machine, Tree
from day0.sandboxes.simulated.process import VirtualProcess
from day0.sandboxes.simulated.steps import Exit, Out, Program, Step
from day0.sandboxes.simulated.transport import DEFAULT_S, VirtualClient, VirtualTransport
from day0.sandboxes.spec import CancelToken, Completed, SandboxSpec, Sweep
from day0.sandboxes.spool import SpoolWriter


class VirtualClock:
    """The machine's time, which passes when somebody waits."""

    def __init__(self, machine: Machine, cancel: CancelToken) -> None:
        self._machine, self.cancel = machine, cancel

    def now(self) -> float:
        """Virtual seconds since the machine began."""
        return self._machine.kernel.now

    def check(self) -> None:
        """Raises `Cancelled` when the token says so."""
        if self.cancel():
            raise Cancelled("cancelled")

    def sleep(self, seconds: float) -> None:
        """Raises `Cancelled` within a virtual second."""
        self._machine.kernel.run(self.now() + seconds, lambda: False, self.check)
        self.check()


def find(programs: Mapping[str, Program], argv: Sequence[str]) -> Program | None:
    """The program whose key is the longest beginning of argv, word by word; argv[0] counts without its folder."""
    words = [argv[0].rsplit("/", 1)[-1], *argv[1:]]
    for length in range(len(words), 0, -1):
        if (program := programs.get(" ".join(words[:length]))) is not None:
            return program
    return None


def _not_found(ctx: Context) -> Generator[Step, object, None]:
    yield Out(f"day0: {ctx.argv[0]}: not found (No such file or directory)\n".encode())
    yield Exit(127)


class ScriptedSandbox:
    """Made by `ScriptedNode.open`."""

    def __init__(
        self, node: ScriptedNode, spec: SandboxSpec, work: Path, records: Path, env: Mapping[str, str]
    ) -> None:
        self.spec, self.root = spec, str(work)
        self._node, self._work, self._records, self._env = node, work, records, dict(env)
        self._processes: list[VirtualProcess] = []
        self._mounts = tuple(Path(host) for host, _ in spec.mounts)

    def spawn(self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, stdin: bytes = b"") -> VirtualProcess:
        """Starts the program registered for this argv. Raises `Cancelled`."""
        node = self._node
        node.clock.check()
        folder = self._records / str(len(self._processes))
        folder.mkdir()
        tree = Tree(self.spec.attempt, node, SpoolWriter(str(folder)))
        node.machine.trees.append(tree)
        program = find(node.programs, argv) or _not_found
        own = node.machine.start(program, argv, tree, env={**self._env, **(env or {})}, folder=self._work, stdin=stdin)
        process = VirtualProcess(node.machine, tree, own, node.clock.cancel)
        self._processes.append(process)
        return process

    def read(self, path: str, max_bytes: int) -> bytes:
        """Raises `FileNotFoundError`, `Refused`."""
        return files.read(files.inside(self._work, path, self._mounts), max_bytes)

    def write(self, path: str, data: bytes) -> None:
        """Raises `DiskFull`, `Refused`."""
        files.write(files.inside(self._work, path), data)
        self._node.machine.tell(self._work)

    def free_port(self) -> int:
        """A port nobody listens on, not given within the last virtual hour."""
        return self._node.ports.take()

    def http(self, port: int) -> httpx.Client:
        """A client whose waits let virtual time pass."""
        transport = VirtualTransport(self._node.machine, self._node.clock.check)
        timeout = httpx.Timeout(DEFAULT_S, connect=5.0)
        return VirtualClient(transport, base_url=f"http://127.0.0.1:{port}", timeout=timeout)

    def close(self) -> None:
        """Stops what runs and removes the files."""
        for process in reversed(self._processes):
            process.stop(0.0)
        shutil.rmtree(self._records, ignore_errors=True)
        shutil.rmtree(self._work, ignore_errors=True)


class ScriptedNode:
    """Programs by name on a simulated machine; give two nodes one `machine` to play a restart of day0.

    `environments` are the folders that count as installed (None: any).
    """

    sandboxes: type[ScriptedSandbox] = ScriptedSandbox

    def __init__(
        self,
        name: str,
        root: Path,
        programs: Mapping[str, Program],
        *,
        cancel: CancelToken,
        machine: Machine | None = None,
        environments: Collection[str] | None = None,
        env_allow: Iterable[str] = (),
    ) -> None:
        self.name, self.root, self.programs = name, root.absolute() / name, programs
        self.machine = machine or Machine()
        self.clock = VirtualClock(self.machine, cancel)
        self.alive = True
        self._environments, self._env_allow = environments, tuple(env_allow)
        self.images: Images = Installed(self._known, lambda _: self._environments or ())
        for folder in ("sandboxes", "records"):
            (self.root / folder).mkdir(parents=True, exist_ok=True)
        self.ports = PortBook(
            self.root / "ports.json", begin=FIRST, is_free=self.machine.is_free, now=self.clock.now
        )  # fmt: skip

    def host(self, argv: Sequence[str], *, timeout_s: float) -> Completed:
        """Plays a registered host command. Raises `Timeout`, `Refused`, `Cancelled`."""
        admit_command(argv)
        with self._opened(SandboxSpec("job", "", "host")) as sandbox:
            process = sandbox.spawn(argv)
            try:
                code = process.wait(timeout_s).code
            except Timeout as error:
                raise Timeout(f"{' '.join(argv)} did not end in {timeout_s:g} s") from error
            return Completed(code, process.output(0, HOST_OUTPUT))

    @contextmanager
    def open(self, spec: SandboxSpec) -> Iterator[ScriptedSandbox]:
        """A sandbox. Raises `Infrastructure` when the environment is not installed here, `Cancelled`."""
        self.clock.check()
        if spec.environment and not self._known(spec.environment):
            raise Infrastructure(f"the environment {spec.environment} is not installed on this node")
        with self._opened(spec) as sandbox:
            yield sandbox

    def _known(self, name: str) -> bool:
        return self._environments is None or name in self._environments

    def sweep(self) -> Sweep:
        """Stops what nodes that vanished left on the machine."""
        stopped = []
        for tree in self.machine.trees:
            if isinstance(tree.owner, ScriptedNode) and not tree.owner.alive:
                for process in tree.living():
                    stopped.append((str(process.pid), tree.attempt))
                    process.end(KILLED)
        return Sweep(tuple(stopped))

    def vanish(self) -> None:
        """As if day0 and its wardens were killed at once: what runs goes on without an owner."""
        self.alive = False

    @contextmanager
    def _opened(self, spec: SandboxSpec) -> Iterator[ScriptedSandbox]:
        places = [self.root / "records", self.root / "sandboxes"]
        records, work = files.fresh(places, f"{spec.attempt}-{spec.epoch}-{spec.role}")
        for name in ("home", "tmp"):
            (work / name).mkdir()
        for host, inside in spec.mounts:
            files.mount(work, Path(host), inside)
        caches = {name: files.cache(self.root.parent / "caches", name) for name in spec.caches}
        env = environment.of_sandbox(spec, work, caches, self._env_allow)
        sandbox = self.sandboxes(self, spec, work, records, env)
        try:
            yield sandbox
        finally:
            if self.alive:
                sandbox.close()
