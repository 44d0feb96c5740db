"""A knee on the real CPU server by the product's own search, and a dense grid of rates on the same boot that checks it.

    python bench/knee_real.py [--boots 2] [--rates 11] [--seeds 3] [--model FOLDER]

About 20 minutes on two cores. Needs `make engine`. A boot is warmed and searched as rung `measure` does it; then rates
5 % apart around the knee are offered in mixed order, each with other arrivals, on the very same server; a void point is
repeated. The grid's knee is the rate that divides what passed from what failed best; its own range, by drawing its
points again and again, stands beside it. The grid confirms the search where its knee lies within the search's interval
(90 %, over arrival seeds), widened by half a step of the grid. An interval without an end, or a grid all on one side,
confirms nothing. Printed, never asserted.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Generator
from math import exp, log
from pathlib import Path
from typing import TypeVar

import numpy as np
from day0.agent import compose
from day0.agent import settings as settings_
from day0.agent.inputs import ClimbInputs
from day0.agent.lease import Booted, Lease
from day0.agent.surveying import look
from day0.runs import documents
from day0.runs.candidate import Candidate
from day0.runs.errors import Day0Error, UserError
from day0.runs.facts import Fact, Knee, LoadPoint, Rung, Surveyed
from day0.runs.schema import RunRequest
from day0.sandboxes.base import Node
from day0.sandboxes.local import LocalNode
from day0.tools.knee import start_rate
from day0.tools.revision import revision_of
from knee_grid import divides

STEP = 0.05
GRID_SEED = 7_000
AGAIN = 2
"""how often a void point of the grid is repeated"""
DRAWS = 1_000
T = TypeVar("T")


def say(line: str) -> None:
    """To stdout, at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def told(facts: Generator[Fact, None, T]) -> T:
    """What a part of the ladder returns; its facts are not kept."""
    while True:
        try:
            next(facts)
        except StopIteration as end:
            value: T = end.value
            return value


def inputs_of(node: Node, model: Path) -> ClimbInputs:
    """What a climb on target `cpu` works with. Raises `UserError` where no engine is installed."""
    target, work = documents.target("cpu"), documents.workload("cpu-chat")
    engine, at = compose.engine("sglang"), compose.environments_of(target, settings_.load())
    revision = revision_of(model, settings_.load().home)
    request = RunRequest(model=str(model), revision=revision, target=target, workloads=(work,))
    facts = list(look(node, folder=model, request=request, engine=engine, at=at, known=None))
    seen = next(f for f in facts if isinstance(f, Surveyed))
    return ClimbInputs(
        target=target,
        workloads=(work,),
        engine=engine,
        engine_facts=seen.engine,
        model_facts=seen.model,
        model_folder=str(model),
        environments=at,
        seed=1,
        noise=0.0,
    )


def searched(booted: Booted, inputs: ClimbInputs, seed: int) -> tuple[Knee, int]:
    """The boot's knee, and how many load points it took."""
    (work,), rules = inputs.workloads, inputs.target.measure
    probe = told(booted.warm(work, Rung.MEASURE, seed))
    start = start_rate(probe, work)
    knee, points = told(booted.bracket(work, Rung.MEASURE, start, rules, seed))
    return knee, len(points)


def grid(booted: Booted, inputs: ClimbInputs, about: float, count: int, seeds: int) -> list[LoadPoint]:
    """Points at rates around the knee, every rate with every pattern of arrivals, in mixed order."""
    (work,) = inputs.workloads
    steps = [STEP * (n - (count - 1) / 2) for n in range(count)]
    order = [(about * exp(step), seed) for step in steps for seed in range(GRID_SEED, GRID_SEED + seeds)]
    random.Random(1).shuffle(order)
    out = []
    for number, (rate, seed) in enumerate(order):
        for again in range(1 + AGAIN):
            point = told(booted.point(work, Rung.MEASURE, rate, seed, f"grid-{number}-{again}"))
            if counts(point):
                break
        out.append(point)
    return sorted(out, key=lambda p: (p.rate_rps or 0.0, p.seed))


def counts(point: LoadPoint) -> bool:
    """Whether a point says something of the server: failed requests do, any other void does not."""
    return point.void is None or point.void.startswith("failures")


def cut(points: list[LoadPoint]) -> float:
    """The rate that divides the points best, by `divides`."""
    rising = sorted(points, key=lambda p: p.rate_rps or 0.0)
    return exp(divides([log(p.rate_rps or 1.0) for p in rising], [p.meets_slo for p in rising], STEP))


