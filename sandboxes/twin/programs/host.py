"""Commands of the node itself, and what an engine's environment says of itself."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from math import inf

from day0.sandboxes.simulated.machine import Context
from day0.sandboxes.simulated.steps import Exit, Out, Step, Wait
from day0.sandboxes.twin import resolve
from day0.sandboxes.twin.site import Site

GIB = 2**30
BUSY_W, IDLE_W, BUSY_MHZ, IDLE_MHZ = 1150, 260, 2250, 140
Steps = Generator[Step, object, None]


def say(text: Callable[[Site, Context], str]) -> Callable[[Site, Context], Steps]:
    """A command that prints and ends."""

    def program(site: Site, ctx: Context) -> Steps:
        yield Wait(0.02)
        yield Out(text(site, ctx).encode())

    return program


def _lscpu(site: Site, _: Context) -> str:
    node = site.world.node
    return f"Architecture: x86_64\nCPU(s): {node.cores}\nModel name: {node.cpu}\nNUMA node(s): 2\n"


def _df(site: Site, ctx: Context) -> str:
    free, size = int(site.world.node.disk_free_gib * GIB), int(14000 * GIB)
    place = ctx.argv[-1] if ctx.argv[-1].startswith("/") else "/"
    used = max(0, size - free)
    return (
        "Filesystem          1-blocks          Used     Available Capacity Mounted on\n"
        f"/dev/nvme0n1 {size} {used} {free} {100 * used // size}% {place}\n"
    )


def cat(site: Site, ctx: Context) -> Steps:
    """Files of /proc and /sys that tools read; others do not exist here."""
    node = site.world.node
    files = {
        "/proc/meminfo": f"MemTotal:       {int(node.memory_gib * GIB / 1024)} kB\n",
        "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": f"{node.governor}\n",
        "/proc/sys/kernel/numa_balancing": f"{int(node.numa_balancing)}\n",
    }
    for path in ctx.argv[1:]:
        if path not in files:
            yield Out(f"cat: {path}: No such file or directory\n".encode())
            yield Exit(1)
        yield Out(files[path].encode())


def amd_smi(site: Site, ctx: Context) -> Steps:
    """`list`, `static`, `metric` and `process`, with `--json`; memory in MB as the tool prints it."""
    node, what = site.world.node, ctx.argv[1] if len(ctx.argv) > 1 else ""
    total, used = int(node.memory_bytes / 1e6), int(site.machine.vram_bytes / 1e6 / node.gpus)
    now = site.machine.kernel.now
    busy = any(live.activity is not None and live.activity.state(now)[0] for live in site.servers.values())
    name = f"AMD Instinct {node.accelerator.upper()}"
    each = {
        "list": lambda n: {"gpu": n, "bdf": f"0000:{0x05 + 16 * n:02x}:00.0", "uuid": f"twin-{n}"},
        "static": lambda n: {"gpu": n, "asic": {"market_name": name, "target_graphics_version": node.arch}},
        "metric": lambda n: {
            "gpu": n,
            "mem_usage": {
                "total_vram": {"value": total, "unit": "MB"},
                "used_vram": {"value": used, "unit": "MB"},
                "free_vram": {"value": total - used, "unit": "MB"},
            },
            "usage": {"gfx_activity": {"value": 99 if busy else 0, "unit": "%"}},
            "power": {"socket_power": {"value": BUSY_W if busy else IDLE_W, "unit": "W"}},
            "clock": {"gfx_0": {"clk": {"value": BUSY_MHZ if busy else IDLE_MHZ, "unit": "MHz"}}},
        },
        "process": lambda n: {"gpu": n, "process_list": _holders(site)},
    }
    yield Wait(0.3)
    if what not in each:
        yield Out(f"usage: amd-smi [-h] {{{','.join(each)}}} ...\n".encode())
        yield Exit(2)
        return
    rows = [each[what](n) for n in range(node.gpus)]
    text = json.dumps(rows, indent=4) if "--json" in ctx.argv else "\n".join(f"GPU: {r['gpu']} {r}" for r in rows)
    yield Out(text.encode() + b"\n")


def hangs(_: Site, __: Context) -> Steps:
    """A tool that never comes back: a driver that waits for a dead accelerator."""
    yield Wait(inf)


def _holders(site: Site) -> list[dict[str, object]]:
    living = [p for tree in site.machine.trees for p in tree.living() if p.vram_bytes]
    return [{"process_info": {"name": p.argv[0], "pid": p.pid, "mem_usage": {"value": p.vram_bytes}}} for p in living]


def facts(site: Site, ctx: Context) -> Steps:
    """`python sglang_facts.py` in the engine's environment."""
    build = site.build_of(ctx.env)
    yield Wait(build.import_s / 4, cpu=1.0)
    told = {
        "types": resolve.types(build.flags),
        "packages": {"sglang": build.version, **build.packages},
        "capabilities": {"python": "3.12.3", "machine": "x86_64", "compiler": "hipcc 7.2.0"},
        "problem": "",
    }
    yield Out(b"\nday0-facts " + json.dumps(told).encode() + b"\n")


HOST = {
    "nproc": say(lambda site, _: f"{site.world.node.cores}\n"),
    "lscpu": say(_lscpu),
    "uname": say(lambda site, ctx: f"{site.world.node.kernel if '-r' in ctx.argv else 'Linux'}\n"),
    "df": say(_df),
    "cat": cat,
}
