"""The only place that picks implementations, and where every kind of telemetry is switched off."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from day0.agent import consenting, leading, vendors
from day0.agent.nodes import LocalPool, NodePool
from day0.agent.overhead import Meter, metered
from day0.agent.parts import Desk, Environments, Parts
from day0.agent.policy.base import Policy
from day0.agent.policy.brought import Brought, diffs
from day0.agent.pump import HEARTBEAT_S, Pump
from day0.agent.settings import Settings
from day0.runs.artifacts import Artifacts
from day0.runs.errors import UserError
from day0.runs.facts import Progress
from day0.runs.ledger import Ledger
from day0.runs.schema import Run
from day0.runs.workload import Target
from day0.sandboxes.base import Node
from day0.sandboxes.spec import CancelToken
from day0.tools.engines.base import Engine
from day0.tools.hip_check import Checker

if TYPE_CHECKING:
    from day0.tools.forge.base import Forge
    from day0.tools.publish_git import Place

QUIET = {
    "LANGSMITH_TRACING": "false",
    "LANGSMITH_TRACING_V2": "false",
    "LANGCHAIN_TRACING_V2": "false",
    "LANGGRAPH_STRICT_MSGPACK": "true",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
}
"""forced before any library that would look: a user's own setting does not turn tracing of a run back on"""


def quiet() -> None:
    """Telemetry off, strict checkpoints on, and no forge's token, for this process and what it starts."""
    os.environ.update(QUIET)
    os.environ.pop("DAY0_FORGE_TOKEN", None)  # `day0 publish` alone takes it, before it comes here


quiet()


def ledger(settings: Settings) -> Ledger:
    """The ledger, migrated. Raises `UserError`."""
    return Ledger.open(settings.database)


def artifacts(settings: Settings) -> Artifacts:
    """The artifact store."""
    return Artifacts(settings.home / "artifacts")


def engine(name: str, consents: frozenset[str] = frozenset()) -> Engine:
    """The adapter of an engine; `consents` count for the revision that it serves. Raises `UserError`."""
    from day0.tools.engines import ENGINES

    if name not in ENGINES:
        raise UserError(f"engine `{name}` is unknown: this day0 knows {', '.join(sorted(ENGINES))}")
    return ENGINES[name](consents)


def installed(settings: Settings, name: str = "") -> Environments:
    """What `day0 engine install cpu` made, or an engine that `day0 engine use` named. Raises `UserError`."""
    from day0.tools.environments import checks_of, environment_digest, evals_of, find
    from day0.tools.own_engine import own

    found = own(settings.home, name) if name else find(settings.home)
    if found is None:
        raise UserError("no engine is installed for this machine: run `day0 engine install cpu` first")
    return Environments(
        engine=found.engine,
        engine_build=found.build,
        harness=found.harness,
        harness_build=found.harness_build,
        digest=environment_digest,
        evals=evals_of(settings.home),
        checker=Checker.at(*checks_of(settings.home)),
    )


def environments_of(target: Target, settings: Settings) -> Environments:
    """The environments that serve and measure on a target. Raises `UserError`."""
    if target.kind == "twin":
        from day0.agent import twin

        return twin.environments(twin.world_of(target))
    if target.kind == "docker":
        from day0.agent import contained

        return contained.environments(target, settings)
    return installed(settings, target.environment)


def ready(target: Target, settings: Settings) -> None:
    """Raises `UserError` where a run on this target could not even begin here."""
    if target.kind == "local":
        installed(settings, target.environment)


def local_node(settings: Settings, cancel: CancelToken, env_allow: tuple[str, ...] = ()) -> Node:
    """This machine as a node. Raises `UserError` where day0's home can't be a folder."""
    from day0.sandboxes.local import LocalNode

    try:
        settings.home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"{settings.home} can't be made ({error.strerror}): set DAY0_HOME to a folder of yours"
        ) from None
    return LocalNode("local", settings.home / "nodes", cancel=cancel, env_allow=env_allow)


def pool(settings: Settings, meter: Meter, target: Target, owner: str) -> NodePool:
    """The nodes of a target: this machine's own, or simulated ones, which belong to `owner` (a run) alone.

    Raises `Infrastructure` when another process has them, `UserError` for a world that is not here.
    """
    if target.kind == "twin":
        from day0.agent import twin

        return twin.pool(settings, meter, target, owner)
    if target.kind == "docker":
        from day0.agent import contained

        return contained.pool(settings, meter, target)

    def make(cancel: CancelToken) -> Node:
        return metered(local_node(settings, cancel), meter)

    return LocalPool({"local": make})


