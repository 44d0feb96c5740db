"""All that a container of day0 can be given. What is not a field here can't be asked for: no privileges, no socket of
the Docker daemon, no network of the host, no path of the host outside the allowed ones.
"""

from __future__ import annotations

import os
import resource
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from day0.runs.errors import Infrastructure, Refused

PIDS = 32768
"""Tasks, threads included, in one container: eight schedulers with their compilers need thousands, a fork bomb more."""
NOFILE = 65535
SHM_BYTES = 2 << 30
"""Of a server without accelerators; those with them have their own figure."""
KFD: Literal["/dev/kfd"] = "/dev/kfd"
DRI: Literal["/dev/dri"] = "/dev/dri"
FORBIDDEN = ("/", "/boot", "/dev", "/etc", "/proc", "/root", "/run", "/sys", "/var", "/var/lib", "/var/run", "/home")
"""Never shown whole, even where a wide folder was allowed by mistake: they hold sockets, devices or secrets."""
BELOW = ("/boot", "/dev", "/etc", "/proc", "/run", "/sys", "/var/lib/docker", "/var/run")
"""Neither they nor anything in them."""
SECRET = (".ssh", ".gnupg", ".aws", ".docker", ".kube", ".netrc", ".git-credentials")


@dataclass(frozen=True)
class Accelerators:
    """The typed options of an AMD GPU container, and nothing else.

    `groups` are the GIDs that own the devices; `shm_bytes` is /dev/shm (RCCL's and PyTorch's); `traced` adds
    SYS_PTRACE and takes the seccomp filter off, for nodes where the all-reduce probe fails without them.
    """

    devices: tuple[Literal["/dev/kfd", "/dev/dri"], ...] = (KFD, DRI)
    groups: tuple[int, ...] = ()
    shm_bytes: int = 32 << 30
    traced: bool = False


@dataclass(frozen=True)
class Mount:
    """A path of the host, shown at the same path inside. Made by `Allowed.show` and by the node for its own folders."""

    path: str
    writable: bool = False


@dataclass(frozen=True)
class Joined:
    """The network namespace of another container of ours."""

    container: str


@dataclass(frozen=True)
class Container:
    """A container to be made. `network` "none" is a loopback of its own, "bridge" reaches the registry."""

    image: str
    command: tuple[str, ...]
    network: Literal["none", "bridge"] | Joined
    user: str
    labels: Mapping[str, str]
    mounts: tuple[Mount, ...] = ()
    memory_bytes: int | None = None
    cores: tuple[int, ...] = ()
    accelerators: Accelerators | None = None
    pids: int = PIDS

    def host_config(self) -> dict[str, object]:
        """As the Docker API takes it: `HostConfig` of POST /containers/create, API 1.41."""
        gpus = self.accelerators
        files = nofile()
        limits = [{"Name": "nofile", "Soft": files, "Hard": files}, {"Name": "core", "Soft": 0, "Hard": 0}]
        config: dict[str, object] = {
            "Binds": [f"{mount.path}:{mount.path}:{'rw' if mount.writable else 'ro'}" for mount in self.mounts],
            "NetworkMode": f"container:{self.network.container}" if isinstance(self.network, Joined) else self.network,
            "Init": True,
            "Privileged": False,
            "CapDrop": ["ALL"],
            "CapAdd": ["SYS_PTRACE"] if gpus and gpus.traced else [],
            "SecurityOpt": ["no-new-privileges:true", *(["seccomp=unconfined"] if gpus and gpus.traced else [])],
            "PidsLimit": self.pids,
            "ShmSize": gpus.shm_bytes if gpus else SHM_BYTES,
            "IpcMode": "private",
            "LogConfig": {"Type": "none", "Config": {}},
            "RestartPolicy": {"Name": "no"},
            "Ulimits": limits,
        }
        if self.memory_bytes is not None:
            config |= {"Memory": self.memory_bytes, "MemorySwap": self.memory_bytes}
        if self.cores:
            config["CpusetCpus"] = ",".join(map(str, self.cores))
        if gpus:
            config["Devices"] = [
                {"PathOnHost": path, "PathInContainer": path, "CgroupPermissions": "rwm"} for path in gpus.devices
            ]
            config["GroupAdd"] = [str(group) for group in gpus.groups]
            limits.append({"Name": "memlock", "Soft": -1, "Hard": -1})
        return config


@dataclass(frozen=True)
class Allowed:
    """The folders of the host below which a sandbox may be shown something, read-only."""

    roots: tuple[Path, ...] = field(default=())

    def show(self, path: str) -> tuple[Mount, ...]:
        """The mounts that make `path` readable inside; a link's target is shown too.

        Raises `Infrastructure` where it is not there, `Refused` for what lies elsewhere, holds secrets by its name or
        is no file or folder (a socket: the Docker daemon's, say).
        """
        real = Path(os.path.realpath(path))
        if not real.exists():
            raise Infrastructure(f"{path} is not on this node")
        if str(real) in FORBIDDEN or any(real.is_relative_to(root) for root in BELOW) or set(real.parts) & set(SECRET):
            raise Refused(f"{path} is never shown to a sandbox")
        if not any(real.is_relative_to(os.path.realpath(root)) for root in self.roots):
            raise Refused(f"{path} lies outside of what a sandbox may be shown: {_named(self.roots)}")
        if not stat.S_ISDIR(real.stat().st_mode) and not stat.S_ISREG(real.stat().st_mode):
            raise Refused(f"{path} is neither a file nor a folder")
        if ":" in path or ":" in str(real):
            raise Refused(f"{path}: a path with a colon can't be shown in a container")
        return tuple(Mount(each) for each in dict.fromkeys((os.path.normpath(path), str(real), *self._targets(real))))

    def _targets(self, folder: Path) -> list[str]:
        """Where the links of a folder lead, as far as that is allowed: a hub's snapshot is links to files beside it."""
        if not folder.is_dir():
            return []
        links = [Path(os.path.realpath(entry)) for entry in os.scandir(folder) if entry.is_symlink()]
        places = dict.fromkeys(target.parent for target in links if not target.is_relative_to(folder))
        return [str(place) for place in places if any(place.is_relative_to(os.path.realpath(r)) for r in self.roots)]


def _named(roots: Iterable[Path]) -> str:
    return ", ".join(map(str, roots)) or "nothing"


def nofile() -> int:
    """`NOFILE`, or this process' own limit where that is less: a daemon without CAP_SYS_RESOURCE can't raise it."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return NOFILE if hard == resource.RLIM_INFINITY else min(NOFILE, hard)


def of_this_node(*, traced: bool = False) -> Accelerators:
    """The GPUs of this node. Raises `Infrastructure` naming the device that is missing."""
    groups: dict[int, None] = {}
    for path in (KFD, DRI):
        if not Path(path).exists():
            raise Infrastructure(f"{path} is missing: this machine has no AMD GPU, or its driver (amdgpu) isn't loaded")
    for device in (Path(KFD), *sorted(Path(DRI).glob("renderD*"))):
        groups[device.stat().st_gid] = None
    return Accelerators(groups=tuple(groups), traced=traced)
