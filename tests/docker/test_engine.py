"""The real SGLang for this processor in a container: its environment on the host, shown read-only, is the engine."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest
from day0.agent.settings import load
from day0.sandboxes.docker import DockerNode
from day0.sandboxes.docker_images import interpreters
from day0.sandboxes.spec import SandboxSpec
from day0.tools.environments import engines_folder, find

from tests.contract.node_worlds.contained import BASE, engine
from tests.contract.test_node_contract import until

BOOT_S = 240.0


@pytest.fixture
def home() -> Path:
    home = load().home
    if find(home) is None or not (home / "models/tiny-llama/config.json").is_file():
        pytest.skip(f"no engine or no tiny model in {home}: make engine")
    return home


@pytest.mark.timeout(400)
def test_s62_the_real_engine_serves_without_any_network_and_leaves_nothing(home, tmp_path):
    found = find(home)
    assert found is not None
    folder, model = found.engine, str(home / "models/tiny-llama")
    node = DockerNode(
        "docker", tmp_path, engine=engine(), base=BASE, cancel=lambda: False,
        allowed=(engines_folder(home), home / "models", *map(Path, interpreters(Path(folder)))),
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
        lines = (Path(model) / "day0-task.jsonl").read_text().splitlines()[:5]
        for sum_ in map(json.loads, lines):
            asked = {"model": "x", "prompt": sum_["prompt"], "max_tokens": 4, "temperature": 0}
            said = http.post("/v1/completions", json=asked, timeout=60).json()["choices"][0]["text"]
            assert said.strip() == sum_["answer"]
        vitals = process.vitals()
        assert vitals.children is not None and vitals.children >= 3, "schedulers that rename themselves are seen"
        assert process.stop(15).code in {0, 128 + 15, 128 + 9}
        assert process.vitals().children == 0
    for left in ("shown", "sandboxes", "wardens"):
        assert list((tmp_path / "docker" / left).iterdir()) == []
    node.close()
