"""This machine as a node: separate environments, processes under wardens, no containers.

Isolation is what one user on one machine can have: own work folder, allow-listed environment, own sessions,
pinned cores. Server and harness share the machine's loopback, since the harness must reach the server; only a
`job` with network "none" gets a network namespace of its own. Mounts are links, read-only by agreement: whoever
needs proof hashes before and after.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from day0.runs.errors import DiskFull, Infrastructure, Timeout
from day0.sandboxes import environment, files, janitor, record, scratch
from day0.sandboxes.clock import WallClock
from day0.sandboxes.host import HOST_OUTPUT, admit_command
from day0.sandboxes.images import Images, Installed
from day0.sandboxes.isolation import grants_network_namespace
from day0.sandboxes.local_sandbox import LocalSandbox, Place
from day0.sandboxes.portbook import PortBook
from day0.sandboxes.spec import CancelToken, Completed, SandboxSpec, Sweep
from day0.sandboxes.spool import FULL


class LocalNode:
    """Node `name` under the folder `root`.

    `env_allow` adds names to the environment allow-list; `offline` tells whether a job can be cut off from the
    network here.
    """

    def __init__(
        self,
        name: str,
        root: Path,
        *,
        cancel: CancelToken,
        env_allow: Iterable[str] = (),
        offline: Callable[[], bool] = grants_network_namespace,
    ) -> None:
        self.name, self.root = name, root.absolute() / name
        self.clock = WallClock(cancel)
        self._env_allow, self._offline = tuple(env_allow), offline
        self.images: Images = Installed(_is_environment, _beside)
        self._sandboxes, self._wardens = self.root / "sandboxes", self.root / "wardens"
        self._caches = root.absolute() / "caches"
        for folder in (self._sandboxes, self._wardens):
            folder.mkdir(parents=True, exist_ok=True)
        self._ports = PortBook(self.root / "ports.json")

    def host(self, argv: Sequence[str], *, timeout_s: float) -> Completed:
        """Runs one of `host.COMMANDS`. Raises `Timeout`, `Refused`, `Cancelled`."""
        admit_command(argv)
        env = environment.base(os.environ) | {"PATH": environment.SYSTEM_PATH + ":/opt/rocm/bin", "LC_ALL": "C"}
        with self._place(SandboxSpec("job", "", "host")) as place:
            sandbox = LocalSandbox(
                SandboxSpec("server", "", "host"), place, env=env, ports=self._ports, clock=self.clock
            )
            try:
                process = sandbox.spawn(argv)
                code = process.wait(timeout_s).code
                return Completed(code, process.output(0, HOST_OUTPUT))
            except Timeout as error:
                raise Timeout(f"{' '.join(argv)} did not end in {timeout_s:g} s") from error
            finally:
                sandbox.close()

    @contextmanager
    def open(self, spec: SandboxSpec) -> Iterator[LocalSandbox]:
        """A sandbox; leaving the block stops all that runs in it and removes its files.

        Raises `Infrastructure` when the environment is not there, a core does not exist, or a `job` asks for no
        network and the system grants no network namespace; `DiskFull`, `Cancelled`.
        """
        self.clock.check()
        self._admit(spec)
        with self._place(spec) as place:
            caches = {name: files.cache(self._caches, name) for name in spec.caches}
            env = environment.of_sandbox(spec, place.work, caches, self._env_allow, place.scratch)
            sandbox = LocalSandbox(spec, place, env=env, ports=self._ports, clock=self.clock)
            try:
                yield sandbox
            finally:
                sandbox.close()

    def sweep(self) -> Sweep:
        """Stops what dead owners left under this node's folder, and nothing else."""
        return janitor.sweep(self._wardens, self._sandboxes)

    def _admit(self, spec: SandboxSpec) -> None:
        if spec.environment and not _is_environment(spec.environment):
            raise Infrastructure(f"the environment {spec.environment} is not installed on this node")
        if missing := set(spec.cores) - os.sched_getaffinity(0):
            raise Infrastructure(f"this machine offers no cores {sorted(missing)}")
        if spec.role == "job" and spec.network == "none" and not self._offline():
            raise Infrastructure(
                "this system grants no network namespace, so nothing can run here without network: "
                "allow unprivileged user namespaces (sysctl user.max_user_namespaces) or use Docker"
            )

    @contextmanager
    def _place(self, spec: SandboxSpec) -> Iterator[Place]:
        """A fresh work folder, its temporary folder, and the place of its records."""
        made: list[Path] = []
        temporary: Path | None = None
        try:
            # the record first: a work folder without one belongs to nobody, and a sweep may remove it
            made = files.fresh([self._wardens, self._sandboxes], f"{spec.attempt}-{spec.epoch}-{spec.role}")
            records, work = made
            temporary = scratch.of(work, records)
            record.write_owner(str(records), str(temporary))
            (work / "home").mkdir()
            scratch.make(temporary)
            for host, inside in spec.mounts:
                files.mount(work, Path(host), inside)
        except (OSError, Infrastructure) as error:
            for folder in made:
                shutil.rmtree(folder, ignore_errors=True)
            if temporary is not None:
                scratch.remove(temporary)
            if isinstance(error, Infrastructure):
                raise
            kind = DiskFull if error.errno in FULL else Infrastructure
            raise kind(f"no sandbox can be made under {self._sandboxes}: {error.strerror}") from error
        yield Place(work, temporary, records)


def _is_environment(folder: str) -> bool:
    return Path(folder, "bin").is_dir()


def _beside(folder: str) -> list[str]:
    """Environments that lie beside where one was looked for."""
    try:
        return sorted(str(other) for other in Path(folder).parent.iterdir() if _is_environment(str(other)))
    except OSError:
        return []
