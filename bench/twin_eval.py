"""The playbook on worlds drawn at random: how near to each world's best, and at what price beside the numeric control.

    python bench/twin_eval.py [--worlds 200] [--rival 40] [--seed 0] [--jobs 2] [--minutes M]

Every score is kept under `$DAY0_HOME/eval` by the hash of world, policy, seed and code: a run that was stopped, by
Ctrl-C or by --minutes, goes on where it was. Figures are printed, never asserted.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from day0.agent.evaluation.crew import played, rated
from day0.agent.evaluation.keeping import kept
from day0.agent.evaluation.playing import SAMPLED, Job
from day0.agent.evaluation.report import quantile, ratios
from day0.agent.evaluation.scoring import Score
from day0.agent.settings import load

SEEDS = 3


def main(words: Sequence[str]) -> None:
    """Plays what is left, as far as the time allows, and prints what is known by then."""
    asked = parser().parse_args(words)
    settings = load()
    worlds = [f"{SAMPLED}{asked.seed + n}" for n in range(asked.worlds)]
    until = time.monotonic() + 60 * asked.minutes if asked.minutes else None
    solvable = {}
    for name, good in rated(worlds, settings.home, asked.jobs):
        solvable[name] = good
        tell(f"oracle {len(solvable)} of {len(worlds)}")
    ours = [Job(world=name, policy="playbook") for name in worlds]
    rival = [
        Job(world=name, policy="tpe", seed=n, price=True)
        for name in worlds[: asked.rival]
        if solvable[name]
        for n in range(SEEDS)
    ]
    scores = play([*ours, *rival], settings.home, asked.jobs, until)
    say(scores, len(ours), len(rival))


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--worlds", type=int, default=200, help="how many worlds, from --seed on")
    made.add_argument("--rival", type=int, default=40, help="the first so many also with TPE, where flags can solve")
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--jobs", type=int, default=2)
    made.add_argument("--minutes", type=float, default=0.0, help="stop after this long; the next call goes on")
    return made


def play(jobs: Sequence[Job], home: Path, workers: int, until: float | None) -> list[Score]:
    """Scores of earlier times and of this one."""
    known = [(job, kept(job, home)) for job in jobs]
    scores = [score for _, score in known if score is not None]
    left = [job for job, score in known if score is None]
    try:
        for job, score in played(left, home, workers):
            scores.append(score)
            mark = "BROKEN" if score.broken else f"{score.share:.1%}"
            tell(f"{len(scores)} of {len(jobs)}: {score.world} {job.policy} {mark}, {score.counted_hours:.1f} h")
            if until is not None and time.monotonic() > until:
                break
    except KeyboardInterrupt:
        tell("stopped; call again to go on")
    return scores


def say(scores: Sequence[Score], ours: int, rival: int) -> None:
    """The figures."""
    own = [s for s in scores if s.policy == "playbook"]
    if not own:
        sys.stdout.write("nothing was played\n")
        return
    shares = [s.share for s in own]
    lines = [
        f"simulated: {len(own)} of {ours} worlds played by the playbook",
        f"share of oracle: median {median(shares):.1%}, p10 {quantile(shares, 0.1):.1%}, worst {min(shares):.1%}",
        f"broken promotions: {sum(s.broken for s in own)}; solved: {sum(s.solved for s in own)} of {len(own)}",
        f"node-hours: median {median(s.hours for s in own):.1f}; to 95 %: {median(s.counted_hours for s in own):.1f}",
    ]
    found = ratios(scores)
    if found:
        told = sorted(found.values())
        plays = sum(s.policy == "tpe" for s in scores)
        lines.append(
            f"TPE's node-hours to 95 % over the playbook's: median {median(told):.1f} x, "
            f"p10 {quantile(told, 0.1):.1f} x over {len(told)} worlds ({plays} of {rival} plays)"
        )
    for score in sorted(own, key=lambda s: s.share)[:10]:
        lines.append(f"  {score.share:6.1%} {score.world}: {score.why_broken or score.confirmed}; {score.ended}")
    sys.stdout.write("\n".join(lines) + "\n")


def tell(text: str) -> None:
    """A line for whoever waits."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
