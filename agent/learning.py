"""What an attempt's end teaches about failures that no known issue covers. Pure: attempts in, lessons out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from day0.runs.candidate import Candidate
from day0.runs.engine_facts import EngineFacts
from day0.runs.facts import FailureClass, Rung, Verdict
from day0.runs.learned import Learned
from day0.runs.schema import Attempt
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
