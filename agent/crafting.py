"""What must be made before a candidate exists: patches by codemod or from a diff, tables of tuned kernels.

Made on a node, in a `job` sandbox of the candidate's own image; nothing of it is run by day0 itself. What is made is
recorded whole, so that a candidate, a recipe and a review mean the same bytes.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from day0.agent import craft_checks, crashpoints, story
from day0.agent.gathering import climb_inputs, current_view, note_admission
from day0.agent.inputs import SERVER_LOG, ClimbInputs
from day0.agent.lease import Facts
from day0.agent.nodes import Ended, Work
from day0.agent.parts import Parts
from day0.agent.policy import guard
from day0.agent.policy.actions import TryCandidate
from day0.agent.policy.base import Answer
from day0.agent.policy.brought import PERSON, name_of
from day0.agent.policy.carried import CARRIED
from day0.agent.steps import MOST_INTERRUPTIONS, tell
from day0.runs.candidate import Candidate
from day0.runs.errors import CandidateFailed, Infrastructure, Refused
from day0.runs.facts import Fact, PatchMade, Progress, TableMade
from day0.runs.ledger_writer import Writer
from day0.runs.patches import Patch, Table
from day0.runs.schema import Attempt
from day0.sandboxes.base import Node
from day0.sandboxes.spec import SandboxSpec

if TYPE_CHECKING:
    from day0.tools.patch import Source

TUNE_CAP_S = 3 * 3600.0
"""node seconds after which a tuner is stopped: what it has written by then is validated and used"""


@dataclass(frozen=True)
class Order:
    """What to make: the action, the candidate as far as it is known, and what the parent's boot told."""

    key: str
    action: TryCandidate
    candidate: Candidate
    issue: str = ""
    evidence: str = ""
    brought: str = ""
    """name of the action's diff where a person brought it to the run"""
    log: bytes = b""
    """the parent's server log where it ran the same layout; empty: shapes come from the model's facts"""


def craft(node: Node, *, order: Order, inputs: ClimbInputs, key: str) -> Facts:
    """`PatchMade` and `TableMade` for everything that the action asks for.

    Raises `Refused` (nothing to repair, a diff that may not be), `CandidateFailed` (`bad_patch`), `Infrastructure`.
    """
    at = inputs.environments
    if not at.patchable:
        raise Refused("the engine's sources are shared here: this environment can't carry patches or tables")
    caches = inputs.engine.caches
    mounts = ((inputs.model_folder, inputs.model_folder),)
    spec = SandboxSpec(
        role="job", environment=at.folder(order.candidate.build), attempt=key, caches=caches, mounts=mounts
    )
    with node.open(spec) as sandbox:
        from day0.tools.patch import source_of

        source = source_of(sandbox)
        patches = yield from _patches(order, inputs, source)
        kernels = craft_checks.kernels(source, patches) if _brings(order) else None
        if order.action.tune:
            from day0.tools import tune

            told = tune.untuned(order.log) if order.log else tune.untuned_of(inputs.model_facts, order.candidate.flags)
            yield Progress(text=f"tuning the kernels that {order.action.parent} runs untuned")
            build = order.candidate.build
            table = yield from tune.tune(sandbox, told, build=build, clock=node.clock, timeout_s=TUNE_CAP_S)
            yield TableMade(table=table)
    if kernels is not None:
        yield from craft_checks.compiled(node, at, kernels, key)
    if order.action.test and not at.overlays:
        yield Progress(text="the patch's own test is not run: this node's engine is simulated")
    elif order.action.test:
        yield from craft_checks.tested(node, order.action.test, order.candidate, inputs, patches, key)


def _brings(order: Order) -> bool:
    """Whether patches are made here."""
    return bool(order.action.codemods or order.action.diff)


def _patches(order: Order, inputs: ClimbInputs, base: Source) -> Generator[Fact, None, list[Patch]]:
    """Each codemod sees the source as the patches before it leave it."""
    from day0.tools import patch

    done = list(inputs.patches_of(order.candidate))
    config = _config(inputs.model_folder)
    build = order.candidate.build
    for name in order.action.codemods:
        try:
            made = patch.made(
                name, craft_checks.over(base, done), build=build, config=config, why=order.evidence, issue=order.issue
            )
        except Refused as refused:
            if order.action.axis != CARRIED:
                raise
            yield Progress(text=f"{name} of the earlier base is dropped: {refused.reason}", step=5)
            continue
        done.append(made)
        yield PatchMade(patch=made)
    if order.action.diff:
        title = order.action.hypothesis.splitlines()[0][:120]
        name = order.brought or f"proposed-{order.key.replace(':', '-')}"
        made = patch.from_diff(
            order.action.diff, craft_checks.over(base, done), build=build, name=name, title=title, why=order.evidence,
            author=PERSON if order.brought else "llm",
        )  # fmt: skip
        done.append(made)
        yield PatchMade(patch=made)
    if _brings(order):
        patch.applied(done, base)  # all of them together, on the source as the image has it
    return done


