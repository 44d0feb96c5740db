"""What a run starts from: pre-flight and clean-up of the node, the engine's own word, the model's files."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

from day0.agent.parts import Environments
from day0.runs.engine_facts import EngineFacts
from day0.runs.errors import Infrastructure, Refused
from day0.runs.facts import Fact, NodeChecked, Progress, Surveyed
from day0.runs.schema import RunRequest
from day0.sandboxes.base import Node
from day0.sandboxes.node import preflight
from day0.sandboxes.spec import SandboxSpec
from day0.tools import image
from day0.tools.engines.base import Engine
from day0.tools.survey import survey


def sweep(node: Node) -> Generator[Fact, None, None]:
    """Stops what dead owners left on the node. Raises `Infrastructure` when something would not die."""
    swept = node.sweep()
    if swept.stopped:
        yield Progress(text=f"stopped {len(swept.stopped)} processes of dead runs on {node.name}")
    if swept.failed:
        raise Infrastructure(f"on {node.name} these would not die: {', '.join(pid for pid, _ in swept.failed)}")


def fetch(node: Node, name: str) -> None:
    """The engine's image is on the node when this returns. Raises `Infrastructure`, also for one that doesn't exist."""
    try:
        image.ready(node, name)
    except Refused as refused:
        raise Infrastructure(f"{refused}: name one that exists, then `day0 resume`") from None


def look(
    node: Node, *, folder: Path, request: RunRequest, engine: Engine, at: Environments, known: EngineFacts | None
) -> Generator[Fact, None, None]:
    """Node facts, then `Surveyed`. `known` are the build's facts from an earlier run: then none are taken."""
    yield from sweep(node)
    yield NodeChecked(node=preflight(node))
    fetch(node, at.engine)
    if known is None:
        yield Progress(text=f"asking the engine {at.engine_build[:19]} for its flags")
        spec = SandboxSpec(role="job", environment=at.engine, attempt="survey", cores=request.target.server_cores)
        with node.open(spec) as sandbox:
            known = engine.take_facts(sandbox, at.engine_build)
    yield Surveyed(model=survey(folder, model=request.model, revision=request.revision), engine=known)
