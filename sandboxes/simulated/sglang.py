"""A scripted SGLang and its load generator: shipped fakes that speak the protocols of the real ones.

They exist so that a whole run can be played in virtual time: same command lines, `--help`, log lines, endpoints,
metrics and files as the real programs, over a model of load that is a few lines long and in no way a forecast.
`play` says how fast a command line is; equal command lines always perform alike.
"""

from __future__ import annotations

import argparse
import json
import math
import re
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from day0.runs.values import sha256
from day0.sandboxes.simulated.machine import Context
from day0.sandboxes.simulated.scripted_load import load_generator, questions
from day0.sandboxes.simulated.steps import Answer, Body, Exit, Head, Listen, Out, Program, Request, Step, Wait

VERSION = "0.5.23"
BOOT_S = 12.0
Flags = Mapping[str, Any]
BACKENDS = ("torch_native", "triton", "flashinfer")
SUM = re.compile(r"(\d+)\s*\+\s*(\d+)")


@dataclass(frozen=True)
class Performance:
    """How a command line serves: requests/s at saturation, unloaded latencies, and the share of right sums."""

    capacity_rps: float
    ttft_ms: float = 120.0
    tpot_ms: float = 25.0
    right: float = 1.0


def play(flags: Flags) -> Performance:
    """The default performance: a few flags help, one is lossy, one is slow."""
    speed, right = 2.0, 1.0
    speed *= {"float32": 1.25, "float16": 0.4}.get(flags["dtype"], 1.0)
    speed *= {1: 1.0, 2: 1.1, 4: 1.2}.get(flags["num_continuous_decode_steps"], 1.05)
    speed *= 1.08 if flags["stream_interval"] > 1 else 1.0
    speed *= 0.9 if flags["enable_mixed_chunk"] else 1.0
    if flags["quantization"] == "int4":
        speed, right = speed * 1.6, 0.3
    return Performance(speed, right=right)


@dataclass
class World:
    """What the scripted programs of one machine share."""

    play: Callable[[Flags], Performance] = play
    boot_s: float = BOOT_S
    servers: dict[int, tuple[Flags, Performance]] = field(default_factory=dict)
    """port -> what listens there"""

    def programs(self) -> dict[str, Program]:
        """For `ScriptedNode`: by the beginning of their command lines."""
        return {
            "python -m sglang.launch_server": self._server,
            "python sglang_facts.py": _facts,
            "python -u loadgen.py": lambda ctx: load_generator(ctx, self.performance),
            "python -u ask.py": lambda ctx: questions(ctx, self.reply),
            "nproc": _says(b"2\n"),
            "lscpu": _says(b"Model name: scripted processor\n"),
            "uname": _says(b"6.1.0\n"),
            "df": _says(b"Filesystem 1-blocks Used Available Capacity Mounted\n/dev/sda 99 9 999999999999 1% /\n"),
            "cat": _says(b"MemTotal: 16777216 kB\n"),
        }

    def performance(self, port: int) -> Performance | None:
        """Of the server on a port; None = nobody listens."""
        found = self.servers.get(port)
        return None if found is None else found[1]

    def reply(self, port: int, prompt: str) -> str | None:
        """Its answer to a chat question: a sum, right or wrong by its share, else text that depends on the question."""
        performance = self.performance(port)
        if performance is None:
            return None
        dice = int(sha256(prompt)[7:13], 16) / 0xFFFFFF
        if sum_ := SUM.search(prompt):
            total = int(sum_[1]) + int(sum_[2])
            return str(total if dice <= performance.right else total + 1)
        return " ".join(sha256(prompt + str(i))[7:15] for i in range(5))

    def _server(self, ctx: Context) -> Generator[Step, object, None]:
        parser = arguments()
        words = list(ctx.argv[3:])
        if "--help" in words:
            yield Wait(3.0, cpu=1.0)
            yield Out(parser.format_help().encode())
            return
        try:
            flags = vars(parser.parse_args(words))
        except _Usage as error:
            yield Out(f"{parser.format_usage()}launch_server.py: error: {error}\n".encode())
            yield Exit(2)
            return
        yield Out(f"server_args=ServerArgs({flags})\n".encode())
        yield Wait(self.boot_s / 2, cpu=1.0)
        if flags["attention_backend"] != "torch_native":
            yield Out(b"Scheduler hit an exception: Traceback (most recent call last):\n")
            yield Out(b"RuntimeError: 0 active drivers ([]). There should only be one.\n")
            yield Exit(1)
            return
        yield Out(b"Load weight end.\nMemory pool end.\n")
        yield Wait(self.boot_s / 2, cpu=1.0)
        port = int(flags["port"])
        self.servers[port] = (flags, self.play(flags))
        yield Listen(port, lambda request: _endpoint(request, flags))
        yield Out(b"The server is fired up and ready to roll!\n")
        try:
            yield Wait(math.inf)
        finally:
            self.servers.pop(port, None)


