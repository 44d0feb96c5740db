"""One scripted run in a process of its own: `python scripted_run.py HOME MODEL [RUN]`; prints the run's ID.

Without RUN it submits and works; with RUN it goes on. `DAY0_CRASH_AT` may kill it anywhere.
"""

import sys
from pathlib import Path

from day0.agent import crashpoints, scripted
from day0.agent.controller import Controller
from day0.agent.settings import load
from day0.runs.ledger import Ledger
from day0.runs.queue import ControllerLock
from day0.runs.schema import RUN_FINISHED, RunRequest
from day0.runs.workload import MeasureRules, Slo, Target, Workload
from day0.tools.revision import revision_of

RULES = MeasureRules(
    point_s=8.0,
    min_requests=8,
    p95_multiples=0.0,
    max_points=3,
    max_pairs=2,
    stability_s=20.0,
    floor_boots=2,
    short=True,
)
TARGET = Target(
    name="scripted",
    kind="twin",
    accelerator="cpu",
    base_flags={"device": "cpu"},
    server_cores=(0,),
    harness_cores=(1,),
    stall_s=60.0,
    boot_stall_s=60.0,
    boot_cap_s=600.0,
    measure=RULES,
    workload="tiny",
)
WORKLOAD = Workload(
    name="tiny", input_tokens=64, output_tokens=16, prefixes=2, cached_share=0.5, slo=Slo(ttft_ms=600.0, tpot_ms=60.0)
)


def request(home: Path, model: str, attempts: int = 1) -> RunRequest:
    return RunRequest(
        model=model,
        revision=revision_of(model, home),
        target=TARGET,
        workloads=(WORKLOAD,),
        policy="playbook",
        max_attempts=attempts,
    )


def unheard(run: str, attempt: str, fact: object) -> None:
    """Nobody watches."""


def main(home: str, model: str, run_id: str = "") -> int:
    settings = load(home=Path(home))
    ledger = Ledger.open(settings.database)
    lock = ControllerLock(settings.database)
    if not lock.acquire(5.0):
        return 9
    if not run_id:
        run_id = ledger.submit(request(settings.home, model)).run.id
        sys.stdout.write(run_id + "\n")
        sys.stdout.flush()
        crashpoints.reached("submitted")
    elif ledger.run(run_id).status in RUN_FINISHED:
        return 0
    Controller(settings, ledger, lock, unheard, scripted.pool, scripted.parts).work(run_id)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
