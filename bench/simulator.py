"""What the simulated node costs and how near it comes to what is published.

    python bench/simulator.py

Prints the wall and processor time of a ten-minute benchmark of 20k/1k requests at 2 requests/s, a hash over all
times of many points (the same with `scripts/compiled.py` before the program), and each configuration of the shipped
worlds' stories, its noise-free knee beside the published figure. Printed, never asserted.
"""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Iterator
from statistics import median

from day0.runs.documents import names, workload
from day0.sandboxes.twin import layout, oracle, rate
from day0.sandboxes.twin.figures import offered
from day0.sandboxes.twin.simulate import Noise, play
from day0.sandboxes.twin.world import Story, World, world

REPEATS = 7
RATES, EVERY = (0.5, 2.0, 8.0), 7
"""Of the points whose times are hashed: requests/s, so that idle and overloaded servers are among them, and how many
candidates of a world's space lie between two"""


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


def told_of() -> Iterator[tuple[World, Story]]:
    """Each configuration of each shipped world's story."""
    for name in names("world"):
        found = world(name)
        yield from ((found, told) for told in found.story)


def alike() -> None:
    """A hash over when each request of many servers got its first and its last token, to the last bit."""
    state, points, traffic = hashlib.sha256(), 0, workload("agentic-20k1k")
    for name in names("world"):
        found = world(name).mended()
        for pick in list(oracle.candidates(found))[::EVERY]:
            served = oracle.server(found, traffic, pick)
            if isinstance(served, str):
                continue
            point = play(served[0], offered(traffic, RATES[points % len(RATES)], 300.0, points), Noise(served[1], 0.01))
            state.update(repr((point.requests.first, point.requests.finish, point.requests.cached)).encode())
            points += 1
    tell(f"hash over all times of {points} points: {state.hexdigest()[:16]}")


def stories() -> None:
    """Simulated against published. The noise-free knee is the crossing itself; a measured one lies a few % below it."""
    tell(f"{'world':34} {'configuration':34} {'published':>10} {'simulated':>10} {'off':>7}")
    for found, told in told_of():
        spec, traffic = server(found, told), workload(told.workload)
        tok_s = rate.stream(spec, traffic).tok_s if told.figure == "stream_tok_s" else rate.knee(spec, traffic).tok_s
        tell(f"{found.name:34} {told.name:34} {told.value:10.0f} {tok_s:10.0f} {tok_s / told.value - 1:+7.1%}")


if __name__ == "__main__":
    cost()
    alike()
    stories()
