"""`day0 replay FILE`: a recipe measured again in this process, from the file alone."""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import closing
from functools import partial
from pathlib import Path

from day0.agent import compose, consenting
from day0.agent import settings as settings_
from day0.agent.inputs import ClimbInputs
from day0.agent.live import words
from day0.agent.looking import say, say_json, table
from day0.agent.nodes import Ended, NodePool, Work
from day0.agent.overhead import Meter
from day0.agent.parts import Environments
from day0.agent.replay import Replayed
from day0.agent.replay import replay as measure
from day0.agent.settings import Settings
from day0.agent.signals import as_interrupt
from day0.agent.surveying import look
from day0.runs.documents import load, names, target
from day0.runs.errors import Infrastructure, Refused, UserError
from day0.runs.facts import Fact, FigureChecked, Surveyed, Verdict
from day0.runs.recipe import Recipe
from day0.runs.schema import RunRequest
from day0.runs.values import FrozenMap
from day0.tools.engines.base import Engine


def replay(file: Path, model: Path | None, *, as_json: bool) -> int:
    """0 when every figure is within its range, 1 when one is not or the server fails."""
    recipe, settings = load(file, "recipe", Recipe), settings_.load()
    at = compose.environments_of(recipe.target, settings)
    if recipe.engine.build not in {at.engine_build, *at.images}:
        raise UserError(
            f"{file} needs the engine build {recipe.engine.build[:19]} ({recipe.engine.name} {recipe.engine.version}); "
            f"installed is {at.engine_build[:19]}: another build is another result"
        )
    at = at.on(recipe.engine.build)
    if recipe.target.kind == "twin" and model is None:
        from day0.agent import twin

        model = twin.model(settings, twin.world_of(recipe.target))
    folder = model_folder(recipe, model, settings)
    owner = f"replay-{os.getpid()}"
    pool = compose.pool(settings, Meter(), recipe.target, owner)
    try:
        with as_interrupt():
            facts = _measure(pool, recipe, folder, at, settings)
    except KeyboardInterrupt:
        raise Infrastructure("stopped; nothing is left running, and the same command begins anew") from None
    finally:
        pool.close()
        shutil.rmtree(settings.home / "twin" / owner, ignore_errors=True)
    figures = [f for f in facts if isinstance(f, FigureChecked)]
    verdict = next((f for f in facts if isinstance(f, Verdict)), None)
    ok = verdict is not None and verdict.passed
    if as_json:
        say_json(
            {
                "recipe": str(file),
                "ok": ok,
                "reason": "" if verdict is None else (verdict.detail if ok else verdict.evidence),
                "figures": [f.model_dump(mode="json", exclude={"kind"}) for f in figures],
            }
        )
        return 0 if ok else 1
    rows = [(f.name, f.unit, f.low, f"{f.measured:.6g}", f.high, "ok" if f.within else "OUTSIDE") for f in figures]
    simulated = " (simulated)" if recipe.target.kind == "twin" else ""
    table(f"replay of {file}{simulated}", ("figure", "unit", "low", "measured", "high", ""), rows)
    say("the recipe replays" if ok else f"the recipe does not replay: {verdict.evidence if verdict else 'no verdict'}")
    return 0 if ok else 1


def model_folder(recipe: Recipe, given: Path | None, settings: Settings) -> Path:
    """Where the recipe's model lies here, verified to be its revision. Raises `UserError`."""
    from day0.tools.hub import path_of, resolve
    from day0.tools.revision import file_hashes

    own = path_of(recipe.model.id).is_dir()
    if given is None and not own and recipe.model.id.startswith("/"):
        raise UserError(f"the recipe's model folder {recipe.model.id} is not on this machine: name yours with --model")
    named = str(given) if given else recipe.model.id if own else f"{recipe.model.id}@{recipe.model.revision}"
    kinds = recipe.model.consents
    if kinds:
        if recipe.target.kind != "docker":
            raise UserError("this recipe runs code of its checkpoint, which containers without network alone may do")
        with closing(compose.ledger(settings)) as ledger:
            consenting.standing(ledger, recipe.model.id, recipe.model.revision, kinds)
    folder = resolve(named, settings.home, consented=lambda _: consenting.PICKLE in kinds)
    found = file_hashes(folder, settings.home)
    wrong = sorted(name for name, digest in recipe.model.files.items() if found.get(name) != digest)
    if wrong:
        raise UserError(f"{folder} is not the recipe's model: {wrong[0]} differs ({len(wrong)} files in all)")
    return folder


def _measure(pool: NodePool, recipe: Recipe, folder: Path, at: Environments, settings: Settings) -> list[Fact]:
    engine = compose.engine(recipe.engine.name, frozenset(recipe.model.consents))
    request = RunRequest(
        model=recipe.model.id, revision=recipe.model.revision, target=recipe.target, workloads=(recipe.workload,)
    )
    with closing(compose.ledger(settings)) as ledger:
        known = ledger.facts_engine(at.engine_build)
    seen = _run(
        pool, Work("survey", 0, partial(look, folder=folder, request=request, engine=engine, at=at, known=known))
    )
    surveyed = next(f for f in seen if isinstance(f, Surveyed))
    admit(recipe, engine, surveyed)
    inputs = ClimbInputs(
        target=recipe.target,
        workloads=(recipe.workload,),
        engine=engine,
        engine_facts=surveyed.engine,
        model_facts=surveyed.model,
        model_folder=str(folder),
        environments=at,
        seed=recipe.provenance.seed,
        noise=0.0,
    )
    name = Replayed("replay", 0, 1)
    return _run(pool, Work("replay", 0, partial(measure, recipe=recipe, inputs=inputs, name=name)))


def admit(recipe: Recipe, engine: Engine, seen: Surveyed) -> None:
    """Raises `UserError` for what no candidate may set: a recipe may come from anyone, its target included."""
    ours = {pair for name in names("target") for pair in target(name).base_env.items()}
    candidate = recipe.candidate()
    own = FrozenMap((k, v) for k, v in candidate.env.items() if (k, v) not in ours)
    try:
        engine.check(candidate.model_copy(update={"env": own}), seen.engine, seen.model)
    except Refused as refused:
        raise UserError(f"this recipe is not launched: {refused}") from None


def _run(pool: NodePool, work: Work) -> list[Fact]:
    """All facts of a work, shown as they come. Raises what it raised."""
    pool.start(work)
    facts: list[Fact] = []
    while True:
        told = pool.next(1.0)
        if isinstance(told, Ended):
            if told.error is not None:
                raise told.error
            return facts
        if told is not None:
            facts.append(told.fact)
            if text := words(told.fact):
                sys.stderr.write(text + "\n")
