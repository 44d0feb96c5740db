"""From the names of a world, a policy and a seed to a score. What a worker process runs."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from day0.agent import twin
from day0.agent.evaluation.arena import Arena
from day0.agent.evaluation.confirming import Winner, winner
from day0.agent.evaluation.drawn import drawn
from day0.agent.evaluation.scoring import SOLVED, Judge, Score
from day0.agent.policy import decide
from day0.agent.policy.base import Policy
from day0.agent.settings import Settings
from day0.runs import documents
from day0.runs.candidate import Candidate
from day0.runs.errors import Day0Error, UserError
from day0.runs.patches import Patch, Table
from day0.runs.schema import AttemptStatus, RunRequest
from day0.runs.values import Frozen
from day0.runs.workload import MeasureRules, Workload
from day0.sandboxes.twin.oracle import Rating
from day0.sandboxes.twin.world import World, world
from day0.tools.engines.sglang import Sglang
from pydantic import Field

TARGET = "mi355x-twin"
POLICIES = ("playbook", "tpe", "random", "default", "llm")
SCRIPTED = "scripted"
"""`scripted:NAME` is a shipped scripted LLM; `@PROMPT` behind it or behind `llm` another version of the prompt"""
SAMPLED = "sample:"
CONTROL_HOURS = 10_000.0
"""Controls are limited by their number of attempts alone."""


class Job(Frozen):
    """One policy on one world with one seed. `world` is a shipped name, a file, or `sample:SEED`."""

    world: str
    policy: str
    seed: int = 0
    hours: float = Field(default=24.0, gt=0, description="budget of a run; controls are not limited by it")
    most: int = Field(default=100, ge=1, description="candidates beyond the baseline")
    rules: MeasureRules | None = Field(default=None, description="in place of the target's")
    price: bool = Field(default=False, description="only what 95 % of the oracle costs: ends there, confirms nothing")

    @property
    def control(self) -> bool:
        """Whether the policy goes on until its attempts are used up."""
        return self.policy in {"tpe", "random"}

    @property
    def led(self) -> bool:
        """Whether an LLM leads, a real one or a shipped scripted one."""
        return self.policy.partition("@")[0].partition(":")[0] in {"llm", SCRIPTED}


def world_of(job: Job, home: Path | None = None) -> World:
    """The world that a job names; drawn ones are kept under `home`. Raises `UserError`."""
    if job.world.startswith(SAMPLED):
        return drawn(int(job.world.removeprefix(SAMPLED)), home)
    return world(job.world)


def workload_of(found: World) -> Workload:
    """What the world's own story is told under, else the target's workload. Raises `UserError`."""
    target = documents.target(TARGET)
    told = [s.workload for s in found.story if s.figure == "output_tok_s"] or [s.workload for s in found.story]
    return documents.workload(told[0] if told else target.workload)


def request_of(job: Job, found: World) -> RunRequest:
    """The request of a run. Raises `UserError`."""
    target = documents.target(TARGET)
    rules = job.rules or target.measure
    pinned = {"measure": rules, "world": found.name, "world_digest": found.digest()}
    target = twin.on_all(target, found).model_copy(update=pinned)
    return RunRequest(
        model=found.model.id,
        revision=found.model.digest(),
        target=target,
        workloads=(workload_of(found),),
        policy="llm" if job.led else job.policy,
        seed=job.seed,
        budget_hours=CONTROL_HOURS if job.control else job.hours,
        max_attempts=job.most,
    )


def policy_of(job: Job, settings: Settings) -> Policy:
    """The policy by its name. Raises `UserError` for an unknown one and for what is not installed or configured."""
    from day0.agent.policy.controls import Default, Random
    from day0.agent.policy.playbook import Playbook
    from day0.agent.policy.tpe import Tpe

    check = Sglang().check
    match job.policy:
        case "playbook":
            return Playbook(check=check)
        case "tpe":
            return Tpe(job.seed, check=check)
        case "random":
            return Random(job.seed, check=check)
        case "default":
            return Default()
    if job.led:
        kind, _, name = job.policy.partition("@")[0].partition(":")
        prompt = prompt_of(job.policy)
        return _scripted(name, prompt) if kind == SCRIPTED else _llm(settings, prompt)
    raise UserError(f"policy `{job.policy}` is unknown: choose of {', '.join(POLICIES)}")


def _llm(settings: Settings, prompt: str) -> Policy:
    if not (settings.llm_base_url and settings.llm_model):
        raise UserError("policy `llm` needs DAY0_LLM_BASE_URL and DAY0_LLM_MODEL")
    from day0.agent.leading import llm_policy

    return llm_policy(settings, Sglang().check, prompt=prompt)


def _scripted(name: str, prompt: str) -> Policy:
    """A shipped scripted LLM by its name."""
    from day0.agent import prompts, scripted_llm
    from day0.agent.policy.llm_policy import LLMPolicy

    if name not in scripted_llm.SHIPPED:
        raise UserError(f"scripted LLM `{name}` is unknown: choose of {', '.join(scripted_llm.SHIPPED)}")
    llm = scripted_llm.SHIPPED[name]()
    return LLMPolicy(llm, prompts.load(prompt), version=prompt, check=Sglang().check)


def prompt_of(policy: str) -> str:
    """The prompt that a policy's name asks for, such as `llm@plan.v2`; default: the newest. Raises `UserError`."""
    from day0.agent import prompts

    name = policy.partition("@")[2] or prompts.PLAN
    try:
        prompts.load(name)
    except (FileNotFoundError, ValueError):
        raise UserError(f"prompt `{name[:60]}` is not shipped; there are {', '.join(prompts.names())}") from None
    return name


