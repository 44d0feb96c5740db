"""This machine's Docker daemon as a node: every sandbox is a container without network, or joins one.

A server's container and its load generator's share one network namespace, which has a loopback and nothing else. It is
held by a third container, the relay, which passes day0's own requests in through a unix socket: what measures and what
asks never runs from the candidate's image. A `job` has a namespace of its own. Everything runs as day0's own user, so
what it leaves in shared folders is this user's.

Containers are told apart by labels; a container lives as long as the process that opened it (`docker_inside.py`).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from day0.runs.errors import Infrastructure
from day0.sandboxes import docker_janitor, environment, files, scratch
from day0.sandboxes.docker_engine import DockerEngine
from day0.sandboxes.docker_images import DockerImages, Placed
from day0.sandboxes.docker_link import MAIN
from day0.sandboxes.docker_network import Network, Networks, Running
from day0.sandboxes.docker_options import Accelerators, Allowed, Container, Mount
from day0.sandboxes.docker_sandbox import DockerSandbox
from day0.sandboxes.local import LocalNode
from day0.sandboxes.local_sandbox import Place
from day0.sandboxes.spec import CancelToken, SandboxSpec, Sweep

INSIDE = (
    "__init__.py", "docker_inside.py", "identity.py", "launch.py", "memory.py", "record.py", "spool.py", "warden.py",
)  # fmt: skip
"""What runs in containers, standard library only; copied out, so that no source tree is shown to a sandbox."""
COMPILED = {"AITER_JIT_DIR": "aiter", "TRITON_CACHE_DIR": "triton", "FLYDSL_RUNTIME_CACHE_DIR": "flydsl"}
"""Where compilers of kernels keep what they made: a cache that outlives the container, or its home."""


class DockerNode(LocalNode):
    """Node `name` under the folder `root`.

    `base` is the image for environments on this host and for the relay; `allowed` are the folders that sandboxes may
    be shown; `accelerators` go to server and job containers and to no others.
    """

    def __init__(
        self,
        name: str,
        root: Path,
        *,
        engine: DockerEngine,
        base: str,
        allowed: Iterable[Path],
        cancel: CancelToken,
        accelerators: Accelerators | None = None,
        also: Iterable[str] = (),
        env_allow: Iterable[str] = (),
    ) -> None:
        super().__init__(name, root, cancel=cancel, env_allow=env_allow)
        self._engine, self._gpus, self._allowed = engine, accelerators, Allowed(tuple(allowed))
        self.images = self._places = DockerImages(engine, base, self._allowed, also=tuple(also))
        self._shown = self.root / "shown"
        self._shown.mkdir(exist_ok=True)
        self._program = _program(self.root)
        self._networks = Networks(engine, self._wardens, self._relay)

    @contextmanager
    def open(self, spec: SandboxSpec) -> Iterator[DockerSandbox]:
        """A container; leaving the block ends all that runs in it and removes it and its files.

        Raises `Infrastructure` when image, device or core is not there, `Refused` for a mount outside of what may be
        shown, `DiskFull`, `NodeLost`, `Cancelled`.
        """
        self.clock.check()
        placed = self._places.place(spec.environment)
        mounts = [*placed.mounts, *(mount for host, _ in spec.mounts for mount in self._allowed.show(host))]
        if missing := set(spec.cores) - os.sched_getaffinity(0):
            raise Infrastructure(f"this machine offers no cores {sorted(missing)}")
        with self._place(spec) as place:
            sandbox = self._enter(spec, placed, mounts, place)
            try:
                yield sandbox
            finally:
                sandbox.close()

    def sweep(self) -> Sweep:
        """Removes the containers that dead owners left, then their files. Nothing without our label is touched."""
        swept = docker_janitor.sweep(self._engine, str(self.root))
        if swept.failed:
            return swept
        rest = super().sweep()
        for folder in self._shown.iterdir():
            if not (self._wardens / folder.name).exists():
                files.remove(folder)
        return Sweep((*swept.stopped, *rest.stopped), rest.failed)

    def close(self) -> None:
        """Releases the connection to the daemon; sandboxes must be closed by then."""
        self._engine.close()

    def _enter(self, spec: SandboxSpec, placed: Placed, mounts: list[Mount], place: Place) -> DockerSandbox:
        """The started container. Nothing is left where that fails."""
        shown = self._shown / place.records.name
        network: Network | None = None
        try:
            shown.mkdir(mode=0o700)
            caches = {name: files.cache(self._caches, name) for name in spec.caches}
            network = self._networks.join(spec)
            own = dict.fromkeys((place.work, place.scratch, shown, *caches.values()))
            wanted = self._container(
                spec, placed, self._command("keep", shown), network, (*mounts, *(Mount(str(p), True) for p in own))
            )
            running = Running.begin(self._engine, wanted, shown)
        except BaseException:
            if network is not None:
                self._networks.leave(spec, "")
            for folder in (shown, place.work, place.records):
                files.remove(folder)
            scratch.remove(place.scratch)
            raise
        return DockerSandbox(
            spec, place, running, env=self._variables(spec, placed, place, caches), ports=self.root / "ports.json",
            clock=self.clock, program=self._program, networks=self._networks,
        )  # fmt: skip

    def _variables(self, spec: SandboxSpec, placed: Placed, place: Place, caches: dict[str, Path]) -> dict[str, str]:
        """The image's own variables, then the sandbox'."""
        env = environment.of_sandbox(spec, place.work, caches, self._env_allow, place.scratch)
        compiled = next(iter(caches.values()), place.work / "home")
        preset = {name: str(compiled / folder) for name, folder in COMPILED.items()}
        path = {} if "PATH" in spec.env else {"PATH": placed.path}
        return {**placed.env, **preset, **env, **path}

    def _container(
        self, spec: SandboxSpec, placed: Placed, command: tuple[str, ...], network: Network, mounts: tuple[Mount, ...],
    ) -> Container:  # fmt: skip
        mounts = tuple(dict.fromkeys((*mounts, Mount(str(self._program)))))
        return Container(
            image=placed.image,
            command=command,
            network=network,
            user=f"{os.geteuid()}:{os.getegid()}",
            labels=docker_janitor.labels(str(self.root), spec, spec.role),
            mounts=mounts,
            memory_bytes=spec.memory_bytes,
            cores=spec.cores,
            accelerators=self._gpus if spec.role in {"server", "job"} else None,
        )

    def _relay(self, spec: SandboxSpec, folder: Path, network: Network) -> Container:
        return Container(
            image=self._places.place("").image,
            command=self._command("relay", folder),
            network=network,
            user=f"{os.geteuid()}:{os.getegid()}",
            labels=docker_janitor.labels(str(self.root), spec, docker_janitor.RELAY),
            mounts=(Mount(str(folder), True), Mount(str(self._program))),
        )

    def _command(self, mode: str, folder: Path) -> tuple[str, ...]:
        return ("python3", "-I", "-S", str(self._program / "sandboxes" / MAIN), mode, str(folder))


def _program(root: Path) -> Path:
    """What runs in containers, in a folder named after its content. Raises `Infrastructure`."""
    source = Path(__file__).parent
    texts = {name: (source / name).read_bytes() for name in INSIDE}
    digest = hashlib.sha256(b"".join(texts[name] for name in INSIDE)).hexdigest()[:12]
    place = root / f"inside-{digest}" / "sandboxes"
    try:
        place.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            if not (place / name).exists():
                files.write(place / name, text)
    except OSError as error:
        raise Infrastructure(f"{place} can't be written: {error.strerror}") from error
    return place.parent
