"""The noise floor in whole runs with the scripted engine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from day0.agent import floor, scripted
from day0.agent.controller import Controller
from day0.agent.settings import load
from day0.agent.story import floors
from day0.runs.documents import target, workload
from day0.runs.facts import Rung
from day0.runs.ledger import Ledger
from day0.runs.queue import ControllerLock
from day0.runs.schema import RunRequest, RunStatus
from day0.tools.revision import revision_of

CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64,
    "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 128, "max_position_embeddings": 4096,
    "intermediate_size": 128, "torch_dtype": "bfloat16",
}  # fmt: skip


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("DAY0_DATABASE_URL", "DAY0_LLM_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DAY0_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG))
    return folder


@pytest.fixture
def run_of(home, model):
    """Runs with the scripted engine, one after the other, in one home."""

    def run(seed: int, boots: int) -> tuple[Ledger, str]:
        settings = load()
        ledger = Ledger.open(settings.database)
        aim = target("cpu-quick")
        aim = aim.model_copy(update={"measure": aim.measure.model_copy(update={"floor_boots": boots})})
        request = RunRequest(
            model=str(model), revision=revision_of(model, home), target=aim, workloads=(workload("cpu-chat"),),
            policy="default", seed=seed,
        )  # fmt: skip
        lock = ControllerLock(settings.database)
        assert lock.acquire(1.0)
        try:
            made = ledger.submit(request, again=True).run
            done = Controller(settings, ledger, lock, lambda *_: None, scripted.pool, scripted.parts).work(made.id)
            assert done.status == RunStatus.DONE, done.reason
        finally:
            lock.release()
        return ledger, made.id

    return run


def test_the_baseline_is_booted_again_before_the_search(run_of):
    ledger, run = run_of(0, 2)
    base = ledger.attempt(str(ledger.run(run).baseline))
    again = [boot for boot, rung, _ in base.knees if rung == Rung.REPEAT]
    assert again == [2, 3] and 0 < base.beside_s < base.node_s
    (found,) = floors(ledger, run)
    assert len(found.rates_rps) == 3 and found.node == "scripted-0" and not found.why_none
    ledger.close()


def test_a_later_run_on_the_node_takes_it_over_while_it_is_fresh(run_of):
    run_of(0, 2)[0].close()
    ledger, run = run_of(0, 2)
    (found,) = floors(ledger, run)
    base = ledger.attempt(str(ledger.run(run).baseline))
    assert found.reused and found.run != run and Rung.REPEAT not in {rung for _, rung, _ in base.knees}
    ledger.close()


def test_where_the_target_asks_for_none_the_prior_is_used_and_said(run_of):
    ledger, run = run_of(0, 0)
    (found,) = floors(ledger, run)
    assert found.why_none == floor.NOT_ASKED and not found.rates_rps
    base = ledger.attempt(str(ledger.run(run).baseline))
    assert Rung.REPEAT not in {rung for _, rung, _ in base.knees} and base.beside_s == 0.0
    ledger.close()
