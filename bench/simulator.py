"""What the simulated node costs and how near it comes to what is published.

    python bench/simulator.py

Prints the wall and processor time of a ten-minute benchmark of 20k/1k requests at 2 requests/s, and each configuration
of the shipped worlds' stories, its noise-free knee beside the published figure. Printed, never asserted.
"""

from __future__ import annotations

import sys
import time
from statistics import median

from day0.runs.documents import names, workload
from day0.sandboxes.twin import layout, oracle, rate
from day0.sandboxes.twin.figures import offered
from day0.sandboxes.twin.simulate import Noise, play
from day0.sandboxes.twin.world import Story, World, world

REPEATS = 7


def tell(text: str) -> None:
    """A line of output."""
    sys.stdout.write(text + "\n")


def server(found: World, told: Story) -> layout.ServerSpec:
    """The server of a configuration of a story."""
    mended = found.mended() if told.repaired else found
    args = oracle.arguments(mended, told.flags)
    build = mended.builds[0]
    seen = oracle.scene(args, told.env, build.name, tuned=told.tuned, source=build.tree, config=mended.model.config)
    return layout.server(mended.physics(), args, seen)


def cost() -> None:
    """Ten minutes of agentic traffic on the story's second configuration."""
    found = world("glm-5.2")
    told = next(s for s in found.story if s.name == "TP4 x DP2")
    spec, load = server(found, told), offered(workload("agentic-20k1k"), 2.0, 600.0, 1)
    wall, cpu = [], []
    for number in range(REPEATS):
        begun, busy = time.perf_counter(), time.process_time()
        play(spec, load, Noise(1.0, 0.01, number))
        wall.append(time.perf_counter() - begun)
        cpu.append(time.process_time() - busy)
    count = len(load.arrivals)
    tell(f"ten minutes at 2 requests/s ({count} requests, 20k/1k): median {median(wall) * 1e3:.1f} ms of wall time,")
    tell(f"  {median(cpu) * 1e3:.1f} ms of processor time, over {REPEATS} seeds, nothing remembered between them")


def stories() -> None:
    """Simulated against published. The noise-free knee is the crossing itself; a measured one lies a few % below it."""
    tell(f"{'world':34} {'configuration':34} {'published':>10} {'simulated':>10} {'off':>7}")
    for name in names("world"):
        found = world(name)
        for told in found.story:
            traffic = workload(told.workload)
            spec = server(found, told)
            tok_s = (
                rate.stream(spec, traffic).tok_s if told.figure == "stream_tok_s" else rate.knee(spec, traffic).tok_s
            )
            tell(f"{name:34} {told.name:34} {told.value:10.0f} {tok_s:10.0f} {tok_s / told.value - 1:+7.1%}")


if __name__ == "__main__":
    cost()
    stories()
