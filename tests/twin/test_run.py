"""A whole run on the simulated node: submitted, climbed, confirmed, replayed, by the same code as anywhere."""

from __future__ import annotations

from functools import partial

from day0.agent import twin
from day0.agent.controller import Controller
from day0.agent.settings import load
from day0.runs.documents import target
from day0.runs.ledger import Ledger
from day0.runs.queue import ControllerLock
from day0.runs.recipe import parse
from day0.runs.schema import RunRequest, RunStatus
from day0.runs.workload import MeasureRules, Slo, Workload
from day0.sandboxes.twin.world import world
from day0.tools.revision import revision_of

RULES = MeasureRules(point_s=40.0, min_requests=60, p95_multiples=0.0, max_points=3, max_pairs=2, stability_s=30.0)
WORKLOAD = Workload(
    name="short",
    input_tokens=4000,
    output_tokens=120,
    prefixes=4,
    cached_share=0.5,
    slo=Slo(ttft_ms=3000.0, tpot_ms=30.0),
)


def test_a_whole_run_ends_with_a_replayed_recipe_of_a_better_candidate(tmp_path, monkeypatch):
    for name in ("DAY0_HOME", "DAY0_DATABASE_URL", "DAY0_LLM_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    found, settings = world("glm-5.2").mended(), load(home=tmp_path)
    monkeypatch.chdir(tmp_path)  # named by a relative path, the run's seeds do not depend on where this test runs
    model = twin.model(settings, found).relative_to(tmp_path)
    aim = target("mi355x-twin").model_copy(update={"measure": RULES, "base_flags": {"tp-size": 8}})
    request = RunRequest(
        model=str(model), revision=revision_of(model, tmp_path), target=aim, workloads=(WORKLOAD,), policy="playbook",
        max_attempts=1,
    )  # fmt: skip
    ledger = Ledger.open(settings.database)
    lock = ControllerLock(settings.database)
    assert lock.acquire(1.0)
    try:
        run = ledger.submit(request).run
        make_pool, make_parts = partial(twin.pool, world=found), partial(twin.parts, world=found)
        done = Controller(settings, ledger, lock, lambda *_: None, make_pool, make_parts).work(run.id)
        assert done.status == RunStatus.DONE and done.incumbent != done.baseline
        (recipe,) = ledger.recipes(run.id)
        assert "speculative-algorithm" in recipe.text
        held = parse(recipe.text).stability
        assert held is not None and held.memory_growth_bytes == 0 and held.power_w_median == 1150.0
        assert all(a.diagnoses("short") for a in ledger.attempts(run.id) if a.knees)
    finally:
        lock.release()
        ledger.close()
