"""The real engine under $DAY0_HOME (`day0 engine install cpu`) and the tiny model, made there once (about 40 s)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from day0.runs.engine_facts import EngineFacts
from day0.sandboxes.local import LocalNode
from day0.sandboxes.spec import SandboxSpec
from day0.tools.engines.sglang import Sglang
from day0.tools.environments import EngineHome, find
from day0.tools.install import tiny_model

HOME = Path(os.environ.get("DAY0_HOME", "/nonexistent"))


@pytest.fixture(scope="session")
def engines() -> EngineHome:
    found = find(HOME)
    if found is None:
        pytest.skip(f"no engine under DAY0_HOME={HOME}: run `day0 engine install cpu`")
    return found


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> LocalNode:
    return LocalNode("test", tmp_path_factory.mktemp("nodes"), cancel=lambda: False)


@pytest.fixture(scope="session")
def model(node: LocalNode, engines: EngineHome) -> Path:
    """The one that `make engine` makes."""
    return tiny_model(node, engines, HOME / "models" / "tiny-llama", progress=lambda text: None)


@pytest.fixture(scope="session")
def facts(node: LocalNode, engines: EngineHome) -> EngineFacts:
    """What the build tells of itself: two imports of it, so all tests share the answer."""
    with node.open(SandboxSpec(role="job", environment=engines.engine, attempt="facts")) as sandbox:
        return Sglang().take_facts(sandbox, engines.build)