def drawn(points: list[LoadPoint]) -> tuple[float, float]:
    """5 % and 95 % of the grid's knee over draws of its own points, as many at each rate as there are."""
    groups = [[p for p in points if p.rate_rps == rate] for rate in sorted({p.rate_rps or 0.0 for p in points})]
    dice = random.Random(2)
    cuts = [cut([dice.choice(group) for group in groups for _ in group]) for _ in range(DRAWS)]
    return float(np.quantile(cuts, 0.05)), float(np.quantile(cuts, 0.95))


def checked(knee: Knee, points: list[LoadPoint]) -> bool:
    """Whether the grid confirms the search, told in words; void points say nothing."""
    sound = [p for p in points if counts(p)]
    for point in points:
        if not counts(point):
            say(f"    {point.rate_rps:6.3f}/s: void: {point.void}")
    for rate in sorted({p.rate_rps or 0.0 for p in sound}):
        here = [p for p in sound if p.rate_rps == rate]
        ttft = ", ".join(f"{p.ttft_ms.p95:.0f}" for p in here if p.ttft_ms)
        tpot = ", ".join(f"{p.tpot_ms.p50:.0f}" for p in here if p.tpot_ms)
        passed = sum(p.meets_slo for p in here)
        say(f"    {rate:6.3f}/s: {passed} of {len(here)} pass; p95 TTFT {ttft} ms; median TPOT {tpot} ms")
    if len({p.meets_slo for p in sound}) < 2:
        say("  NOT confirmed: all of the grid lies on one side of its knee")
        return False
    at, (least, most) = cut(sound), drawn(sound)
    say(f"  grid's knee {at:.3f}/s (of its own points drawn again: {least:.3f} to {most:.3f})")
    say(f"  the search is {log(knee.rate_rps / at):+.1%} off; {len(points) - len(sound)} void points")
    if knee.low_rps is None or knee.high_rps is None:
        say("  NOT confirmed: the search's interval has no end")
        return False
    held = knee.low_rps * exp(-STEP / 2) <= at <= knee.high_rps * exp(STEP / 2)
    width = log(knee.high_rps / knee.low_rps)
    say(f"  {'CONFIRMED' if held else 'NOT confirmed'} by the interval of {knee.told()}/s, {width:.0%} wide")
    return held


def boot(node: Node, inputs: ClimbInputs, number: int, rates: int, seeds: int) -> bool:
    """One boot: search, then grid. Whether the grid confirms the search."""
    facts = inputs.engine_facts
    flags = inputs.target.base_flags
    env = inputs.target.base_env
    candidate = Candidate(
        engine="sglang", build=facts.build, model=inputs.model_folder, revision="bench", flags=flags, env=env
    )
    lease = Lease(node, "bench.1", 0, candidate, inputs, number, repeat=number)
    lease.begin()
    began = time.monotonic()
    with lease.open() as booted:
        say(f"boot {number}: ready after {booted.server.facts.ready_s:.0f} s")
        knee, count = searched(booted, inputs, seed=number)
        took = time.monotonic() - began
        say(f"  search: knee {knee.told()}/s, bound by {knee.bound_by or 'nothing'}, {count} points, {took:.0f} s")
        points = grid(booted, inputs, knee.rate_rps, rates, seeds)
        say(f"  grid of {rates} rates, {seeds} patterns of arrivals each:")
        return checked(knee, points)


def main() -> int:
    """0 unless a boot or the set-up failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--boots", type=int, default=2)
    parser.add_argument("--rates", type=int, default=11)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--model", type=Path)
    given = parser.parse_args()
    model = given.model or settings_.load().home / "models" / "tiny-llama"
    say("knee on the real CPU server against a dense grid on the same boot (short windows of target `cpu`)")
    with tempfile.TemporaryDirectory(prefix="d0-knee-") as folder:
        node = LocalNode("bench", Path(folder), cancel=lambda: False)
        try:
            if not model.is_dir():
                raise UserError(f"there is no model at {model}: run `make engine` first")
            inputs = inputs_of(node, model.resolve())
        except Day0Error as error:
            say(f"  {error}")
            return 1
        confirmed, failed = 0, 0
        for number in range(1, given.boots + 1):
            try:
                confirmed += boot(node, inputs, number, given.rates, given.seeds)
            except Day0Error as error:
                say(f"  {error}")
                failed += 1
    say(f"the grid confirms {confirmed} of {given.boots} boots")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
