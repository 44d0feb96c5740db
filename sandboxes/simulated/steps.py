"""What a simulated program can do: it is a generator that yields these."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from day0.sandboxes.simulated.machine import Context


@dataclass(frozen=True)
class Wait:
    """Sleeps for virtual seconds, using the share `cpu` of one core."""

    seconds: float
    cpu: float = 0.0


@dataclass(frozen=True)
class Out:
    """Writes to the output."""

    data: bytes


@dataclass(frozen=True)
class Use:
    """Reads or writes storage, or changes the accelerator memory held (bytes)."""

    io_bytes: int = 0
    vram_bytes: int = 0


@dataclass(frozen=True)
class Listen:
    """Serves a port; raises `OSError` into the program when the port is taken."""

    port: int
    handler: Handler


@dataclass(frozen=True)
class Start:
    """A child process. It belongs to the tree, also when it outlives its parent. The value is its pid."""

    program: Program
    argv: tuple[str, ...] = ("child",)


@dataclass(frozen=True)
class Exit:
    """Ends the program; its children live on."""

    code: int = 0


@dataclass(frozen=True)
class Await:
    """Waits for something else: `start` gets a function to call with the value to go on with; only its first counts.

    `cpu` as of `Wait`.
    """

    start: Callable[[Callable[[object], None]], None]
    cpu: float = 0.0


class Terminated(BaseException):
    """SIGTERM, raised inside a program at its current step; one that catches it and goes on ignores the signal."""


Step = Wait | Out | Use | Listen | Start | Exit | Await
Program = Callable[["Context"], Generator[Step, object, None]]


@dataclass(frozen=True)
class Request:
    """An HTTP request as a simulated server sees it."""

    method: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True)
class Head:
    """Status and headers: the response begins."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Body:
    """A chunk of the response."""

    data: bytes


@dataclass(frozen=True)
class Drop:
    """Closes the connection in the middle of the response."""


@dataclass(frozen=True)
class Die:
    """Ends the serving process, with this exit code."""

    code: int


Answer = Wait | Head | Body | Drop | Die
Handler = Callable[[Request], Iterator[Answer]]
"""A generator that ends where the response ends; it runs only while its process lives."""
