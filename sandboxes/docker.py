"""This machine's Docker daemon as a node: every sandbox is a container without network, or joins one.

A server's container and its load generator's share one network namespace, which has a loopback and nothing else. It is
held by a third container, the relay, which passes day0's own requests in through a unix socket: what measures and what
asks never runs from the candidate's image. A `job` has a namespace of its own. Everything runs as day0's own user, so
what it leaves in shared folders is this user's.

Containers are told apart by labels; a container lives as long as the process that opened it (`docker_inside.py`).
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from day0.runs.errors import Infrastructure
from day0.sandboxes import docker_janitor, environment, files, scratch
from day0.sandboxes.docker_build import CLIENTS, KEY, LABEL, Build, Built, client_of, command, outcome
from day0.sandboxes.docker_engine import DockerEngine
from day0.sandboxes.docker_images import DockerImages, Placed, room
from day0.sandboxes.docker_link import MAIN
from day0.sandboxes.docker_network import Network, Networks, Running
from day0.sandboxes.docker_options import Accelerators, Allowed, Container, Mount
from day0.sandboxes.docker_sandbox import DockerSandbox
from day0.sandboxes.local import LocalNode
from day0.sandboxes.local_process import whole
from day0.sandboxes.local_sandbox import LocalSandbox, Place
from day0.sandboxes.registry import HUB
from day0.sandboxes.spec import CancelToken, SandboxSpec, Sweep

INSIDE = (
    "__init__.py", "docker_inside.py", "identity.py", "launch.py", "memory.py", "record.py", "spool.py", "warden.py",
)  # fmt: skip
"""What runs in containers, standard library only; copied out, so that no source tree is shown to a sandbox."""
CLIENT_S = 20.0
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
        hub: str = HUB,
    ) -> None:
        super().__init__(name, root, cancel=cancel, env_allow=env_allow)
        self._engine, self._gpus, self._allowed = engine, accelerators, Allowed(tuple(allowed))
        self.images = self._places = DockerImages(
            engine, base, self._allowed, check=self.clock.check, also=tuple(also), hub=hub
        )
        self._shown = self.root / "shown"
        self._shown.mkdir(exist_ok=True)
        self._program = _program(self.root)
        self._builder: tuple[list[str], dict[str, str]] | None = None
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

    def room(self, needed: int, what: str) -> None:
        """Raises `DiskFull` where the daemon's disk has less than `needed` bytes and a reserve."""
        room(self._engine, needed, what)

    def base(self, digest: str) -> str:
        """What FROM takes for a digest: BuildKit knows no bare IDs, so an image without a registry gets a name."""
        name = self.reference(digest)
        return self._engine.named(digest) if name == digest else name

    def build(self, order: Build, *, timeout_s: float) -> Built:
        """Builds an image with our label; a failure is a result. Raises `Timeout`, `Infrastructure`, `Cancelled`."""
        client, env = self._client()
        dockerfile = (order.context / order.dockerfile).read_text(errors="replace")
        started = self.clock.now()
        with self._place(SandboxSpec("job", "", "build")) as place, closing(self._host(place, env)) as host:
            iid = place.work / "image"
            process = host.spawn(command(client, order, str(iid), {LABEL: str(self.root), KEY: order.key}))
            code = process.wait(timeout_s).code
            log = whole(process)
            digest = iid.read_text().strip() if code == 0 and iid.exists() else ""
        return outcome(digest, log, self.clock.now() - started, dockerfile)

    def made(self, key: str) -> str:
        """The ID of an image that this node built with this key; empty: there is none."""
        return next(iter(self._engine.built({LABEL: str(self.root), KEY: key})), "")

    def prune(self, keep: Iterable[str]) -> tuple[str, ...]:
        """Removes images that this node built, but for those in `keep` (digests); the IDs that went."""
        return docker_janitor.prune(self._engine, str(self.root), keep)

    def _client(self) -> tuple[list[str], dict[str, str]]:
        """The Docker client that can build here; asked once."""
        if self._builder is None:
            version: dict[str, str] = {}
            buildx: dict[str, bool] = {}
            with self._place(SandboxSpec("job", "", "build")) as place, closing(self._host(place, {})) as host:
                for name in CLIENTS:
                    asked = host.spawn([name, "version", "--format", "{{.Client.Version}}"])
                    if asked.wait(CLIENT_S).code == 0:
                        version[name] = asked.output(0, 100).decode(errors="replace").strip()
                        buildx[name] = host.spawn([name, "buildx", "version"]).wait(CLIENT_S).code == 0
            self._builder = client_of(version, buildx)
        return self._builder

    def _host(self, place: Place, env: Mapping[str, str]) -> LocalSandbox:
        """Where the Docker client runs: this host, as this user, with the registries' credentials of this user."""
        config = os.environ.get("DOCKER_CONFIG") or str(Path.home() / ".docker")
        own = environment.base(os.environ) | {
            "PATH": environment.SYSTEM_PATH, "DOCKER_HOST": self._engine.url, "DOCKER_CONFIG": config,
            "HOME": str(place.work / "home"),
        }  # fmt: skip
        spec = SandboxSpec("server", "", "build")
        return LocalSandbox(spec, place, env=own | dict(env), ports=self._ports, clock=self.clock)

    def reference(self, digest: str) -> str:
        """What a sandbox' `environment` must be for an image that was resolved."""
        return self._places.reference(digest)

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


@functools.cache
def _inside() -> dict[str, bytes]:
    return {name: Path(__file__).with_name(name).read_bytes() for name in INSIDE}


def _program(root: Path) -> Path:
    """What runs in containers, in a folder named after its content. Raises `Infrastructure`."""
    texts = _inside()
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
