"""A knee on the real CPU server by the product's own search, and a dense grid of rates on the same boot that checks it.

    python bench/knee_real.py [--boots 2] [--rates 11] [--seeds 3] [--model FOLDER]

About 20 minutes on two cores. Needs `make engine`. A boot is warmed and searched as rung `measure` does it; then rates
5 % apart around the knee are offered in mixed order, each with other arrivals, on the very same server. The grid's knee
is the rate that divides what passed from what failed best. The grid confirms the search where that rate lies within the
search's interval (90 %, over arrival seeds), widened by half a step of the grid. Printed, never asserted.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Generator
from math import exp, inf, log
from pathlib import Path
from typing import TypeVar

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
        out.append(told(booted.point(work, Rung.MEASURE, rate, seed, f"grid-{number}")))
    return sorted(out, key=lambda p: (p.rate_rps or 0.0, p.seed))


def checked(knee: Knee, points: list[LoadPoint]) -> str:
    """The grid's verdict in words; void points say nothing."""
    sound = [p for p in points if p.void is None or p.void.startswith("failures")]
    for rate in sorted({p.rate_rps or 0.0 for p in sound}):
        here = [p for p in sound if p.rate_rps == rate]
        ttft = ", ".join(f"{p.ttft_ms.p95:.0f}" for p in here if p.ttft_ms)
        tpot = ", ".join(f"{p.tpot_ms.p50:.0f}" for p in here if p.tpot_ms)
        passed = sum(p.meets_slo for p in here)
        say(f"    {rate:6.3f}/s: {passed} of {len(here)} pass; p95 TTFT {ttft} ms; median TPOT {tpot} ms")
    at = exp(divides([log(p.rate_rps or 1.0) for p in sound], [p.meets_slo for p in sound], STEP))
    low, high = (knee.low_rps or 0.0) * exp(-STEP / 2), (knee.high_rps or inf) * exp(STEP / 2)
    verdict = "CONFIRMED" if low <= at <= high else "NOT confirmed"
    off, void = log(knee.rate_rps / at), len(points) - len(sound)
    return f"grid's knee {at:.3f}/s, the search is {off:+.1%} off: {verdict} by its interval ({void} void points)"


def boot(node: Node, inputs: ClimbInputs, number: int, rates: int, seeds: int) -> None:
    """One boot: search, then grid."""
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
        say(f"  {checked(knee, points)}")


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
            for number in range(1, given.boots + 1):
                boot(node, inputs, number, given.rates, given.seeds)
        except Day0Error as error:
            say(f"  {error}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
