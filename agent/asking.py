"""From what a user typed to a run's request. Every mistake is one sentence (`UserError`)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from day0.agent import consenting, limits
from day0.agent.policy.actions import TryCandidate
from day0.agent.policy.brought import OPTION
from day0.agent.settings import Settings
from day0.runs.engine_facts import ModelFacts
from day0.runs.errors import Refused, UserError
from day0.runs.ledger import utc_now
from day0.runs.schema import RunRequest
from day0.runs.workload import Target, Workload
from day0.tools import patch_rules
from pydantic import ValidationError

if TYPE_CHECKING:
    from day0.agent.finding import Found

POLICIES = ("auto", "playbook", "llm", "tpe", "random", "default")
FASTEST_TTFT_MS = 0.5
"""one network round trip inside a machine and one forward pass of nothing: no server answers sooner"""
FASTEST_TPOT_MS = 0.05
"""20,000 tokens/s in a single stream: several times the fastest published decode of any size"""


@dataclass(frozen=True)
class Asked:
    """The command line of `day0 run`; None and () = not given."""

    model: str
    target: str | None = None
    workloads: tuple[str, ...] = ()
    budget_hours: float | None = None
    seed: int = 0
    policy: str | None = None
    max_attempts: int | None = None
    world: str | None = None
    deadline: str | None = None
    engine_source: str = ""
    evals: tuple[str, ...] = ()
    """`NAME=FILE`: full evals of the winner"""
    commands: tuple[str, ...] = ()
    """`NAME=COMMAND`: those that a program of the user's runs"""
    margin_points: float | None = None
    patches: tuple[str, ...] = ()
    """files of unified diffs to engine source, to be measured first"""


def request(asked: Asked, settings: Settings) -> RunRequest:
    """The request, with model, target and workloads resolved. Raises `UserError`."""
    from day0.agent import finding
    from day0.runs import documents

    hours = settings.budget_hours if asked.budget_hours is None else asked.budget_hours
    limits.check(hours, asked.max_attempts)
    policy = asked.policy or settings.policy
    if policy not in POLICIES:
        raise UserError(f"policy `{policy}` is unknown: choose one of {', '.join(POLICIES)}")
    if policy == "llm" and not (settings.llm_base_url and settings.llm_model):
        raise UserError("policy `llm` needs DAY0_LLM_BASE_URL and DAY0_LLM_MODEL; without an LLM use --policy playbook")
    target = documents.target(asked.target or settings.target)
    if target.kind == "docker":
        from day0.agent import contained

        contained.ready(target, settings)  # before a model is looked for: the node is what most machines lack
    if asked.world is not None and target.kind != "twin":
        raise UserError(f"--world names a simulated node, and target `{target.name}` is none: use `mi355x-twin`")
    if asked.engine_source and target.kind != "twin":
        raise UserError(
            f"--engine-source is for simulated nodes: on `{target.name}` the engine's own source lies beside it already"
        )
    if asked.patches and target.kind == "local":
        raise UserError(
            f"--patch: on `{target.name}` all candidates share the engine's sources; a target of kind `docker` "
            "(`cpu-docker`) or a simulated node can carry patches"
        )
    workloads = tuple(documents.workload(name) for name in asked.workloads or (target.workload,))
    if len({w.name for w in workloads}) != len(workloads):
        raise UserError("two workloads have the same name: each needs its own, recipes are named after them")
    for workload in workloads:
        check_slo(workload)
    if target.kind == "twin":
        found = finding.simulated(
            asked.model, target, workloads[0], settings, world=asked.world, engine_source=asked.engine_source
        )
    else:
        found = finding.local(asked.model, target, settings)
    for workload in workloads:
        asked_for = workload.context_tokens
        if asked_for > found.facts.context:
            raise UserError(
                f"workload `{workload.name}` needs {asked_for} tokens of context, the model has {found.facts.context}"
            )
    check_target(found.target, found.facts)
    return RunRequest(
        model=found.model,
        revision=found.revision,
        target=found.target,
        options=_options(asked, found, settings),
        engine_source=asked.engine_source,
        workloads=workloads,
        policy=policy,
        seed=asked.seed,
        budget_hours=hours,
        deadline_s=limits.seconds_until(asked.deadline, utc_now()),
        max_attempts=asked.max_attempts or target.max_attempts or 200,
    )


