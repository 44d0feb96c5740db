"""What a candidate brings beside flags, put on its server: files in its sandbox, or an image of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from day0.agent.inputs import ClimbInputs
from day0.runs.candidate import Candidate
from day0.runs.facts import ArtifactKept
from day0.runs.patches import Worn
from day0.sandboxes.base import Node, Sandbox
from day0.sandboxes.spec import SandboxSpec
from day0.tools.serve import Prepare

if TYPE_CHECKING:
    from day0.tools.wear import Tailored


@dataclass(frozen=True)
class Outfit:
    """The environment of a server's sandbox, what is done in it before the launch, and the overlay it is, if any."""

    environment: str
    prepare: Prepare | None = None
    made: Tailored | None = None

    def worn(self, sandbox: Sandbox) -> Worn | None:
        """What a server that answered is proved to run with. Raises `CandidateFailed`, `Infrastructure`."""
        if self.made is None:
            return None
        from day0.tools.wear import worn

        return worn(sandbox, self.made)


def prove(node: Node, inputs: ClimbInputs, candidate: Candidate, attempt: str, epoch: int) -> Iterator[ArtifactKept]:
    """Applies the patches in a sandbox of the image before anything boots, and builds the overlay where one is needed.

    Tells the logs of builds. Raises `CandidateFailed` (`bad_patch`), `DiskFull`, `Infrastructure`.
    """
    logs: list[ArtifactKept] = []
    at = inputs.environments
    if at.overlays:
        try:
            outfit(node, inputs, candidate, attempt, epoch, logs=logs)
        finally:
            yield from logs
    elif candidate.patches:
        from day0.tools.patch import applied, source_of

        spec = SandboxSpec(role="job", environment=at.folder(candidate.build), attempt=attempt, epoch=epoch)
        with node.open(spec) as sandbox:
            applied(inputs.patches_of(candidate), source_of(sandbox))


def outfit(
    node: Node,
    inputs: ClimbInputs,
    candidate: Candidate,
    attempt: str,
    epoch: int,
    *,
    logs: list[ArtifactKept] | None = None,
) -> Outfit:
    """What the candidate's server wears; `logs` takes those of a build. Raises as `prove`."""
    at = inputs.environments
    environment = at.folder(candidate.build)
    if not (candidate.patches or candidate.tables):
        return Outfit(environment)
    patches, tables = inputs.patches_of(candidate), inputs.tables_of(candidate)
    if at.overlays:
        from day0.tools.wear import fitting, tailored

        def keep(name: str, data: bytes) -> None:
            if logs is not None:
                logs.append(ArtifactKept(name=name, data=data))

        spec = SandboxSpec(role="job", environment=environment, attempt=attempt, epoch=epoch)
        made = tailored(node, spec, patches, tables, candidate.env, keep)
        return Outfit(made.image, fitting(made), made)

    def prepare(sandbox: Sandbox) -> Mapping[str, str]:
        from day0.tools.patch import dress

        return dress(sandbox, patches, tables, candidate.env)

    return Outfit(environment, prepare)
