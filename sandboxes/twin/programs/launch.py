"""`python -m sglang.launch_server`, also in its router's form: arguments, the boot with its faults, the endpoints."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from math import inf
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from day0.runs.values import canonical_json, sha256
from day0.sandboxes.simulated.machine import Context
from day0.sandboxes.simulated.steps import Exit, Listen, Out, Start, Step, Terminated, Use, Wait
from day0.sandboxes.twin import layout, oracle, resolve, tuning
from day0.sandboxes.twin.conditions import evidence, holds
from day0.sandboxes.twin.programs import bootlog, endpoints
from day0.sandboxes.twin.serving import LiveServer, draw, identity
from day0.sandboxes.twin.site import Site
from day0.sandboxes.twin.workspace import placed
from day0.sandboxes.twin.world import Fault

GIB = 2.0**30
FINAL_S = 4.0
GRAPH_S = 30.0
HELP_S = 6.0
LEAK_S = 2.0
LEAST_TOKENS = 64
ROUTER = "sglang-router"
LOCKS = "lock_module_*"
STOP_S = 3.4
"""from SIGTERM until all processes of a server are gone"""
Steps = Generator[Step, object, None]


def server(site: Site, ctx: Context) -> Steps:
    """The program."""
    build = site.build_of(ctx.env)
    words, routed = list(ctx.argv[3:]), resolve.ROUTED in ctx.argv
    if routed and ROUTER not in build.packages:
        yield Out(f"python: Error while finding module specification for '{resolve.ROUTED}'\n".encode())
        yield Exit(1)
    if "--help" in words or "-h" in words:
        yield Wait(HELP_S, cpu=1.0)
        yield Out(resolve.parser(build.flags, routed=routed).format_help().encode())
        return
    try:
        asked = resolve.parse(build.flags, words, routed=routed)
    except resolve.Usage as error:
        yield Wait(HELP_S, cpu=1.0)
        yield Out(f"{resolve.parser(build.flags).format_usage()}{resolve.PROG}: error: {error}\n".encode())
        yield Exit(2)
        return
    yield from _Boot(site, ctx, asked, words).run()


class _Boot:
    """One launch. A stage that kills the server ends the program: nothing after its `Exit` is ever played."""

    def __init__(self, site: Site, ctx: Context, asked: Mapping[str, Any], words: list[str]) -> None:
        self.site, self.ctx, self.asked = site, ctx, asked
        self.world, self.build = site.world, site.build_of(ctx.env)
        self.key = identity(words, ctx.env)
        self.pace = draw(0.02, "load", self.key)
        self.faults: tuple[Fault, ...] = ()
        self.kids: list[int] = []
        self.args: dict[str, Any] = {}

    def say(self, text: str, rank: str = "") -> Out:
        """A line of the log."""
        return bootlog.line(text, self.ctx.machine.kernel.now, rank)

    def run(self) -> Steps:
        """From the first import to SIGTERM."""
        try:
            yield Wait(self.build.import_s, cpu=1.0)
            yield self.say(f"server_args=ServerArgs({', '.join(f'{k}={v!r}' for k, v in self.asked.items())})")
            try:
                self.args = resolve.resolve(self.world, self.asked)
            except resolve.Fatal as error:
                yield from self._die(str(error), 1)
            site, env = self.site, self.ctx.env
            tuned = tuning.tuned(
                self.world, self.build, self.args, env, lambda path: site.file(placed(self.ctx.folder, path))
            )
            source, config = site.tree(self.build, self.ctx.folder), site.config(self.args["model_path"])
            self.scene = oracle.scene(self.args, env, self.build.name, tuned=tuned, source=source, config=config)
            self.faults = tuple(f for f in self.world.faults if holds(f.when, self.scene))
            yield from self._load()
            yield from self._kernels()
            yield from self._serve()
        except Terminated:
            yield Wait(STOP_S, cpu=0.2)
            yield Exit(0)

    def _stage(self, stage: str) -> Steps:
        """What goes wrong at this stage."""
        for fault in self.faults:
            if fault.when.running is not None or fault.stage != stage:
                continue
            log = [text.replace("{evidence}", evidence(fault.when, self.scene)) for text in fault.log]
            fatal = fault.kind in ("crash", "oom")
            for text in log[:-1] if fatal else log:
                yield self.say(text, " TP0")
            if fatal:
                yield Wait(2.0, cpu=0.5)
                yield from self._die((log or ["RuntimeError: unknown error"])[-1], fault.exit_code)
            elif fault.kind == "hang":
                yield Wait(inf)
            yield Wait(fault.seconds, cpu=1.0)

    def _load(self) -> Steps:
        """Weights and the KV pool."""
        world, args = self.world, self.args
        physics, at = world.physics(), layout.layout(args)
        total, ranks = world.node.memory_bytes / GIB, at.tp * at.dp
        used = layout.weights_per_chip(physics, at) / GIB
        free = total - 1.5 - self.site.held_gib()
        yield self.say("Init torch distributed begin.", " TP0")
        yield Wait(8.0, cpu=0.5)
        yield self.say("Init torch distributed ends. mem usage=1.50 GB", " TP0")
        yield from self._stage("import")
        yield self.say(bootlog.loading(free), " TP0")
        # every copy but the first comes out of the page cache
        seconds = used * args["tp_size"] / world.node.disk_gib_s * self.pace
        if used + 2.0 > free:
            yield Wait(seconds * 0.6, cpu=0.5)
            yield from self._die(bootlog.OOM.format(need=1.5, total=total, free=0.3), 1)
        for rank in range(ranks):
            self.kids.append(int(str((yield Start(_rank, (f"sglang::scheduler_TP{rank}",))))))
        parts = max(1, int(seconds / 20.0))
        for _ in range(parts):
            yield Wait(seconds / parts, cpu=0.9)
            yield Use(io_bytes=int(used * GIB / parts))
            self._hold(int(used * GIB / parts))
        kind = str((world.model.config.get("architectures") or ["Model"])[0])
        yield self.say(bootlog.loaded(seconds, kind, free - used, used), " TP0")
        yield from self._stage("load")
        size = world.node.memory_bytes * args["mem_fraction_static"] / GIB - used - world.truth.runtime_gib
        if args["max_total_num_tokens"] < LEAST_TOKENS or size > free - used:
            yield from self._die(bootlog.NO_ROOM, 1)
        self._hold(int(size * GIB))
        kv = "torch.float8_e4m3fn" if at.kv_bytes == 1.0 else "torch.bfloat16"
        yield self.say(bootlog.pool(args["max_total_num_tokens"] // at.groups, size, kv), " TP0")
        self.left = free - used - size
        yield self.say(f"Memory pool end. avail mem={self.left:.2f} GB", " TP0")
        yield from self._stage("pool")

    def _kernels(self) -> Steps:
        """Compiles what no cache holds, captures graphs."""
        begin = f"Capture cuda graph begin. This can take up to several minutes. avail mem={self.left:.2f} GB"
        yield self.say(begin, " TP0")
        yield from self._stage("graph")
        marker = self._marker()
        if marker is not None and (lock := next(marker.parent.glob(LOCKS), None)):
            yield self.say(f"[aiter] waiting for baton release at {lock}", " TP0")
            yield Wait(inf)
        if marker is None or not marker.exists():
            yield self.say("[aiter] start build [module_moe_ck2stages] under the JIT folder", " TP0")
            yield Wait(self.build.compile_s * self.pace, cpu=1.0)
            yield self.say(f"[aiter] finish build [module_moe_ck2stages], cost {self.build.compile_s:.1f}s", " TP0")
            if marker is not None:
                marker.write_text("compiled\n", encoding="utf-8")
        for text in tuning.lines(self.world, self.args, tuned=self.scene.tuned):
            yield self.say(text, " TP0")
        seconds = GRAPH_S * self.pace
        yield Wait(seconds, cpu=0.8)
        yield self.say(f"Capture cuda graph end. Time elapsed: {seconds:.2f} s. avail mem={self.left:.2f} GB", " TP0")
        yield self.say(bootlog.limits(self.args, self.world.model.geometry.context, self.left), " TP0")

    def _serve(self) -> Steps:
        """Listens until it is stopped."""
        site, port = self.site, int(self.asked["port"])
        live = LiveServer.up(
            self.world, self.build, self.args, self.scene, key=self.key, process=site.process(self.ctx)
        )
        yield Listen(port, lambda request: endpoints.handle(site, live, request))
        for url in live.workers:
            at = urlsplit(url).port or 0
            yield Listen(at, lambda request: endpoints.handle(site, live, request, worker=True))
        yield self.say(f"Uvicorn running on http://{self.asked['host']}:{port} (Press CTRL+C to quit)")
        yield from self._stage("warmup")
        yield Wait(FINAL_S, cpu=0.6)
        site.servers[port] = live
        try:
            yield self.say(bootlog.READY)
            yield from self._idle(live)
        finally:
            site.servers.pop(port, None)

    def _idle(self, live: LiveServer) -> Steps:
        """Until it is stopped. A leak lets memory grow while requests run."""
        leaks = sum(f.gib_per_hour for f in self.faults if f.kind == "leak")
        while leaks:
            yield Wait(LEAK_S)
            if live.activity is not None and live.activity.state(self.ctx.machine.kernel.now)[0]:
                self._hold(int(leaks * GIB * LEAK_S / 3600.0))
        yield Wait(inf)

    def _die(self, last: str, code: int) -> Steps:
        """The scheduler dies, the launcher follows."""
        yield self.say(f"Scheduler hit an exception: Traceback (most recent call last):\n  ...\n{last}", " TP0")
        yield Wait(1.0)
        yield self.say("Received sigquit from a child process. It usually means the child failed.")
        self.site.end(self.kids, 1)
        yield Exit(code)

    def _hold(self, more: int) -> None:
        for process in self.site.processes(self.kids):
            process.vram_bytes += more

    def _marker(self) -> Path | None:
        """Says that the kernels of this build and layout are compiled; None without a cache."""
        folder = self.ctx.env.get("DAY0_CACHE_JIT")
        args = self.args
        parts = [self.build.name, args["tp_size"], args.get("attn_dp_size"), bool(args.get("speculative_algorithm"))]
        return Path(folder) / f"twin-{sha256(canonical_json(parts))[7:19]}" if folder else None


def _rank(_: Context) -> Steps:
    """One scheduler process: its memory is booked by the launcher's stages."""
    yield Wait(inf)
