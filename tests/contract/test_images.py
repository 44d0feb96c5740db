"""What the images of every node keep, real or simulated: names are resolved or refused, never invented."""

from __future__ import annotations

import contextlib

import pytest
from day0.runs.errors import Refused
from day0.sandboxes.images import Images
from day0.sandboxes.spec import SandboxSpec

from tests.contract.node_worlds.contained import DockerWorld, registry, with_docker
from tests.contract.node_worlds.played import PlayedWorld
from tests.contract.node_worlds.real import RealWorld
from tests.contract.node_worlds.twin import TwinWorld, without_amd_smi

WORLDS = [
    pytest.param(RealWorld, id="local"),
    pytest.param(PlayedWorld, id="scripted"),
    pytest.param(TwinWorld, id="twin"),
    pytest.param(DockerWorld, id="docker", marks=with_docker),
]


@pytest.fixture(params=WORLDS)
def world(request, tmp_path):
    with contextlib.ExitStack() as around:
        hub = (around.enter_context(registry(tmp_path)),) if request.param is DockerWorld else ()
        world = request.param(tmp_path / "home", *hub)
        yield world
        world.close()


@pytest.fixture
def images(world) -> Images:
    return world.node.images


@pytest.fixture
def name(world) -> str:
    return without_amd_smi().builds[0].name if isinstance(world, TwinWorld) else world.environment


def test_a_name_stands_for_one_digest_and_the_image_is_there(world, images, name):
    digest = images.resolve(name)
    assert digest.startswith("sha256:") and digest == images.resolve(name)
    before = world.node.clock.now()
    images.pull(digest)
    assert images.has(digest) and world.node.clock.now() - before < 1.0, "it was there"
    with world.node.open(SandboxSpec("job", name, "r1.1")):
        pass


@pytest.mark.parametrize("bad", ["{}-x", "", "no/such:thing", "{}\x1b[31m", "../../etc"])
def test_s24_a_name_that_does_not_exist_is_refused(images, name, bad):
    with pytest.raises(Refused, match="there is no image"):
        images.resolve(bad.format(name))


def test_s24_the_refusal_names_what_is_near(images, name):
    with pytest.raises(Refused) as error:
        images.resolve(f"{name}x")
    assert f"the nearest are {name}" in str(error.value)


def test_a_digest_that_nobody_resolved_is_not_there_and_can_not_be_pulled(images):
    assert not images.has("sha256:" + "0" * 64)
    with pytest.raises(Refused, match="resolve its"):
        images.pull("sha256:" + "0" * 64)
