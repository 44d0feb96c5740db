"""What an earlier run's winner means for a run on a newer base: read from the ledger, which patches included.

A patch whose pull request was seen merged (`day0 patch watch`) is dropped by itself. A shipped repair is made anew on
the new base, and dropped where that has it already. A diff of somebody's was made for the old text and stays behind.
"""

from __future__ import annotations

from day0.agent import story
from day0.agent.parts import Environments
from day0.agent.policy.brought import UNKNOWN_GAIN
from day0.agent.policy.carried import Carried
from day0.agent.policy.trials import AUTHOR
from day0.runs.candidate import Candidate
from day0.runs.ledger import Ledger
from day0.runs.patches import Patch
from day0.runs.schema import Attempt, Run
from day0.runs.workload import Target

WATCHED = "patch_upstream"
"""event of a run: `{"patch": digest, "state": "merged", "why": ...}`"""
MOST_RUNS = 1000
SIMULATED_ON = " on "
"""in a target's world, before the engine source that it was put on"""


def carried(ledger: Ledger, run: Run, at: Environments) -> Carried | None:
    """What is carried over from the latest earlier run whose winner has patches on a base that this run lacks."""
    here = {at.engine_build, *at.images}
    for earlier in ledger.runs(limit=MOST_RUNS, before=run.id):
        if not _alike(earlier, run):
            continue
        winner = _winner(ledger, earlier, run)
        if winner is None:
            continue
        return None if winner.candidate.build in here else _of(ledger, earlier, winner)
    return None


def _alike(earlier: Run, run: Run) -> bool:
    mine, its = run.request, earlier.request
    return (its.model, its.revision, _node(its.target)) == (mine.model, mine.revision, _node(mine.target))


def _node(target: Target) -> tuple[str, str]:
    return target.name, target.world.partition(SIMULATED_ON)[0]


def _winner(ledger: Ledger, earlier: Run, run: Run) -> Attempt | None:
    """The earlier run's winner on the first workload that both have, if it has patches."""
    both = (w.name for w in run.request.workloads if w.name in {o.name for o in earlier.request.workloads})
    name = next(both, None)
    found = story.winner(ledger, earlier.id, name) if name else None
    winner = ledger.attempt(found) if found else None
    return winner if winner is not None and winner.candidate.patches else None


def _of(ledger: Ledger, earlier: Run, winner: Attempt) -> Carried:
    patches, _ = ledger.made(earlier.id)
    merged = {str(e.data["patch"]): str(e.data["why"]) for e in ledger.facts(earlier.id, WATCHED)}
    less = {patch: str(told["smallest"]) for patch, told in story.minimised(ledger, earlier.id).items()}
    codemods, dropped = [], []
    for digest in winner.candidate.patches:
        patch = patches[digest]
        if reason := merged.get(less.get(digest, digest)) or _behind(patch):
            dropped.append(f"{patch.name} ({reason})")
        else:
            codemods.append(patch.author.removeprefix(AUTHOR))
    base = ledger.attempt(earlier.baseline or winner.id)
    flags, env = _changes(base.candidate, winner.candidate)
    return Carried(
        attempt=winner.id,
        gain=_gain(base, winner),
        flags=flags,
        env=env,
        codemods=tuple(codemods),
        dropped=tuple(dropped),
    )


def _behind(patch: Patch) -> str:
    if patch.author.startswith(AUTHOR):
        return ""
    return f"made for another text: bring it again with --patch, as `day0 patch show {patch.short}` has it"


def _changes(base: Candidate, winner: Candidate) -> tuple[dict[str, object], dict[str, object]]:
    """Flags and variables in which the winner differs from its baseline; None: it has it not."""
    return tuple(  # type: ignore[return-value]
        {key: new.get(key) for key in sorted({*old, *new}) if old.get(key) != new.get(key)}
        for old, new in ((base.flags, winner.flags), (base.env, winner.env))
    )


def _gain(base: Attempt, winner: Attempt) -> float:
    for _, _, knee in winner.knees:
        before = base.knee(knee.workload)
        if before is not None and before.rate_rps > 0:
            return min(max(knee.rate_rps / before.rate_rps - 1, 0.0), 10.0)
    return UNKNOWN_GAIN


__all__ = ["WATCHED", "carried"]
