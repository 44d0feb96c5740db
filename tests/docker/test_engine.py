"""The real SGLang for this processor in a container: its environment on the host, shown read-only, is the engine."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from day0.agent.settings import load
from day0.runs.engine_facts import BootFacts
from day0.sandboxes.base import Process
from day0.sandboxes.docker import DockerNode
from day0.sandboxes.docker_images import interpreters
from day0.sandboxes.spec import SandboxSpec
from day0.tools import evals
from day0.tools.environments import engines_folder, evals_of, find
from day0.tools.evaluating import evaluate

from tests.contract.node_worlds.contained import BASE, engine
from tests.contract.test_node_contract import until
from tests.engine.commands import ASKS

BOOT_S = 240.0


@pytest.fixture
def home() -> Path:
    home = load().home
    if find(home) is None or not (home / "models/tiny-llama/config.json").is_file():
        pytest.skip(f"no engine or no tiny model in {home}: make engine")
    return home


@dataclass
class Asked:
    """What an eval needs of a server."""

    port: int
    facts: BootFacts
    process: Process
    attention_s: float = 10.0

    def alive(self) -> None:
        assert self.process.poll() is None, self.process.output(0, 1 << 20)[-2000:]


def judged(node: DockerNode, server: Asked, environment: str, task: evals.Eval) -> evals.Scores:
    """By an eval in a container beside the server's, in its network."""
    began = time.monotonic()
    spec = SandboxSpec("harness", environment, "r1.1")
    found = evaluate(node, spec, server, task, concurrency=4, max_tokens=8)  # type: ignore[arg-type]
    print(f"{task.name}: {found.share:.0%} of {len(found.rows)} in {time.monotonic() - began:.1f} s")
    return found


@pytest.mark.timeout(400)
def test_s62_s34_the_real_engine_serves_without_any_network_evals_reach_it_and_nothing_is_left(home, tmp_path):
    """Its sums are asked from outside through the relay, by a command of the user's and by lm-eval where that is."""
    found = find(home)
    assert found is not None
    folder, model, mine = found.engine, str(home / "models/tiny-llama"), tmp_path / "mine"
    mine.mkdir()
    (mine / "asks.py").write_text(ASKS)
    node = DockerNode(
        "docker", tmp_path, engine=engine(), base=BASE, cancel=lambda: False,
        allowed=(engines_folder(home), home / "models", mine, *map(Path, interpreters(Path(folder)))),
    )  # fmt: skip
    env = {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    spec = SandboxSpec("server", folder, "r1.1", mounts=((model, model),), caches=("jit",), env=env)
    with node.open(spec) as sandbox:
        port = sandbox.free_port()
        process = sandbox.spawn(
            ["python", "-m", "sglang.launch_server", "--model-path", model, "--device", "cpu", "--attention-backend",
             "torch_native", "--sampling-backend", "pytorch", "--host", "127.0.0.1", "--port", str(port),
             "--mem-fraction-static", "0.1", "--max-total-tokens", "4096"]
        )  # fmt: skip

        def ready() -> bool:
            assert process.poll() is None, process.output(0, 1 << 20)[-2000:]
            try:
                return http.get("/health_generate", timeout=20).status_code == 200
            except httpx.TransportError:
                return False

        http = sandbox.http(port)
        until(node, ready, BOOT_S)
        lines = (Path(model) / "day0-task.jsonl").read_text().splitlines()[:12]
        for sum_ in map(json.loads, lines[:5]):
            asked = {"model": "x", "prompt": sum_["prompt"], "max_tokens": 4, "temperature": 0}
            said = http.post("/v1/completions", json=asked, timeout=60).json()["choices"][0]["text"]
            assert said.strip() == sum_["answer"]
        vitals = process.vitals()
        assert vitals.children is not None and vitals.children >= 3, "schedulers that rename themselves are seen"
        (mine / "sums.jsonl").write_text(
            "\n".join([*lines[:9], *(json.dumps(json.loads(n) | {"answer": "no"}) for n in lines[9:])])
        )
        server = Asked(port, BootFacts(ready_s=1.0, version="", model_path=model), process)
        (command,) = evals.asked(
            [], [f"mine=python {mine / 'asks.py'} {{base_url}} {{model}} {{out}} {mine / 'sums.jsonl'}"], None
        )
        asked = judged(node, server, found.harness, command)
        assert [row.right for row in asked.rows] == [True] * 9 + [False] * 3
        if lm_eval := evals_of(home):
            (task,) = evals.asked([f"sums={mine / 'sums.jsonl'}"], [], None)
            told = judged(node, server, lm_eval, task)
            assert len(told.rows) == 12 and sum(row.right for row in told.rows) == 9
        assert process.stop(15).code in {0, 128 + 15, 128 + 9}
        assert process.vitals().children == 0
    for left in ("shown", "sandboxes", "wardens"):
        assert list((tmp_path / "docker" / left).iterdir()) == []
    node.close()