def play(job: Job, settings: Settings) -> Score:
    """Plays a job. Raises `UserError`; what happens inside the world ends in the score."""
    found = world_of(job, settings.home)
    request = request_of(job, found)
    judge = Judge(found, request.workloads[0], settings.home / "oracles")
    policy = policy_of(job, settings)
    patience = request.max_attempts + 1 if job.control else decide.PATIENCE
    with tempfile.TemporaryDirectory(prefix="day0-eval-") as folder:
        arena = Arena(found, request, Path(folder), patience)
        ended, won, search_s = "", Winner(None, "the search did not end"), 0.0
        try:
            arena.survey()
            ended = arena.search(policy, partial(_reached, arena, judge) if job.price else lambda: False)
            search_s = arena.node_s
            won = Winner(None, "only its price was asked for") if job.price else winner(arena)
        except UserError:
            raise
        except Day0Error as error:
            ended = f"{ended}; " * bool(ended) + f"{type(error).__name__}: {error}"
        return score(job, arena, judge, won, ended=ended, search_s=search_s or arena.node_s)


def _rated(arena: Arena, judge: Judge, candidate: Candidate) -> Rating:
    patches: tuple[Patch, ...] = tuple(arena.book.patches[d] for d in candidate.patches)
    tables: tuple[Table, ...] = tuple(arena.book.tables[d] for d in candidate.tables)
    return judge.rate(candidate, patches, tables)


def _reached(arena: Arena, judge: Judge) -> bool:
    """Whether the leader is worth 95 % of the oracle's best."""
    lead = arena.book.leader
    return lead is not None and judge.share(_rated(arena, judge, arena.book.attempt(lead).candidate)) >= SOLVED


def score(job: Job, arena: Arena, judge: Judge, won: Winner, *, ended: str, search_s: float) -> Score:
    """What came of a played job."""
    book, found = arena.book, arena.world
    baseline = book.attempts()[0].candidate if book.attempts() else None

    def rated(candidate: Candidate) -> tuple[float, str]:
        rating = _rated(arena, judge, candidate)
        return judge.share(rating), rating.why

    def changes(candidate: Candidate) -> dict[str, Any]:
        return {} if baseline is None else {k: now for k, (_, now) in candidate.changed(baseline).items()}

    share, why = rated(won.attempt.candidate) if won.attempt is not None else (0.0, "")
    trail = [(at, book.attempt(lead).candidate) for at, lead in arena.trail]
    told = tuple((at / 3600, rated(lead)[0], _words(changes(lead))) for at, lead in trail)
    refused = sum(1 for answer in book.answers if answer.refused)
    climbed = [a for a in book.attempts() if a.id != book.baseline and a.status != AttemptStatus.QUEUED]
    return Score(
        world=found.name,
        policy=job.policy,
        seed=job.seed,
        workload=arena.request.workloads[0].name,
        solved=share >= SOLVED,
        share=share,
        broken=won.attempt is not None and share <= 0,
        why_broken=why if won.attempt is not None and share <= 0 else "",
        winner=changes(won.attempt.candidate) if won.attempt is not None else {},
        ended=ended,
        confirmed=won.reason,
        attempts=len(climbed),
        refused=refused,
        hours=arena.node_s / 3600,
        search_hours=search_s / 3600,
        budget_hours=search_s / 3600 if job.control else job.hours,
        hours_to_95=next((at for at, part, _ in told if part >= SOLVED), None),
        tokens=arena.usage.prompt_tokens + arena.usage.completion_tokens,
        usd=arena.usage.usd,
        best=judge.best,
        flags_solve=judge.flags_solve(),
        trail=told,
    )


def _words(changes: dict[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in sorted(changes.items()))
