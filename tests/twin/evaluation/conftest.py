"""A small world: two layouts, traffic of short answers, and rules that measure for seconds only."""

from __future__ import annotations

import os
from itertools import count
from pathlib import Path

import pytest
from day0.agent.evaluation.arena import Arena
from day0.agent.evaluation.playing import Job, request_of
from day0.agent.policy.actions import Finish, TryCandidate
from day0.agent.policy.base import Proposal, RunView
from day0.agent.settings import Settings, load
from day0.runs.workload import MeasureRules, Slo, Workload
from day0.sandboxes.twin.sample import render
from day0.sandboxes.twin.world import Choice, World, world

SHORT = MeasureRules(point_s=40.0, min_requests=80, p95_multiples=0.0, max_points=3, max_pairs=2, stability_s=20.0)
TRAFFIC = Workload(
    name="short",
    input_tokens=4000,
    output_tokens=120,
    prefixes=4,
    cached_share=0.5,
    slo=Slo(ttft_ms=3000.0, tpot_ms=30.0),
)


class Once:
    """One change to the baseline, then the end."""

    name = "playbook"

    def __init__(self, **change: object) -> None:
        self.change = change

    def decide(self, view: RunView) -> Proposal:
        """The change."""
        if view.round:
            return Proposal(proposer=self.name, actions=(Finish(reason="enough"),))
        action = TryCandidate(parent=view.baseline, hypothesis="faster", expected_gain=0.3, **self.change)
        return Proposal(proposer=self.name, actions=(action,))


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    for name in [name for name in os.environ if name.startswith("DAY0_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("DAY0_HOME", str(tmp_path / "home"))
    return load()


@pytest.fixture
def small() -> World:
    base = world("llama-3.1-70b-leftover")
    layouts = tuple(Choice(flags={"tp-size": tp, "dp-size": 8 // tp}) for tp in (8, 2))
    bare = {"name": "small", "space": (layouts,), "story": (), "node": type(base.node)(), "faults": ()}
    return base.model_copy(update=bare)


@pytest.fixture
def file(small: World, tmp_path: Path) -> Path:
    place = tmp_path / "worlds" / "small.yaml"
    place.parent.mkdir()
    place.write_text(render(small))
    return place


@pytest.fixture
def job(file: Path):
    def make(policy: str, **more: object) -> Job:
        return Job(world=str(file), policy=policy, rules=SHORT, most=2, **more)  # type: ignore[arg-type]

    return make


@pytest.fixture
def arena_of(job, tmp_path: Path):
    numbers = count()

    def make(found: World, policy: str = "default", most: int = 2) -> Arena:
        asked = request_of(job(policy), found).model_copy(update={"workloads": (TRAFFIC,), "max_attempts": most})
        return Arena(found, asked, tmp_path / f"arena-{next(numbers)}")

    return make
