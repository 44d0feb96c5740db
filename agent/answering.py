"""What comes of a proposed action before anything climbs: a candidate, why not, or the answer to a question.

Logs come from the ledger's artifacts, engine source from a `job` sandbox of the attempt's own image with its patches,
issues and pull requests from the engine's repository. All of it is text of others: data for whoever asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from day0.agent import story
from day0.agent.inputs import SERVER_LOG
from day0.agent.lease import Facts
from day0.agent.nodes import Work
from day0.agent.parts import Environments, Parts
from day0.agent.policy import guard, sweeps
from day0.agent.policy.actions import (
    Action,
    Finish,
    GrepSource,
    ReadLog,
    ReadSource,
    SearchUpstream,
    Sweep,
    TryCandidate,
)
from day0.agent.policy.base import RunView
from day0.runs.candidate import Candidate
from day0.runs.errors import Cancelled, Day0Error, Infrastructure, LostLease, Refused
from day0.runs.facts import ArtifactKept, Fact
from day0.runs.ledger_writer import Writer
from day0.runs.patches import Patch
from day0.sandboxes.base import Node
from day0.sandboxes.spec import SandboxSpec

SOURCE = "engine-source.txt"
"""artifact that carries what was read"""
BEGUN = "begun: the next experiments are its points"


def answer(parts: Parts, run_id: str, action: Action, seen: RunView) -> Candidate | Refused | str:
    """A candidate that may climb, why not, or the text of an answer. Raises `Cancelled`, `LostLease`."""
    check = partial(parts.engine.check, model=seen.model)
    match action:
        case TryCandidate():
            return guard.admit(action, seen, check=check)
        case Sweep():
            reason = sweeps.against(action, seen, check)
            return Refused(reason) if reason else BEGUN
        case ReadLog():
            return read_log(parts, action)
        case ReadSource() | GrepSource():
            return _source(parts, run_id, action, seen)
        case SearchUpstream():
            return parts.upstream(action.words)
        case Finish():
            return action.reason


def read_log(parts: Parts, action: ReadLog) -> str:
    """The end of an attempt's server log, cut to what was asked for; untrusted text."""
    attempt = next((a for a in parts.ledger.attempts(parts.pump.run) if a.id == action.attempt), None)
    stored = None if attempt is None else story.artifact(parts.ledger, attempt.id, SERVER_LOG)
    if stored is None:
        return f"no log of {action.attempt} is kept"
    return excerpt(parts.artifacts.get(stored), action)


def excerpt(log: bytes, action: ReadLog) -> str:
    """The lines of a log that were asked for."""
    lines = log.decode(errors="replace").splitlines()
    return "\n".join([line[:400] for line in lines if action.grep in line][-action.lines :])


def look_up(
    node: Node,
    *,
    action: ReadSource | GrepSource,
    candidate: Candidate,
    patches: Mapping[str, Patch],
    at: Environments,
    key: str,
) -> Facts:
    """What was asked of the engine's source, as an artifact. Raises `Refused`, `CandidateFailed`, `Infrastructure`."""
    from day0.agent.craft_checks import over
    from day0.tools import source_text
    from day0.tools.patch import source_of

    if not at.patchable:
        raise Refused("the engine's sources are shared here: this target can neither show nor patch them")
    with node.open(SandboxSpec(role="job", environment=at.folder(candidate.build), attempt=key)) as sandbox:
        source = over(source_of(sandbox), [patches[d] for d in candidate.patches if d in patches])
        if isinstance(action, ReadSource):
            text = source_text.shown(source, action.path, action.first, action.lines)
        else:
            text = source_text.found(source, action.text, action.files)
    yield ArtifactKept(name=SOURCE, data=text.encode())


def _source(parts: Parts, run_id: str, action: ReadSource | GrepSource, seen: RunView) -> Refused | str:
    attempt = seen.attempt(action.attempt)
    if attempt is None:
        return Refused(f"there is no attempt {action.attempt!r}")
    kept: list[str] = []

    def keep(_: Writer, fact: Fact) -> None:
        if isinstance(fact, ArtifactKept):
            kept.append(fact.stored)

    make = partial(
        look_up, action=action, candidate=attempt.candidate, patches=seen.patches, at=parts.environments,
        key=f"{run_id}-look",
    )  # fmt: skip
    parts.pump.start(Work(run_id, 0, make))
    ended = parts.pump.until_ended(also=keep)
    with parts.ledger.write(run_id) as writer:
        writer.spend(ended.node_s)
    if isinstance(ended.error, Cancelled | LostLease) or not isinstance(ended.error, Day0Error | None):
        raise ended.error
    if isinstance(ended.error, Infrastructure):
        return f"it can't be read now: {ended.error}"
    if ended.error is not None:
        return Refused(str(ended.error))
    return parts.artifacts.get(kept[-1]).decode()
