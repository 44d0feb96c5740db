"""Two equal configurations, again and again, through the code that promotes: how often noise wins.

    python bench/equal.py [--trials 200] [--seed 0]

Each trial is a run of its own on a simulated node: the baseline climbs and is booted again for the noise floor; its
equal (the same but for a server's log level) climbs; the search decides whether to keep it; then, kept or not, pairs
of boots must show a gain, as many as a target of class MI355X allows. A promotion by pairs alone is counted beside
one that the whole path lets through, and so is how often the bound of the gain lay above the truth. The first world
is as quiet as a node gets; on the others every boot and point is another, some points are hit by a burst of noise,
and the node wanders. Figures are printed, never asserted; the promise is at most 4 of 200.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from day0.agent.climb import climb
from day0.agent.evaluation.arena import Arena
from day0.agent.evaluation.confirming import confirmed
from day0.agent.evaluation.playing import Job, request_of
from day0.agent.policy import decide
from day0.runs.schema import Attempt, AttemptStatus
from day0.runs.workload import MeasureRules, Slo, Workload
from day0.sandboxes.twin.truth import Noise
from day0.sandboxes.twin.world import World, world

BASE = "llama-3.1-70b-leftover"
RULES = MeasureRules(
    point_s=12.0, min_requests=40, p95_multiples=0.0, max_points=3, max_pairs=8, stability_s=0.0, floor_boots=2
)
TRAFFIC = Workload(
    name="short",
    input_tokens=4000,
    output_tokens=120,
    prefixes=4,
    cached_share=0.5,
    slo=Slo(ttft_ms=3000.0, tpot_ms=30.0),
)
WORLDS = {
    "boots 0.6 % apart, points 0.4 %": Noise(boot=0.006, point=0.004),
    "boots 2 % apart, points 1 %, 8 % of points hit by a burst, wander 1 %": Noise(
        boot=0.02, point=0.01, drift=0.01, burst=0.08, burst_time=1.4
    ),
    "boots 6 % apart, points 4 %: a coin flip at the knee": Noise(boot=0.06, point=0.04),
}


@dataclass(frozen=True)
class Trial:
    """What came of one."""

    kept: bool
    better: bool
    pairs: int
    outside: bool
    floor: float


def equal(noise: Noise, number: int) -> World:
    """A world without faults; its wander, keyed by its name, is the trial's own."""
    base = world(BASE)
    bare = {"name": f"equal-{number}", "story": (), "node": type(base.node)(), "faults": (), "noise": noise}
    return base.model_copy(update=bare)


def play(noise: Noise, number: int) -> Trial:
    """One trial."""
    found = equal(noise, number)
    job = Job(world=BASE, policy="default", rules=RULES, seed=number, hours=1000.0)
    request = request_of(job, found).model_copy(update={"workloads": (TRAFFIC,)})
    with tempfile.TemporaryDirectory(prefix="day0-equal-") as folder:
        arena = Arena(found, request, Path(folder))
        arena.survey()
        arena.floor()
        floor = arena.book.view().noise
        challenger = climbed(arena)
        end = decide.outcome(challenger, arena.book.attempts(), request, floor, arena.gpus)
        arena.book.move(challenger.id, AttemptStatus.KEPT)
        better, _ = confirmed(arena, arena.book.attempt(challenger.id), TRAFFIC)
        last = arena.compared[-1]
        return Trial(end.status == AttemptStatus.KEPT, better, len(last.pairs), last.lower > 0, floor)


def climbed(arena: Arena) -> Attempt:
    """The baseline's equal after the ladder; no screen sends it home, so that every trial comes to pairs."""
    base = arena.book.attempts()[0]
    flags = {**base.candidate.flags, "log-level": "warning"}
    made = arena.book.add(base.candidate.model_copy(update={"flags": flags}), "bench", parent=base.id)
    arena.book.move(made.id, AttemptStatus.RUNNING, epoch=0)
    now = arena.book.attempt(made.id)
    arena.perform(made.id, partial(climb, now, inputs=replace(arena.inputs(now), incumbent={})))
    return arena.book.attempt(made.id)


def lines(trials: int, seed: int) -> Iterator[str]:
    """The figures, as they come."""
    yield f"two equal configurations, {trials} simulated runs a world, at most {RULES.max_pairs} pairs of boots"
    for name, noise in WORLDS.items():
        began, done = time.monotonic(), []
        for number in range(seed, seed + trials):
            done.append(play(noise, number))
            if len(done) % 20 == 0:
                tell(f"{name}: {len(done)} of {trials}, promoted {sum(t.better for t in done)}")
        both = sum(t.kept and t.better for t in done)
        yield (
            f"  {name}: promoted by pairs alone {sum(t.better for t in done)} of {trials}, by the whole path {both}"
            f" (kept by the search: {sum(t.kept for t in done)}); 95 % bound above the truth"
            f" {sum(t.outside for t in done)}; pairs {sum(t.pairs for t in done) / trials:.1f}, noise floor"
            f" {sum(t.floor for t in done) / trials:.1%}; {time.monotonic() - began:.0f} s"
        )


def tell(text: str) -> None:
    """A line for whoever waits."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def main(words: Sequence[str]) -> None:
    """Prints all figures."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--trials", type=int, default=200)
    made.add_argument("--seed", type=int, default=0)
    asked = made.parse_args(words)
    for line in lines(asked.trials, asked.seed):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
