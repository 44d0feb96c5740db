"""What an attempt's end teaches: failures that no known issue covers, and what its change brought. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from day0.agent.policy.decide import gain
from day0.runs.candidate import Candidate
from day0.runs.engine_facts import EngineFacts, ModelFacts
from day0.runs.facts import FailureClass, Rung, Verdict
from day0.runs.gained import Gained
from day0.runs.learned import Learned
from day0.runs.schema import Attempt, AttemptStatus, RunRequest
from day0.runs.workload import FlagValue
from day0.tools.learned import line_of, packages_of, signature_of

MOST_CHANGES = 3
"""A difference of more settings does not tell which of them it is."""
NOT_OF_A_BUILD = frozenset(
    {
        FailureClass.BELOW_SLO,
        FailureClass.NOT_PROMISING,
        FailureClass.NOT_BETTER,
        FailureClass.NOT_STABLE,
        FailureClass.NOT_REPRODUCIBLE,
        FailureClass.BAD_PATCH,
        FailureClass.IDENTITY,
        FailureClass.BAD_ARGUMENT,
    }
)


def lessons(attempt: Attempt, attempts: Sequence[Attempt], engine: EngineFacts) -> Iterator[Learned]:
    """A failure that only this attempt's few changes brought; or one of its parent that they mended."""
    parent = next((a for a in attempts if a.id == attempt.parent), None)
    if parent is None or attempt.candidate.build != engine.build or parent.candidate.build != engine.build:
        return
    mine, theirs = unexplained(attempt), unexplained(parent)
    if mine is not None and works(parent):
        yield from _lesson(mine, attempt, parent.candidate, attempt.candidate, engine, mended=False)
    if theirs is not None and works(attempt):
        yield from _lesson(theirs, attempt, attempt.candidate, parent.candidate, engine, mended=True)


ENDED = frozenset({AttemptStatus.KEPT, AttemptStatus.DISCARDED, AttemptStatus.FAILED})
WHAT_CHARS = 200


def family_of(model: ModelFacts) -> str:
    """The class of a model's architecture, as far as gains of settings carry over between models."""
    experts = "experts" if model.experts else "dense"
    shared = "heads share keys" if model.kv_heads < model.heads else "heads of their own"
    attention = "latent attention" if model.kv_lora_rank else shared
    return f"{experts}, {attention}"


def brought(
    attempt: Attempt, attempts: Sequence[Attempt], request: RunRequest, model: ModelFacts, gpus: int = 0
) -> Gained | None:
    """What a finished experiment brought over its parent; None: it says nothing of its change.

    Patches and tables are known by digests that mean nothing to another run: such changes are left out.
    """
    parent = next((a for a in attempts if a.id == attempt.parent), None)
    if parent is None or attempt.status not in ENDED or parent.candidate.build != attempt.candidate.build:
        return None
    changed = attempt.candidate.changed(parent.candidate)
    if not changed or {"patches", "tables"} & set(changed) or len(changed) > MOST_CHANGES:
        return None
    more = gain(attempt, parent, request, gpus)
    failed = next((v for v in attempt.verdicts if not v.passed), None)
    if more is None and attempt.status != AttemptStatus.FAILED:
        return None
    return Gained(
        what=", ".join(f"{key} {old} -> {new}" for key, (old, new) in changed.items())[:WHAT_CHARS],
        family=family_of(model),
        accelerator=request.target.accelerator,
        workload=request.workloads[0].name,
        build=attempt.candidate.build,
        expected=attempt.expected_gain,
        measured=None if more is None else round(more, 4),
        failure=str(failed.failure or "unknown") if more is None and failed is not None else "",
        run=attempt.run,
        attempt=attempt.id,
    )


def unexplained(attempt: Attempt) -> Verdict | None:
    """The verdict of a failure that no known issue covers."""
    failed = next((v for v in attempt.verdicts if not v.passed), None)
    if failed is None or failed.failure in NOT_OF_A_BUILD or failed.issue not in ("", "unknown"):
        return None
    return failed


def works(attempt: Attempt) -> bool:
    """Whether it gave right answers to real requests."""
    answered = attempt.verdict(Rung.ANSWER)
    return answered is not None and answered.passed


def _lesson(
    failed: Verdict, attempt: Attempt, good: Candidate, bad: Candidate, engine: EngineFacts, *, mended: bool
) -> Iterator[Learned]:
    """From bad to good, where few settings alone are between them and the line can be met again."""
    flags: dict[str, FlagValue | None] = {
        name: good.flags.get(name)
        for name in sorted({*good.flags, *bad.flags})
        if good.flags.get(name) != bad.flags.get(name)
    }
    env = {n: good.env.get(n) for n in sorted({*good.env, *bad.env}) if good.env.get(n) != bad.env.get(n)}
    alone = (good.patches, good.tables) == (bad.patches, bad.tables)
    line = line_of(failed.evidence)
    signature = signature_of(line) if line else ""
    if signature and alone and 0 < len(flags) + len(env) <= MOST_CHANGES:
        yield Learned(
            failure=(failed.failure or FailureClass.UNKNOWN).value,
            signature=signature,
            example=line,
            build=engine.build,
            packages=packages_of(engine),
            flags=flags,
            env=env,
            mended=mended,
            run=attempt.run,
            attempt=attempt.id,
        )
