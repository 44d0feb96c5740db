"""Pre-flight: what a node is and what is wrong with it, recorded with every measurement.

Read through `Node.host`, so that it works wherever the node is. What can't be read stays unknown (`None`), which
is never "clean".
"""

from __future__ import annotations

import re

from day0.runs.engine_facts import NodeFacts
from day0.runs.errors import Timeout
from day0.sandboxes.base import Node

TIMEOUT_S = 10.0
GOVERNOR = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"
BOOT_ID = "/proc/sys/kernel/random/boot_id"
NUMA_BALANCING = "/proc/sys/kernel/numa_balancing"
LOW_DISK_BYTES = 10 << 30


def preflight(node: Node, *, folder: str = "/") -> NodeFacts:
    """Asks a CPU node about itself; `folder` is where its data goes. Raises `Cancelled`, `NodeLost`."""
    lscpu = parse_lscpu(_ask(node, "lscpu"))
    disk = parse_df(_ask(node, "df", "-P", "-B1", folder))
    governor = _ask(node, "cat", GOVERNOR)
    numa = parse_switch(_ask(node, "cat", NUMA_BALANCING))
    cores = _ask(node, "nproc")
    facts = NodeFacts(
        name=node.name,
        cpu=lscpu.get("Model name", ""),
        cores=int(cores) if cores is not None and cores.strip().isdigit() else None,
        memory_bytes=parse_meminfo(_ask(node, "cat", "/proc/meminfo")),
        disk_free_bytes=disk,
        governor=governor.strip() or None if governor is not None else None,
        numa_balancing=numa,
        kernel=(_ask(node, "uname", "-r") or "").strip(),
        boot_id=(_ask(node, "cat", BOOT_ID) or "").strip(),
    )
    return facts.model_copy(update={"problems": problems(facts)})


def problems(facts: NodeFacts) -> tuple[str, ...]:
    """What disturbs measurements here, one sentence each."""
    found = []
    if facts.governor not in {None, "performance"}:
        found.append(f"the CPU governor is {facts.governor}, not performance: figures may be lower and less steady")
    if facts.numa_balancing:
        found.append("automatic NUMA balancing is on: pages may move during a measurement")
    if facts.disk_free_bytes is not None and facts.disk_free_bytes < LOW_DISK_BYTES:
        found.append(f"only {facts.disk_free_bytes / 2**30:.1f} GiB of disk are free")
    return tuple(found)


def _ask(node: Node, *argv: str) -> str | None:
    """The command's output; None when it isn't there, fails or hangs."""
    try:
        done = node.host(argv, timeout_s=TIMEOUT_S)
    except Timeout:
        return None
    return done.output.decode(errors="replace") if done.exit_code == 0 else None


def parse_lscpu(text: str | None) -> dict[str, str]:
    """`lscpu`: field -> value."""
    pairs = (line.partition(":") for line in (text or "").splitlines() if ":" in line)
    return {key.strip(): value.strip() for key, _, value in pairs}


def parse_df(text: str | None) -> int | None:
    """`df -P -B1 FOLDER`: available bytes."""
    lines = (text or "").strip().splitlines()
    if len(lines) < 2:
        return None
    found = re.search(r"\s(\d+)\s+(\d+)\s+(\d+)\s+\d+%\s", lines[-1] + " ")
    return int(found[3]) if found else None


def parse_meminfo(text: str | None) -> int | None:
    """/proc/meminfo: bytes of memory."""
    found = re.search(r"^MemTotal:\s+(\d+) kB$", text or "", re.M)
    return int(found[1]) * 1024 if found else None


def parse_switch(text: str | None) -> bool | None:
    """A kernel switch: 0 is off."""
    value = (text or "").strip()
    return value != "0" if value.isdigit() else None