def policy(
    run: Run,
    settings: Settings,
    adapter: Engine,
    batch: int,
    keep: Callable[[dict[str, Any]], None],
    *,
    earlier: Iterable[Mapping[str, Any]] = (),
) -> tuple[Policy, str]:
    """The policy that was asked for, and why another one decides (empty: the asked one does).

    `earlier` are the LLM calls that this run made in other processes: its caps hold over all of them.
    """
    from day0.agent.policy.controls import Default, Random
    from day0.agent.policy.playbook import Playbook

    name, check = run.request.policy, adapter.check
    if name == "default":
        return Default(), ""
    if name == "random":
        return Random(run.request.seed, batch=batch, check=check), ""
    if name == "tpe":
        from day0.agent.policy.tpe import Tpe

        return Tpe(run.request.seed, batch=batch, check=check), ""
    if name == "playbook":
        return Playbook(batch=batch, check=check), ""
    if settings.llm_base_url and settings.llm_model:
        return leading.llm_policy(settings, check, batch=batch, keep=keep, earlier=earlier), ""
    return Playbook(batch=batch, check=check), "no LLM is configured (DAY0_LLM_BASE_URL): the playbook decides"


@contextmanager
def forge(to: str, fork: str, base: str, *, api: str, token: str) -> Iterator[tuple[Forge, Place]]:
    """The forge that `to` names (a bare repository on this machine, or owner/name), and where git finds it.

    Raises `UserError`.
    """
    from day0.sandboxes.clock import WallClock
    from day0.tools.forge import files, github
    from day0.tools.forge.pace import Pace
    from day0.tools.publish_git import Place

    pace = Pace(WallClock(lambda: False))
    folder = Path(to.removeprefix("file://")).expanduser()
    if (folder / "HEAD").is_file() and (folder / "objects").is_dir():
        if fork:
            raise UserError("a bare repository on this machine takes no fork")
        url = folder.absolute().as_uri()
        yield files.FileForge(folder.absolute(), pace), Place(url, base, url)
        return
    host = r"https://github\.com/" if api == github.API else r"https?://[^/]+/"
    name = re.sub(rf"\A{host}|\.git\Z|/\Z", "", to)
    if not github.NAME.match(name):
        raise UserError(f"{to[:80]!r} is neither a bare repository on this machine nor a repository as owner/name")
    if not token:
        raise UserError("a forge needs a token that may push and open pull requests: set DAY0_FORGE_TOKEN for this one")
    with github.Api(pace, token=token, api=api) as client:
        urls = [github.clone_url(each, api=api) for each in (name, fork or name)]
        yield github.GitHub(client, name, fork=fork), Place(urls[0], base, urls[1], token)


def parts(run: Run, nodes: NodePool, desk: Desk) -> Parts:
    """Everything one run works with, by the kind of its target. Raises `UserError` when engine or model aren't here."""
    if run.request.target.kind == "twin":
        from day0.agent import twin

        return twin.parts(run, nodes, desk)
    return parts_at(run, nodes, desk, environments_of(run.request.target, desk.settings))


def opening(chosen: Policy, run: Run, ledger: Ledger, at: Environments) -> Policy:
    """The policy, after what a run begins with: an earlier base's winner, and before it what somebody brought."""
    from day0.agent import carrying
    from day0.agent.policy.carried import Carrying

    over = carrying.carried(ledger, run, at)
    chosen = Carrying(chosen, over) if over is not None and not over.empty else chosen
    return Brought(chosen) if diffs(run.request) else chosen


def model_folder(run: Run, settings: Settings, progress: Callable[[str], None] = lambda _: None) -> Path:
    """The run's checkpoint on this machine; a hub model's weights are fetched now.

    Raises `UserError` when it isn't here or changed, `DiskFull`.
    """
    from day0.tools.hub import resolve
    from day0.tools.revision import revision_of

    pinned = "" if Path(run.request.model).is_dir() else f"@{run.request.revision}"
    allowed = consenting.of(run.request)
    folder = resolve(
        run.request.model + pinned, settings.home, progress=progress, consented=lambda _: consenting.PICKLE in allowed
    )
    if not pinned and revision_of(folder, settings.home) != run.request.revision:
        raise UserError(f"{folder} changed since run {run.id} was submitted: submit it again")
    return folder


def parts_at(
    run: Run,
    nodes: NodePool,
    desk: Desk,
    at: Environments,
    *,
    folder: Path | None = None,
    heartbeat_s: float = HEARTBEAT_S,
) -> Parts:
    """The same in given environments, with a given model folder. Raises `UserError`."""
    settings = desk.settings
    allowed = consenting.of(run.request)
    consenting.standing(desk.ledger, run.request.model, run.request.revision, allowed)
    adapter = engine(run.request.target.engine, allowed)
    calls: list[dict[str, Any]] = []

    def fetching(text: str) -> None:
        desk.listener(run.id, run.id, Progress(text=text))

    chosen, why = policy(run, settings, adapter, nodes.count(), calls.append, earlier=desk.ledger.llm_calls(run.id))
    chosen = opening(chosen, run, desk.ledger, at)
    store = artifacts(settings)
    return Parts(
        ledger=desk.ledger,
        artifacts=store,
        pool=nodes,
        pump=Pump(run.id, desk.ledger, nodes, store, desk.lock, desk.listener, heartbeat_s),
        policy=chosen,
        engine=adapter,
        environments=at,
        model_folder=folder or model_folder(run, settings, fetching),
        home=settings.home,
        node=nodes.free()[0],
        meter=desk.meter,
        stand_in=why,
        vendor=vendors.of(run, settings),
        calls=calls,
        upstream=partial(leading.search_upstream, settings, run.request.target.engine),
    )
