"""The simulated machine: the same programs as generators."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from pathlib import Path

from day0.sandboxes.scripted import ScriptedNode
from day0.sandboxes.simulated.machine import Machine, Tree
from day0.sandboxes.simulated.steps import (
    Body,
    Die,
    Drop,
    Exit,
    Head,
    Listen,
    Out,
    Start,
    Terminated,
    Wait,
)
from day0.sandboxes.spec import SandboxSpec
from day0.sandboxes.spool import SpoolWriter

FOREVER = Wait(math.inf)


def say(ctx):
    yield Out(" ".join(ctx.argv[1:]).encode() + b"\n")


def show_env(ctx):
    yield Out("".join(f"{k}={v}\n" for k, v in sorted(ctx.env.items())).encode())


def fail(ctx):
    yield Out(b"it broke\n")
    yield Exit(int(ctx.argv[1]))


def serve(ctx):
    def handler(request):
        match request.path:
            case "/ok":
                yield Body(b"ok")
            case "/error":
                yield Head(500)
            case "/hang":
                yield FOREVER
            case "/half":
                yield Body(b"0123456789")
                yield Drop()
            case "/die":
                yield Body(b"0123456789")
                yield Wait(0.05)
                yield Die(3)
            case "/stream":
                for n in range(3):
                    yield Body(b"a%d\n" % n)
                    yield Wait(0.05)

    yield Wait(float(ctx.argv[2]))
    yield Listen(int(ctx.argv[1]), handler)
    yield Out(b"listening\n")
    yield FOREVER


def nap(ctx):
    yield Wait(float(ctx.argv[1]))


def burn(ctx):
    yield Wait(math.inf, cpu=1.0)


def stubborn(ctx):
    yield Out(b"up\n")
    while True:
        try:
            yield FOREVER
        except Terminated:
            continue


def polite(ctx):
    yield Out(b"up\n")
    try:
        yield FOREVER
    except Terminated:
        yield Out(b"bye\n")
        yield Exit(7)


def sleeper(ctx):
    yield FOREVER


def family(ctx):
    def child(inner):
        for _ in range(int(ctx.argv[1])):
            yield Start(sleeper)
        yield FOREVER

    yield Start(child)
    yield Out(b"up\n")
    yield FOREVER


def daemon(ctx):
    def background(inner):
        yield Out(b"up\n")
        yield FOREVER

    yield Start(background)


def flood(ctx):
    block = bytes(range(48, 112)) * 16384
    for n in range(int(ctx.argv[1])):
        yield Out(b"%015d\n" % n + block[16:])
    yield Out(b"the end\n")


def echo(ctx):
    yield Out(ctx.stdin)


def note(ctx):
    (ctx.folder / ctx.argv[1]).write_text(ctx.argv[2])
    yield Exit(0)


def plant(ctx):
    (ctx.folder / ctx.argv[2]).symlink_to(ctx.argv[1])
    yield Exit(0)


PROGRAMS = {
    "say": say,
    "show-env": show_env,
    "fail": fail,
    "serve": serve,
    "nap": nap,
    "burn": burn,
    "stubborn": stubborn,
    "polite": polite,
    "family": family,
    "daemon": daemon,
    "flood": flood,
    "echo": echo,
    "note": note,
    "plant": plant,
    "uname": say,
}


class PlayedWorld:
    """A `ScriptedNode` on a machine of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.environment = folder, "/opt/engine"
        self.machine = Machine()
        self._cancel_at = math.inf
        self.node = self.restarted()

    def restarted(self) -> ScriptedNode:
        return ScriptedNode(
            "n1",
            self.folder,
            PROGRAMS,
            cancel=lambda: self.machine.kernel.now >= self._cancel_at,
            machine=self.machine,
            environments={self.environment},
        )

    def cancel_after(self, seconds: float) -> None:
        self._cancel_at = self.machine.kernel.now + seconds

    def leave_behind(self, *argv: str) -> None:
        other = self.restarted()
        with other.open(SandboxSpec("server", self.environment, "r1.9")) as sandbox:
            sandbox.spawn(argv)
            other.clock.sleep(0.1)
            other.vanish()

    @contextlib.contextmanager
    def stranger_on(self, port: int) -> Iterator[None]:
        tree = Tree("", None, SpoolWriter(str(self.folder)))

        def listener(ctx):
            yield Listen(port, lambda request: iter([Body(b"I am someone else")]))
            yield FOREVER

        process = self.machine.start(listener, ["stranger"], tree, env={}, folder=self.folder)
        self.node.clock.sleep(0.0)
        yield
        assert process.code is None
        process.end(0)

    def living(self) -> int:
        return sum(len(tree.living()) for tree in self.machine.trees)

    def close(self) -> None:
        pass
