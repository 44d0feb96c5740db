"""These tests need a daemon that they may fill (`scripts/dockerd run COMMAND`); else they say why not."""

from __future__ import annotations

import pytest
from day0.sandboxes.docker import DockerNode

from tests.contract.node_worlds.contained import SOCKET, WHY, DockerWorld, engine


def pytest_collection_modifyitems(items):
    if not SOCKET:
        for item in items:
            if "tests/docker/" in str(item.path):
                item.add_marker(pytest.mark.skip(reason=WHY))


@pytest.fixture
def world(tmp_path):
    world = DockerWorld(tmp_path / "home")
    yield world
    left = world.living()
    world.close()
    assert left == 0, "a test left processes behind"


@pytest.fixture
def node(world) -> DockerNode:
    return world.node


@pytest.fixture
def daemon():
    found = engine()
    yield found
    found.close()
