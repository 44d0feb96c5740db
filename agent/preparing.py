"""Rung `prepare`: what a candidate is made of is on this node, and is what it was said to be (S03, S43)."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from day0.agent.inputs import ClimbInputs
from day0.runs.candidate import Candidate
from day0.runs.errors import CandidateFailed, Infrastructure
from day0.runs.facts import FailureClass
from day0.tools import untouched
from day0.tools.environments import MARKER, altered
from day0.tools.untouched import Stamp


def verify(inputs: ClimbInputs, candidate: Candidate) -> None:
    """Raises `Infrastructure` when the engine's or the harness' environment is another than expected.

    An altered checkpoint is no fault of the candidate either: the run was asked for another revision.
    """
    at = inputs.environments
    folders = ("engine", at.folder(candidate.build), candidate.build), ("harness", at.harness, at.harness_build)
    for what, folder, wanted in folders:
        found = at.digest(folder)
        if found != wanted:
            raise Infrastructure(
                f"the {what} environment {folder} changed: expected {wanted[:19]}, found {found[:19]}; "
                "run `day0 engine install` again or submit a new run"
            )
    if (candidate.patches or candidate.tables) and not at.patchable:
        raise CandidateFailed(FailureClass.BAD_PATCH, "this engine environment can't carry patches or tables")


def untampered(inputs: ClimbInputs) -> Mapping[str, Stamp]:
    """The load generator's files before a boot. Raises `Infrastructure` when one is not what was installed.

    Contents are read only where something was written since the installation: an earlier boot may have done it.
    """
    folder = inputs.environments.harness
    now = untouched.stamps(folder)
    if untouched.later(now, MARKER) and (wrong := _altered(folder, frozenset(now.items()))):
        raise Infrastructure(
            f"files of the load generator are not what was installed: {untouched.words(wrong)}; remove {folder} "
            "and run `day0 engine install` again"
        )
    return now


@functools.lru_cache(maxsize=4)
def _altered(folder: str, state: frozenset[tuple[str, Stamp]]) -> tuple[str, ...]:
    """As `altered`, read once for each `state` of the files: an environment that was moved is later than its marker."""
    assert state
    return altered(folder)


def unharmed(inputs: ClimbInputs, candidate: Candidate, before: Mapping[str, Stamp]) -> None:
    """After a boot was measured: its environments are still what they were (S37). Raises `Infrastructure`.

    `before` are the files of the load generator as they were when the boot began: what a candidate runs must not have
    touched what measures it.
    """
    verify(inputs, candidate)
    changed = untouched.touched(before, untouched.stamps(inputs.environments.harness))
    if changed:
        raise Infrastructure(
            f"files of the load generator changed while it measured, nothing of it counts: {untouched.words(changed)}"
        )