def _options(asked: Asked, found: Found, settings: Settings) -> dict[str, Any]:
    """What the request carries beside its main fields. Raises `UserError`."""
    from day0.agent import vendors

    target = found.target
    options: dict[str, Any] = {"asked_for": asked.model, "because": list(found.why)} if found.why else {}
    if found.consents:
        options[consenting.OPTION] = list(found.consents)
    if settings.reference_base_url is not None and target.kind != "twin":
        options[vendors.OPTION] = vendors.named(settings, asked.model)
    if asked.patches:
        options[OPTION] = _brought(asked.patches)
    if asked.evals or asked.commands:
        options["evals"] = _evals(asked, target, settings)
    return options


def _brought(files: tuple[str, ...]) -> list[dict[str, str]]:
    """Diffs by the names of their files, each with its own test. Raises `UserError`: not there, no diff that may be."""
    out: dict[str, dict[str, str]] = {}
    for file in files:
        place = Path(file).expanduser()
        test = place.with_suffix(".test.py")
        name = re.sub(r"[^a-z0-9.-]+", "-", place.stem.lower()).strip("-.")[:64]
        if not name or name in out:
            raise UserError(f"--patch {file}: each diff needs a file name of its own")
        try:
            text = place.read_text(encoding="utf-8")
            patch_rules.read(text)
            checks = test.read_text(encoding="utf-8") if test.is_file() else ""
            out[name] = {"name": name, "diff": text, "test": checks}
            TryCandidate(parent="", diff=text, test=checks, hypothesis=name, expected_gain=0.0)
        except ValidationError as error:
            raise UserError(f"--patch {file}: {'.'.join(map(str, error.errors()[0]['loc']))} is too long") from None
        except (OSError, ValueError) as error:
            raise UserError(f"--patch {file}: {error}") from None
        except Refused as refused:
            raise UserError(f"--patch {file}: {refused.reason}") from None
    return list(out.values())


def _evals(asked: Asked, target: Target, settings: Settings) -> list[dict[str, Any]]:
    """The evals, pinned. Raises `UserError`, also where what runs them is not here."""
    from day0.agent import contained
    from day0.tools import evals
    from day0.tools.environments import evals_of
    from day0.tools.evaluating import own_environment, places

    made = evals.asked(asked.evals, asked.commands, asked.margin_points)
    asks = all(e.kind == "command" for e in made)  # a command asks the server by itself
    if target.kind != "twin" and not asks and not evals_of(settings.home):
        raise UserError("full evals need lm-eval in an environment of its own: run `day0 engine install evals` first")
    for task in made if target.kind == "docker" else ():
        for path in filter(None, (own_environment(task), *places(task))):
            try:
                contained.show(settings, path)
            except UserError as error:
                raise UserError(f"eval `{task.name}`: {error}") from None
    return [e.model_dump(mode="json") for e in made]


def check_target(target: Target, model: ModelFacts) -> None:
    """Raises `UserError` for a target that sets what no configuration may: a file is no consent."""
    from day0.agent import compose

    try:
        compose.engine(target.engine).check_target(target, model)
    except Refused as refused:
        raise UserError(f"target `{target.name}`: {refused}") from None


def check_slo(workload: Workload) -> None:
    """Raises `UserError` for limits that no server can meet: they would only burn the budget."""
    slo = workload.slo
    if slo.ttft_ms is not None and slo.ttft_ms < FASTEST_TTFT_MS:
        raise UserError(
            f"workload `{workload.name}`: a TTFT of {slo.ttft_ms:g} ms is impossible (below {FASTEST_TTFT_MS} ms); "
            "the unit is milliseconds"
        )
    if slo.tpot_ms is not None and slo.tpot_ms < FASTEST_TPOT_MS:
        raise UserError(
            f"workload `{workload.name}`: a TPOT of {slo.tpot_ms:g} ms is impossible (below {FASTEST_TPOT_MS} ms); "
            "the unit is milliseconds"
        )
