"""Accelerators watched while a server is under load: memory in use, clocks, power.

Memory is what the server's own processes hold where the node says so, else what `amd-smi metric --json` counts as used
on all accelerators. What can't be read stays unknown and is said; it never counts as steady.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any, NamedTuple

import httpx
from day0.runs.engine_facts import BootFacts
from day0.runs.errors import Refused, Timeout
from day0.runs.findings import Stability
from day0.sandboxes.base import Node, Process
from day0.tools.engines.base import Counters, Engine
from day0.tools.served import Served

COMMAND = ("amd-smi", "metric", "--json")
TIMEOUT_S = 10.0
SETTLED = 0.25
"""Share of the readings after which prefixes are primed, the load is on, and what is made lazily was made."""
BUSY = 50.0
"""Per cent of activity from which on an accelerator's clock tells of throttling: an idle one saves power."""
GROWTH_BYTES = 1 << 30
"""Of each accelerator: what allocators keep back by chance. A leak that matters is larger within the time."""


class Reading(NamedTuple):
    """One look. Memory in bytes over all accelerators, the slowest busy one's clock, the hungriest one's power."""

    memory_bytes: int | None = None
    clock_mhz: float | None = None
    power_w: float | None = None


class Watched:
    """A server that is looked at whenever the load generator's owner asks whether it lives (`Served`)."""

    def __init__(self, server: Served, node: Node, every_s: float, *, accelerated: bool) -> None:
        self.server, self.node, self.every_s = server, node, every_s
        self.readings: list[Reading] = []
        self.unknown = "" if accelerated else "this node has no accelerators"
        self._next = node.clock.now()

    @property
    def port(self) -> int:
        """The server's."""
        return self.server.port

    @property
    def http(self) -> httpx.Client:
        """The server's."""
        return self.server.http

    @property
    def facts(self) -> BootFacts:
        """The server's."""
        return self.server.facts

    @property
    def process(self) -> Process:
        """The server's."""
        return self.server.process

    @property
    def engine(self) -> Engine:
        """The server's."""
        return self.server.engine

    @property
    def attention_s(self) -> float:
        """The server's."""
        return self.server.attention_s

    def alive(self, seen: Counters | None = None) -> None:
        """As the server's own; then a look, if one is due."""
        self.server.alive(seen)
        if self.node.clock.now() >= self._next:
            self._next = self.node.clock.now() + self.every_s
            self.readings.append(self._look())

    def _look(self) -> Reading:
        told = None if self.unknown else self._ask()
        found = parse(told) if told is not None else Reading()
        if not self.unknown and found == Reading():
            self.unknown = "amd-smi says nothing of memory, clocks or power"
        held = self.process.vitals().vram_bytes
        return found if held is None else found._replace(memory_bytes=held)

    def _ask(self) -> str | None:
        """What amd-smi prints; asked again only while it answers."""
        try:
            done = self.node.host(COMMAND, timeout_s=TIMEOUT_S)
        except Timeout:
            self.unknown = f"amd-smi did not answer within {TIMEOUT_S:.0f} s"
        except Refused:
            self.unknown = "amd-smi may not be asked on this node"
        else:
            if done.exit_code == 0:
                return done.output.decode(errors="replace")
            self.unknown = "amd-smi is not on this node" if done.exit_code == 127 else "amd-smi failed"
        return None


def parse(text: str) -> Reading:
    """`amd-smi metric --json`, as a list or under `gpu_data`; a value that is no number is unknown."""
    try:
        told = json.loads(text)
    except ValueError:
        return Reading()
    rows = told.get("gpu_data", ()) if isinstance(told, dict) else told
    cards = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    used = [_number(card, "mem_usage", "used_vram") for card in cards]
    powers = [_number(card, "power", "socket_power") for card in cards]
    clocks = [
        _number(clock, "clk")
        for card in cards
        if (active := _number(card, "usage", "gfx_activity")) is None or active >= BUSY
        for name, clock in (card["clock"].items() if isinstance(card.get("clock"), dict) else ())
        if name.startswith("gfx")
    ]
    whole = [value for value in used if value is not None]
    return Reading(
        memory_bytes=int(sum(whole) * 1e6) if whole and len(whole) == len(cards) else None,
        clock_mhz=min(_known(clocks), default=None),
        power_w=max(_known(powers), default=None),
    )


def _number(value: Any, *path: str) -> float | None:
    """`{"value": 3, "unit": "W"}` below a path; None where something else stands."""
    for key in (*path, "value"):
        value = value.get(key) if isinstance(value, dict) else None
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def stability(  # noqa: PLR0917
    readings: Sequence[Reading], rate_rps: float, seconds: float, requests: int, failed: int, unknown: str = ""
) -> Stability:
    """What the readings of a time under load come to, without its beginning. Pure."""
    settled = readings[int(SETTLED * (len(readings) - 1)) :] if readings else []
    memory = [r.memory_bytes for r in settled if r.memory_bytes is not None]
    clocks, powers = _known(r.clock_mhz for r in settled), _known(r.power_w for r in settled)
    return Stability(
        rate_rps=rate_rps,
        seconds=seconds,
        requests=requests,
        failed=failed,
        memory_bytes=memory[-1] if memory else None,
        memory_growth_bytes=memory[-1] - memory[0] if len(memory) > 1 else None,
        clock_mhz_least=min(clocks, default=None),
        clock_mhz_median=median(clocks) if clocks else None,
        power_w_most=max(powers, default=None),
        power_w_median=median(powers) if powers else None,
        unknown=unknown,
    )


def leaking(found: Stability, accelerators: int) -> str:
    """Why its memory is no steady state; empty where it is, or where nobody knows."""
    growth = found.memory_growth_bytes
    if growth is None or growth <= GROWTH_BYTES * max(1, accelerators):
        return ""
    return f"accelerator memory grew by {growth / 2**30:.1f} GiB within {found.seconds:.0f} s under load"


def words(found: Stability) -> str:
    """What was watched, in one line."""
    parts = []
    if found.memory_growth_bytes is not None:
        parts.append(f"memory grew by {found.memory_growth_bytes / 2**20:.0f} MiB")
    elif found.memory_bytes is None:
        parts.append("memory unknown")
    if found.clock_mhz_median is not None:
        parts.append(f"clocks {found.clock_mhz_median:.0f} MHz, at least {found.clock_mhz_least:.0f}")
    if found.power_w_median is not None:
        parts.append(f"power {found.power_w_median:.0f} W, at most {found.power_w_most:.0f}")
    if found.clock_mhz_median is None and found.power_w_median is None:
        parts.append("clocks and power not available")
    return "; ".join([*parts, *([found.unknown] if found.unknown else [])])
