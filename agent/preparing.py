"""Rung `prepare`: what a candidate is made of is on this node, and is what it was said to be (S03, S43)."""

from __future__ import annotations

from day0.agent.inputs import ClimbInputs
from day0.runs.candidate import Candidate
from day0.runs.errors import CandidateFailed, Infrastructure
from day0.runs.facts import FailureClass


def verify(inputs: ClimbInputs, candidate: Candidate) -> None:
    """Raises `Infrastructure` when the engine's or the harness' environment is another than expected.

    An altered checkpoint is no fault of the candidate either: the run was asked for another revision.
    """
    at = inputs.environments
    for what, folder, wanted in (("engine", at.engine, candidate.build), ("harness", at.harness, at.harness_build)):
        found = at.digest(folder)
        if found != wanted:
            raise Infrastructure(
                f"the {what} environment {folder} changed: expected {wanted[:19]}, found {found[:19]}; "
                "run `day0 engine install` again or submit a new run"
            )
    if candidate.patches or candidate.tables:
        raise CandidateFailed(FailureClass.BAD_ARGUMENT, "this engine environment can't carry patches or tables")
