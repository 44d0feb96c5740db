"""What is asked of patches before anything boots with them: a compiler for ROCm, and their own test."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from day0.agent.inputs import ClimbInputs
from day0.agent.lease import Facts
from day0.agent.parts import Environments
from day0.runs.candidate import Candidate
from day0.runs.errors import CandidateFailed
from day0.runs.facts import ArtifactKept, FailureClass, Progress
from day0.runs.patches import Patch
from day0.sandboxes.base import Node
from day0.sandboxes.spec import SandboxSpec

if TYPE_CHECKING:
    from day0.tools.hip_check import Texts
    from day0.tools.patch import Source


def over(base: Source, patches: Sequence[Patch]) -> Source:
    """The source as it is with the patches applied. Raises `CandidateFailed`."""
    if not patches:
        return base
    from day0.tools.patch import Over, applied

    return Over(base, applied(patches, base))


def kernels(source: Source, patches: Sequence[Patch]) -> Texts | None:
    """What patches change of HIP's headers and kernels; None: nothing. Raises `CandidateFailed`."""
    from day0.tools.hip_check import texts_of

    return texts_of(source, over(source, patches), {path for patch in patches for path in patch.after})


def compiled(node: Node, at: Environments, texts: Texts, key: str) -> Facts:
    """Patched kernels, compiled before any GPU time. Raises `CandidateFailed` where a compiler would refuse them."""
    from day0.tools.hip_check import Checked, check

    simulated = Checked(outcome="not checked", why="this node is simulated")
    told = check(node, at.checker, texts, key) if at.overlays else simulated
    if told.outcome == "fails":
        raise CandidateFailed(FailureClass.BAD_PATCH, f"the patched kernel does not compile for ROCm: {told.why}")
    names = ", ".join(path.rpartition("/")[2] for path in texts.changed)
    yield Progress(text=f"clang-tidy: {names} {told.outcome}: {told.why}", step=5)


def tested(  # noqa: PLR0917 - a test is told by all of these
    node: Node, test: str, candidate: Candidate, inputs: ClimbInputs, patches: Sequence[Patch], key: str
) -> Facts:
    """The diff's own test, with the patches and without. Raises `CandidateFailed` where it fails with them."""
    from day0.tools import patch_test
    from day0.tools.wear import tailored

    base = inputs.environments.folder(candidate.build)
    spec, logs = SandboxSpec(role="job", environment=base, attempt=key), list[ArtifactKept]()
    tables = inputs.tables_of(candidate)

    def keep(name: str, data: bytes) -> None:
        logs.append(ArtifactKept(name=name, data=data))

    made = tailored(node, spec, patches, tables, candidate.env, keep)
    yield from logs
    after = patch_test.run(node, made.image, test, key)
    if not after.passed:
        raise CandidateFailed(FailureClass.BAD_PATCH, f"the patch's own test fails: {after.said}")
    before = patch_test.run(node, base, test, key)
    yield Progress(
        text=f"the patch's own test passes; without the patch it {'passes too' if before.passed else 'fails'}", step=5
    )


__all__ = ["compiled", "kernels", "over", "tested"]
