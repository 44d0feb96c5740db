"""The Docker daemon of this node: the few calls that day0 makes, with errors in day0's own tree.

An error of the daemon is the node's (`Infrastructure`), never a candidate's. Containers are made from `Container` and
from nothing else.
"""

from __future__ import annotations

import io
import os
import queue
import socket
import tarfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from day0.runs.errors import DiskFull, Infrastructure, NodeLost, Refused
from day0.sandboxes.clock import SLICE_S
from day0.sandboxes.docker_options import Container

TIMEOUT_S = 60.0
MOST_READ = 64 << 20
NO_FILE = 0x8F280000
"""Go's os.ModeType: folder, link, pipe, socket, device"""
FULL = ("no space left on device", "disk quota exceeded")


class NotThere(Infrastructure):
    """The daemon knows no such image or container."""


class DockerEngine:
    """A connection to the daemon; `base_url` as in DOCKER_HOST, a local socket only (mounts are paths of this node)."""

    def __init__(self, base_url: str = "") -> None:
        """Raises `Infrastructure` where no daemon answers."""
        import docker

        self.url = base_url or os.environ.get("DOCKER_HOST", "") or "unix:///var/run/docker.sock"
        if not self.url.startswith("unix://"):
            raise Infrastructure(f"DOCKER_HOST is {self.url}: only a daemon on this node, by a unix:// socket, is used")
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asked:  # the library leaves its own one open
                asked.connect(self.url.removeprefix("unix://"))
            self.api = docker.APIClient(base_url=self.url, timeout=TIMEOUT_S, version="auto")
        except (docker.errors.DockerException, OSError) as error:
            raise NodeLost(
                f"no Docker daemon answers at {self.url}: install docker.io, start it, and let this user use it (group "
                "`docker`); DOCKER_HOST names another socket"
            ) from error

    def create(self, wanted: Container) -> str:
        """A new container's ID. Raises `NotThere` for an unknown image."""
        body = {
            "Image": wanted.image, "Entrypoint": list(wanted.command), "Cmd": [], "User": wanted.user,
            "Labels": dict(wanted.labels), "WorkingDir": "/", "Healthcheck": {"Test": ["NONE"]},
            "HostConfig": wanted.host_config(),
        }  # fmt: skip
        with reported("a container"):
            return str(self.api.create_container_from_config(body)["Id"])

    def start(self, container: str) -> None:
        """Starts a container that `create` made."""
        with reported("a container"):
            self.api.start(container)

    def inspect(self, container: str) -> Mapping[str, Any]:
        """GET /containers/ID/json. Raises `NotThere`."""
        with reported("a container"):
            found: Mapping[str, Any] = self.api.inspect_container(container)
        return found

    def run_inside(self, container: str, argv: list[str]) -> int:
        """Starts a program in a running container and leaves it; its pid on this node."""
        with reported("a container"):
            made = self.api.exec_create(container, argv, stdout=False, stderr=False, workdir="/")["Id"]
            self.api.exec_start(made, detach=True)
            return int(self.api.exec_inspect(made)["Pid"])

    def read(self, container: str, path: str, max_bytes: int) -> bytes:
        """The first bytes of a file as the container has it; the daemon reads it, no program inside does.

        Raises `FileNotFoundError`, `Refused` for what is no regular file or larger than 64 MiB.
        """
        try:
            with reported("a container"):
                chunks, told = self.api.get_archive(container, path)
                if int(told["mode"]) & NO_FILE or int(told["size"]) > MOST_READ:
                    chunks.close()
                    raise Refused(f"{path} is no regular file of at most {MOST_READ >> 20} MiB")
                with tarfile.open(fileobj=io.BytesIO(b"".join(chunks))) as archive:
                    first = archive.next()
                    if first is None or not first.isreg() or (file := archive.extractfile(first)) is None:
                        raise Refused(f"{path} is no regular file")
                    return file.read(max_bytes)
        except NotThere as error:
            raise FileNotFoundError(str(error)) from error

    def remove(self, container: str) -> None:
        """Kills it, if it runs, and removes it with its anonymous volumes; one that is gone is fine."""
        try:
            with reported("a container"):
                self.api.remove_container(container, v=True, force=True)
        except NotThere:
            return

    def labelled(self, labels: Mapping[str, str]) -> list[Mapping[str, Any]]:
        """Containers, running or not, that carry all of `labels`."""
        with reported("the Docker daemon"):
            return list(
                self.api.containers(all=True, filters={"label": [f"{name}={value}" for name, value in labels.items()]})
            )

    def image(self, name: str) -> Mapping[str, Any]:
        """GET /images/NAME/json. Raises `NotThere`."""
        with reported(f"image {name}"):
            found: Mapping[str, Any] = self.api.inspect_image(name)
        return found

    def tags(self) -> list[str]:
        """Names of the images that are here."""
        with reported("the Docker daemon"):
            return sorted(
                {tag for image in self.api.images() for tag in image.get("RepoTags") or () if "<none>" not in tag}
            )

    def built(self, labels: Mapping[str, str], before: float = float("inf")) -> list[str]:
        """IDs of the images that carry all of `labels`, newest first; those made before a moment (Unix time)."""
        wanted = [f"{name}={value}" for name, value in labels.items()]
        with reported("the Docker daemon"):
            found = self.api.images(filters={"label": wanted})
        return [str(image["Id"]) for image in found if float(image["Created"]) < before]

    def named(self, image: str) -> str:
        """A local name made from an image's ID, so that it always stands for the same one. Raises `NotThere`."""
        digest = str(self.image(image)["Id"]).removeprefix("sha256:")
        with reported(f"image {image}"):
            self.api.tag(image, "day0/by-id", tag=digest)
        return f"day0/by-id:{digest}"

    def discard(self, image: str) -> bool:
        """Removes an image; False where something still needs it."""
        try:
            with reported(f"image {image}"):
                self.api.remove_image(image)
        except NodeLost:
            raise
        except Infrastructure:
            return False
        return True

    def root(self) -> str:
        """Where the daemon keeps its images."""
        with reported("the Docker daemon"):
            return str(self.api.info()["DockerRootDir"])

    def pull(self, repository: str, digest: str, check: Callable[[], None]) -> None:
        """Fetches an image by digest. `check` is called at least once a second and raises when the work must stop.

        Raises `Infrastructure` where the download breaks, `DiskFull`.
        """
        told: queue.Queue[Mapping[str, Any] | BaseException | None] = queue.Queue()
        reader = threading.Thread(target=self._fetch, args=(repository, digest, told), daemon=True)
        reader.start()
        while True:
            check()
            try:
                event = told.get(timeout=SLICE_S)
            except queue.Empty:
                continue
            if event is None:
                return
            with reported(f"image {repository}"):
                if isinstance(event, BaseException):
                    raise event
            if "error" in event:
                said = str(event["error"])[:400]
                full = any(mark in said.lower() for mark in FULL)
                raise (DiskFull if full else Infrastructure)(f"image {repository}: {said}")

    def _fetch(self, repository: str, digest: str, told: queue.Queue[Mapping[str, Any] | BaseException | None]) -> None:
        """Hands on what the daemon says of a download; its connection can't be waited for in slices."""
        try:
            for event in self.api.pull(repository, tag=digest, stream=True, decode=True):
                told.put(event)
            told.put(None)
        except Exception as error:  # a thread has no caller: the one who waits raises it
            told.put(error)

    def close(self) -> None:
        """Releases the connection."""
        self.api.close()


@contextmanager
def reported(what: str) -> Iterator[None]:
    """Errors of the Docker library in day0's words."""
    from docker.errors import APIError, DockerException, NotFound
    from requests.exceptions import RequestException

    try:
        yield
    except NotFound as error:
        raise NotThere(f"{what}: {_said(error)}") from error
    except APIError as error:
        said = _said(error)
        if any(mark in said.lower() for mark in FULL):
            raise DiskFull(f"{what}: {said}") from error
        # the daemon answers 500 for an image that it can't find under some storage drivers
        kind = NotThere if "no such image" in said.lower() else Infrastructure
        raise kind(f"{what}: {said}") from error
    except (DockerException, RequestException, OSError) as error:
        raise NodeLost(
            f"the Docker daemon does not answer ({error}): is it running, and may this user use it?"
        ) from error


def _said(error: Any) -> str:
    return str(error.explanation or error).strip().splitlines()[0][:400]