class _Usage(Exception):
    """A command line that argparse refuses."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise _Usage(message)


def arguments() -> argparse.ArgumentParser:
    """The flags that the scripted server knows, under SGLang's own names."""
    parser = _Parser(prog="launch_server.py", formatter_class=_wide, exit_on_error=False)
    for name, default in TEXTS.items():
        parser.add_argument(f"--{name}", default=default, help="text")
    parser.add_argument("--attention-backend", choices=BACKENDS, default="torch_native", help="kernels of attention")
    parser.add_argument("--dtype", choices=("auto", "float32", "bfloat16", "float16"), default="auto", help="type")
    parser.add_argument("--quantization", choices=("int4", "int8"), help="lossy weights")
    parser.add_argument("--schedule-policy", choices=("fcfs", "lpm", "dfs-weight"), default="fcfs", help="order")
    parser.add_argument("--mem-fraction-static", type=float, default=0.1, help="share of memory")
    for name, number in NUMBERS.items():
        parser.add_argument(f"--{name}", type=int, default=number, help="number")
    for name in SWITCHES:
        parser.add_argument(f"--{name}", action="store_true", help="switch")
    return parser


TEXTS = {"model-path": "", "host": "127.0.0.1", "device": "cpu", "sampling-backend": "pytorch"}
NUMBERS: dict[str, int | None] = {
    "port": 30000,
    "max-total-tokens": None,
    "max-running-requests": None,
    "chunked-prefill-size": 2048,
    "num-continuous-decode-steps": 1,
    "stream-interval": 1,
    "page-size": 1,
    "tp-size": 1,
    "dp-size": 1,
}
SWITCHES = ("enable-metrics", "enable-mixed-chunk", "disable-overlap-schedule", "disable-radix-cache")


def _wide(prog: str) -> argparse.HelpFormatter:
    return argparse.HelpFormatter(prog, width=200)


def _endpoint(request: Request, flags: Flags) -> Iterator[Answer]:
    """The endpoints that day0 uses."""
    path = request.path.partition("?")[0]
    if path == "/generate":
        yield Wait(0.2)
        yield from _json({"text": " Paris, which is", "meta_info": {"completion_tokens": 8}})
    elif path == "/server_info":
        state = {"effective_max_running_requests_per_dp": flags["max_running_requests"] or 32}
        yield from _json({**flags, "version": VERSION, "internal_states": [state]})
    elif path == "/metrics":
        yield Head(200)
        yield Body(b"sglang:num_running_reqs 0\nsglang:num_queue_reqs 0\nsglang:generation_tokens_total 8\n")
    elif path == "/flush_cache":
        yield Head(200)
    else:
        yield Head(404)


def _json(value: object) -> Iterator[Answer]:
    yield Head(200, {"content-type": "application/json"})
    yield Body(json.dumps(value).encode())


def _says(text: bytes) -> Program:
    def program(ctx: Context) -> Generator[Step, object, None]:
        yield Out(text)

    return program


def _facts(ctx: Context) -> Generator[Step, object, None]:
    """What `sglang_facts.py` prints inside a real environment."""
    yield Wait(3.0, cpu=1.0)
    facts = {"types": {}, "packages": {"sglang": VERSION}, "capabilities": {"python": "3.11.7"}, "problem": ""}
    yield Out(b"\nday0-facts " + json.dumps(facts).encode() + b"\n")
