"""Building an image: BuildKit through the command line, which the Docker library does not speak.

The client runs under a warden on the host, like every command there, so that it ends with day0, and a build with it.
What a failed build says is turned into the step and the line of the Dockerfile that failed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from day0.runs.errors import Infrastructure

CLIENTS = ("docker", "/usr/bin/docker", "/usr/local/bin/docker")
"""Asked in this order which of them can build: the first in PATH may be one without its buildx plugin."""
LABEL, KEY = "io.day0.image", "io.day0.key"
"""Labels of what day0 built: whose it is, and its `Build.key`. A base's labels are inherited: every build sets both."""
STEPS = ("ADD", "COPY", "FROM", "RUN", "WORKDIR")
"""What BuildKit numbers; the other instructions only change the image's configuration."""
VANISHED = re.compile(
    rb"layer does not exist|failed to (get|prepare|compute cache key).*(not found|does not exist)|unexpected EOF"
    rb"|parent snapshot .* does not exist|failed to export layer|connection reset by peer|TLS handshake timeout",
    re.I,
)
"""The node's or the network's fault, whatever the step was."""
FULL = re.compile(rb"no space left on device|disk quota exceeded", re.I)
_STEP = re.compile(rb"^#(\d+) \[(?:(?P<stage>[^\]\s]+) )?(?P<at>\d+)/(?P<of>\d+)\] (?P<text>.*)$", re.M)
_ERROR = re.compile(rb"^#(\d+) ERROR: (.*)$", re.M)
_SAID = re.compile(rb"^#(\d+) [\d.]+ (.*)$", re.M)


@dataclass(frozen=True)
class Build:
    """A build: its folder, the Dockerfile in it, `--build-arg`s. `network` is that of its RUN steps."""

    context: Path
    dockerfile: str = "Dockerfile"
    args: Mapping[str, str] = field(default_factory=dict)
    network: Literal["none", "default", "host"] = "none"
    target: str = ""
    key: str = ""
    """what the image is made of, by which `DockerNode.made` finds it again"""


@dataclass(frozen=True)
class FailedStep:
    """Where a build failed: step `at` of `of`, its instruction, the Dockerfile's line, and what it said last."""

    at: int
    of: int
    text: str
    line: int | None
    said: str

    def words(self) -> str:
        """In one line."""
        line = "" if self.line is None else f", line {self.line} of the Dockerfile"
        return f"step {self.at}/{self.of}{line}: {self.text[:200]}: {self.said[:300]}"


@dataclass(frozen=True)
class Built:
    """How a build ended: the image's ID, or the step that failed; `vanished` says that it was the node's fault."""

    digest: str
    log: bytes
    seconds: float
    failed: FailedStep | None = None
    vanished: bool = False
    full: bool = False


def command(client: Sequence[str], order: Build, iidfile: str, labels: Mapping[str, str]) -> list[str]:
    """The command line; everything but the folder has its own flag, so that no value can be taken for one."""
    argv = [*client, "--progress=plain", f"--network={order.network}", f"--iidfile={iidfile}"]
    argv += [f"--file={order.context / order.dockerfile}"]
    argv += [f"--label={name}={value}" for name, value in labels.items()]
    argv += [f"--build-arg={name}={value}" for name, value in sorted(order.args.items())]
    argv += [f"--target={order.target}"] if order.target else []
    return [*argv, str(order.context)]


def client_of(version: Mapping[str, str], buildx: Mapping[str, bool]) -> tuple[list[str], dict[str, str]]:
    """The build command of the first client that has BuildKit, and what its environment needs.

    `version`: client -> its version, only those that are there; `buildx`: whether it has that plugin. Clients before 23
    have BuildKit built in. Raises `Infrastructure` where there is none.
    """
    for name, said in version.items():
        if buildx.get(name):
            return [name, "buildx", "build", "--load"], {}
        if (major := re.match(r"(\d+)\.", said)) and int(major[1]) < 23:
            return [name, "build"], {"DOCKER_BUILDKIT": "1"}
    raise Infrastructure(
        "no Docker client here can build with BuildKit: install its buildx plugin, or Debian's docker.io"
    )


def outcome(digest: str, log: bytes, seconds: float, dockerfile: str) -> Built:
    """What a build's log tells; `digest` is empty where it made no image."""
    if digest:
        return Built(digest, log, seconds)
    tail = log[-64 << 10 :]
    return Built("", log, seconds, failed_step(log, dockerfile), bool(VANISHED.search(tail)), bool(FULL.search(tail)))


def failed_step(log: bytes, dockerfile: str) -> FailedStep | None:
    """The step that BuildKit's plain progress says failed; None where none did (a wrong Dockerfile, say)."""
    errors = _ERROR.findall(log)
    steps = {found[1]: found for found in _STEP.finditer(log)}
    for number, error in reversed(errors):
        if (step := steps.get(number)) is None:
            continue
        said = [text for at, text in _SAID.findall(log) if at == number and text.strip()]
        at, of, stage = int(step["at"]), int(step["of"]), (step["stage"] or b"").decode(errors="replace")
        return FailedStep(
            at, of, step["text"].decode(errors="replace"), line_of(dockerfile, stage, at),
            (said[-1] if said else error).decode(errors="replace").strip(),
        )  # fmt: skip
    return None


def line_of(dockerfile: str, stage: str, at: int) -> int | None:
    """The line of a stage's `at`-th numbered step. A stage is named, or `stage-N` by its place, or the only one."""
    stages: list[tuple[str, list[int]]] = []
    for line, text in instructions(dockerfile):
        word = text.split(maxsplit=1)[0].upper()
        if word == "FROM":
            named = re.search(r"\sAS\s+(\S+)\s*$", text, re.I)
            stages.append((named[1].lower() if named else f"stage-{len(stages)}", []))
        if word in STEPS and stages:
            stages[-1][1].append(line)
    own = [lines for name, lines in stages if name == stage.lower()] or [lines for _, lines in stages[-1:]]
    return own[0][at - 1] if own and 0 < at <= len(own[0]) else None


def instructions(dockerfile: str) -> list[tuple[int, str]]:
    """(line, text) of every instruction, continued lines joined; comments and blank lines left out."""
    found: list[tuple[int, str]] = []
    open_ = False
    for number, raw in enumerate(dockerfile.splitlines(), 1):
        text = raw.strip()
        if not text or text.startswith("#"):
            continue
        more = text.endswith("\\")
        text = text.removesuffix("\\").rstrip()
        if open_:
            found[-1] = (found[-1][0], f"{found[-1][1]} {text}")
        else:
            found.append((number, text))
        open_ = more
    return found
