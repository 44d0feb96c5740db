"""What experiments of earlier runs brought, for later runs on the same stack: expected beside measured."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median

from day0.runs.values import Frozen
from pydantic import Field

KIND = "gained"


class Gained(Frozen):
    """One finished experiment, over its parent. It says nothing of another engine build."""

    what: str = Field(description="what was changed, old and new values; of candidates, not of what somebody wrote")
    family: str = Field(description="class of architecture: what kind of experts and attention")
    accelerator: str
    workload: str
    build: str
    expected: float | None = Field(default=None, description="0.1 = 10 % more was expected")
    measured: float | None = Field(default=None, description="the same as measured; None: it did not work")
    failure: str = ""
    run: str
    attempt: str


class Taught(Frozen):
    """What several experiments with one change add up to."""

    what: str
    workload: str
    tried: int
    failed: int
    measured: float | None = Field(default=None, description="median gain of those that worked")
    expected: float | None = None
    failures: tuple[str, ...] = ()
    attempts: tuple[str, ...] = Field(description="where it comes from, the latest three")

    def told(self) -> str:
        """One line."""
        gain = f"{self.measured:+.1%} measured (median)" if self.measured is not None else "never worked"
        hoped = f", {self.expected:+.1%} expected" if self.expected is not None else ""
        broken = f", {self.failed} failed ({', '.join(self.failures)})" if self.failed else ""
        return f"{self.what}: {gain}{hoped} in {self.tried} tries{broken}, {self.workload}; {', '.join(self.attempts)}"


def taught(known: Iterable[Gained], *, family: str, accelerator: str, build: str, run: str) -> tuple[Taught, ...]:
    """What other runs on the same build, accelerator and class of architecture teach, what was tried most first."""
    groups: dict[tuple[str, str], list[Gained]] = {}
    for one in known:
        if (one.family, one.accelerator, one.build) == (family, accelerator, build) and one.run != run:
            groups.setdefault((one.what, one.workload), []).append(one)
    rows = [_sum(what, workload, some) for (what, workload), some in sorted(groups.items())]
    return tuple(sorted(rows, key=lambda r: (-r.tried, -abs(r.measured or 0.0), r.what, r.workload)))


def _sum(what: str, workload: str, some: list[Gained]) -> Taught:
    measured = [one.measured for one in some if one.measured is not None]
    expected = [one.expected for one in some if one.expected is not None]
    return Taught(
        what=what,
        workload=workload,
        tried=len(some),
        failed=sum(1 for one in some if one.measured is None),
        measured=round(median(measured), 4) if measured else None,
        expected=round(median(expected), 4) if expected else None,
        failures=tuple(sorted({one.failure for one in some if one.failure})),
        attempts=tuple(one.attempt for one in sorted(some, key=lambda o: (o.run, o.attempt))[-3:]),
    )
