import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# a busy machine is no failure: examples have no deadline of their own
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")

Day0 = Callable[..., tuple[int, str, str]]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith("DAY0_")]:
        monkeypatch.delenv(name)
    place = tmp_path / "home"
    monkeypatch.setenv("DAY0_HOME", str(place))
    monkeypatch.chdir(tmp_path)
    return place


@pytest.fixture
def day0(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Day0:
    """The command line in this process: (exit code, stdout, stderr)."""
    from day0.agent.cli import main

    def call(*argv: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["day0", *argv])
        try:
            main()
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else (0 if ended.code is None else 1)
        else:
            code = 0
        out = capsys.readouterr()
        return code, out.out, out.err

    return call


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model folder that a survey accepts."""
    folder = tmp_path / "model"
    folder.mkdir()
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64,
        "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 128, "max_position_embeddings": 4096,
        "intermediate_size": 128, "torch_dtype": "bfloat16",
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    return folder