def _config(folder: str) -> dict[str, object]:
    import json

    try:
        found = json.loads((Path(folder) / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def with_made(candidate: Candidate, made: Sequence[Patch | Table]) -> Candidate:
    """The candidate with what was made: patches after its own, a table in place of an earlier one."""
    patches = tuple(m.digest() for m in made if isinstance(m, Patch))
    tables = tuple(m.digest() for m in made if isinstance(m, Table))
    return candidate.model_copy(
        update={"patches": (*candidate.patches, *patches), "tables": tables or candidate.tables}
    )


def wanted(action: TryCandidate) -> str:
    """What an action asks for, in words."""
    things = [f"the repair {name}" for name in action.codemods]
    things += ["a diff"] * bool(action.diff) + ["tuned kernels"] * action.tune
    return " and ".join(things)


def craft_some(parts: Parts, run_id: str) -> None:
    """Makes what admitted actions ask for, and queues their candidates."""
    for key, action in story.open_crafts(parts.ledger, run_id):
        _craft(parts, run_id, key, action)
        crashpoints.reached("crafted")


def _craft(parts: Parts, run_id: str, key: str, action: TryCandidate) -> None:
    run = parts.ledger.run(run_id)
    seen = current_view(parts, run)
    parent = seen.attempt(action.parent)
    candidate = guard.admit(action, seen, check=partial(parts.engine.check, model=seen.model))
    if parent is None or isinstance(candidate, Refused):
        _close(parts, run_id, key, action, refused=str(candidate))
        return
    order = ordered(parts, key, action, parent, candidate)
    inputs = climb_inputs(parts, run, parent)
    made: list[Patch | Table] = []
    for number in range(1, MOST_INTERRUPTIONS + 1):
        made.clear()
        tell(parts, run_id, 5, f"making {wanted(action)} for {action.parent.rpartition('-')[2]}")
        parts.pump.start(Work(run_id, 0, partial(craft, order=order, inputs=inputs, key=f"{run_id}-craft")))
        ended = parts.pump.until_ended(also=partial(note_made, made=made))
        with parts.ledger.write(run_id) as writer:
            writer.spend(ended.node_s)
        if not _again(parts, run_id, ended, number):
            break
    if ended.error is not None:
        _close(parts, run_id, key, action, refused=_reason(ended.error))
        return
    _close(parts, run_id, key, action, candidate=with_made(candidate, made), made=made)


def _again(parts: Parts, run_id: str, ended: Ended, number: int) -> bool:
    """Whether a craft is tried once more. Raises what is neither the candidate's fault nor worth a try."""
    if ended.error is None or isinstance(ended.error, Refused | CandidateFailed):
        return False
    if not isinstance(ended.error, Infrastructure) or number == MOST_INTERRUPTIONS:
        raise ended.error
    with parts.ledger.write(run_id) as writer:
        writer.event("infrastructure", {"error": str(ended.error)})
    return True


def _reason(error: BaseException) -> str:
    return f"{error.failure}: {error.evidence}" if isinstance(error, CandidateFailed) else str(error)


def ordered(parts: Parts, key: str, action: TryCandidate, parent: Attempt, candidate: Candidate) -> Order:
    """With what the parent's boots say about what is to be mended: failed rung's evidence, log of the same layout."""
    failed = next((v for v in parent.verdicts if not v.passed), None)
    same = parent.candidate.flags == candidate.flags and parent.candidate.build == candidate.build
    stored = story.artifact(parts.ledger, parent.id, SERVER_LOG) if same else None
    return Order(
        key,
        action,
        candidate,
        issue=failed.issue if failed else "",
        evidence=failed.evidence if failed else "",
        brought=name_of(action.diff, parts.ledger.run(parent.run).request) if action.diff else "",
        log=parts.artifacts.get(stored) if stored else b"",
    )


def note_made(writer: Writer, fact: Fact, *, made: list[Patch | Table]) -> None:
    """Records what was made, whole, in the transaction of its fact."""
    if isinstance(fact, PatchMade):
        made.append(fact.patch)
        writer.event("patch_made", fact, key=f"made:{fact.patch.digest()}")
    if isinstance(fact, TableMade):
        made.append(fact.table)
        writer.event("table_made", fact, key=f"made:{fact.table.digest()}")


def _close(
    parts: Parts,
    run_id: str,
    key: str,
    action: TryCandidate,
    *,
    candidate: Candidate | None = None,
    made: Sequence[Patch | Table] = (),
    refused: str = "",
) -> None:
    """Ends a craft: its candidate is queued, or the reason goes back to the policy."""
    run = parts.ledger.run(run_id)
    seen = current_view(parts, run)
    if twin := next((a for a in seen.attempts if a.candidate == candidate), None):
        candidate, refused = None, f"what it comes out as was tried as {twin.id}"
    with parts.ledger.write(run_id) as writer:
        if candidate is not None:
            attempt = writer.add_attempt(
                candidate=candidate,
                proposer=story.proposer(parts.ledger, run_id, key),
                parent=action.parent,
                action=action.axis,
                hypothesis=action.hypothesis,
                expected_gain=action.expected_gain,
            )
            note_admission(writer, attempt, seen)
            writer.event("crafted", {"craft": key, "made": [m.digest() for m in made]}, attempt=attempt.id)
        else:
            told = Answer(round=run.round, action=action, refused=True, text=refused)
            writer.add_answer(told, key=f"craft:{key}")
            writer.event("crafted", {"craft": key, "refused": refused})
    if refused:
        tell(parts, run_id, 5, f"refused: {refused}")
