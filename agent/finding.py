"""From a model as a user names it to a checkpoint that can be served on the target, and why that one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from day0.agent.consenting import Asking
from day0.agent.settings import Settings
from day0.runs.engine_facts import ModelFacts
from day0.runs.errors import UserError
from day0.runs.workload import Target, Workload


@dataclass(frozen=True)
class Found:
    """The checkpoint: its folder, its facts, what it is called in a run and in candidates, its revision."""

    model: str
    revision: str
    facts: ModelFacts
    target: Target
    why: tuple[str, ...] = ()
    consents: tuple[str, ...] = ()
    """what a person allowed for this revision and a run goes by"""


def local(model: str, target: Target, settings: Settings) -> Found:
    """A folder, or a hub model of which no weights are fetched yet. Raises `UserError`."""
    from day0.tools.hub import look
    from day0.tools.revision import revision_of
    from day0.tools.survey import survey

    asking = Asking(settings)
    folder = look(model, settings.home, consented=asking.pickle)
    facts = survey(folder)
    own = Path(model).expanduser().is_dir()  # else a hub model, whose folder is named by its commit
    name = str(folder) if own else model.partition("@")[0]
    revision = revision_of(folder, settings.home) if own else folder.name
    return Found(name, revision, facts, target, consents=asking.counting(folder, revision, target))


def simulated(
    model: str, target: Target, workload: Workload, settings: Settings, *, world: str | None, engine_source: str = ""
) -> Found:
    """The checkpoint of a simulated world: the one that ships for this model, or the named world's own.

    Among the checkpoints that the world's hub offers of this model the forecast must prefer the one it simulates.
    Raises `UserError` for a model that no world knows, or another one than the named world's.
    """
    from day0.agent import twin
    from day0.sandboxes.twin.world import for_model
    from day0.sandboxes.twin.world import world as read
    from day0.tools import choose
    from day0.tools.revision import revision_of
    from day0.tools.survey import survey

    name = world or target.world
    found = read(name) if name else for_model(model)
    if engine_source:
        twin.fetch_source(settings, engine_source)
        found = twin.on_source(found, engine_source)
    spec = found.model
    if model.partition("@")[0] not in {spec.id, spec.origin}:
        raise UserError(f"world {found.name} simulates {spec.id}, not {model}: leave --world out or name its model")
    folder = twin.model(settings, found)
    facts = survey(folder, model=spec.id)
    offered = [choose.Offered(id=spec.id, precision=spec.precision)]
    if model != spec.id:  # the user named the model, not one checkpoint of it
        offered += [choose.Offered(id=other.id, precision=other.precision) for other in found.checkpoints]
    promises = choose.checkpoints(offered, spec.geometry, target, workload)
    if promises[0].id != spec.id:
        raise UserError(
            f"the forecast prefers {promises[0].id} on {target.name}, and world {found.name} simulates {spec.id} only: "
            f"name {spec.id} to search with it"
        )
    why = tuple(choose.words(promises, target.engine, facts.architecture, workload))
    if engine_source:
        why += (f"engine source {engine_source}", *twin.outlook(found, engine_source))
    pinned = twin.chosen(target, found, name or found.name, engine_source)
    return Found(spec.id, revision_of(folder, settings.home), facts, pinned, why)
