"""kill -9 at every named joint of a run; resumed with and without its checkpoints it must end the same, to the byte."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from day0.agent.crashpoints import POINTS
from day0.runs.canonical import canonical
from day0.runs.ledger import Ledger

DRIVER = Path(__file__).with_name("scripted_run.py")


def make_model(folder: Path) -> Path:
    folder.mkdir(parents=True)
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "num_hidden_layers": 12, "hidden_size": 512,
        "num_attention_heads": 8, "num_key_value_heads": 8, "vocab_size": 128, "max_position_embeddings": 4096,
        "intermediate_size": 1024, "torch_dtype": "bfloat16",
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    sums = [{"prompt": f"{i}+{i + 3}=", "answer": str(2 * i + 3)} for i in range(40)]
    (folder / "day0-task.jsonl").write_text("".join(json.dumps(s) + "\n" for s in sums))
    return folder


def run(home: Path, model: Path, run_id: str = "", crash: str = "") -> subprocess.CompletedProcess[str]:
    env = {k: v for k, v in os.environ.items() if not k.startswith("DAY0_")}
    env |= {"DAY0_HOME": str(home)} | ({"DAY0_CRASH_AT": crash} if crash else {})
    argv = [sys.executable, str(DRIVER), str(home), str(model), *([run_id] if run_id else [])]
    return subprocess.run(argv, env=env, capture_output=True, text=True, timeout=120, check=False)


def result(home: Path) -> str:
    ledger = Ledger.open(f"sqlite:///{home / 'day0.sqlite'}")
    try:
        return canonical(ledger, ledger.runs()[0].id)
    finally:
        ledger.close()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("undisturbed")
    model = make_model(folder / "model")
    done = run(folder / "home", model)
    assert done.returncode == 0, done.stderr
    return model, result(folder / "home")


def test_the_undisturbed_run_finds_a_confirmed_winner_whose_recipe_replays(undisturbed: tuple[Path, str]) -> None:
    told = json.loads(undisturbed[1])
    assert told["run"]["status"] == "done"
    assert told["comparisons"][0]["better"]
    assert len(told["recipes"]) == 1
    assert len(told["attempts"]) == 2


@pytest.mark.parametrize("point", POINTS)
def test_s01_s08_killed_there_it_goes_on_and_ends_the_same(
    point: str, undisturbed: tuple[Path, str], tmp_path: Path
) -> None:
    model, expected = undisturbed
    home = tmp_path / "home"
    nth = "2" if point.startswith("verdict-") and point != "verdict-screen" else "1"
    dead = run(home, model, crash=f"{point}:{nth}")
    assert dead.returncode == -9, f"{point} was never reached: {dead.stderr[-2000:]}"
    run_id = dead.stdout.split()[0]
    bare = tmp_path / "bare"
    shutil.copytree(home, bare)
    for file in bare.glob("*.checkpoints*"):
        file.unlink()
    for place in (home, bare):
        again = run(place, model, run_id)
        assert again.returncode == 0, again.stderr[-3000:]
        assert result(place) == expected
        assert verdicts_are_unique(place)


def verdicts_are_unique(home: Path) -> bool:
    ledger = Ledger.open(f"sqlite:///{home / 'day0.sqlite'}")
    try:
        run_id = ledger.runs()[0].id
        seen = [(e.attempt, e.data["rung"]) for e in ledger.facts(run_id, "verdict")]
        pairs = [(e.attempt, e.data["pair"]["number"]) for e in ledger.facts(run_id, "pair")]
        return len(seen) == len(set(seen)) and len(pairs) == len(set(pairs))
    finally:
        ledger.close()
