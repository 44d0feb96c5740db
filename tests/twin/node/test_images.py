"""Images of simulated nodes: a registry, downloads that take time and break, disks that are full."""

from __future__ import annotations

import pytest
from day0.runs.errors import DiskFull, Infrastructure, NodeLost, Refused
from day0.sandboxes.spec import SandboxSpec
from day0.sandboxes.twin.node import TwinNode, environments
from day0.sandboxes.twin.world import World, world
from day0.tools import image

OLD, NEW = "lmsysorg/sglang-rocm:v0.5.16-rocm720-mi35x-20260728", "lmsysorg/sglang-rocm:v0.5.23-rocm720-mi35x-20261030"
GONE = "lmsysorg/sglang-rocm:v0.5.24-rocm720-mi35x-20261114"


@pytest.fixture
def node_of(tmp_path):
    def make(node=None, **changes) -> TwinNode:
        base = world("glm-5.2")
        first = base.builds[0].model_copy(update={"name": OLD})
        later = [first.model_copy(update={"name": name, "present": False}) for name in (NEW, GONE)]
        spec = base.node.model_copy(update=node or {})
        given = {"builds": (first, *later), "registry": (OLD, NEW), "node": spec, **changes}
        return TwinNode("twin-0", tmp_path, World.model_validate(base.model_copy(update=given).model_dump()),
                        cancel=lambda: False)  # fmt: skip

    return make


def test_s24_a_tag_that_the_registry_lacks_is_refused_with_the_nearest(node_of):
    with pytest.raises(Refused) as error:
        image.ready(node_of(), GONE)
    assert NEW in str(error.value) and OLD in str(error.value)


def test_a_pull_takes_node_time_once_and_is_remembered_by_the_node(node_of):
    node = node_of()
    with pytest.raises(Infrastructure, match="has to be pulled"), node.open(SandboxSpec("job", NEW, "r1.1")):
        pass
    digest = image.ready(node, NEW)
    assert digest == environments(node.site.world)[NEW]
    assert node.clock.now() == pytest.approx(24 / 0.25, abs=2.0)
    again = node_of()
    image.ready(again, NEW)
    assert again.clock.now() < 24 / 0.25 + 2.0
    with again.open(SandboxSpec("job", NEW, "r1.1")):
        pass


def test_s23_a_download_that_breaks_is_infrastructure_and_is_tried_again_later(node_of):
    node = node_of(flaky_downloads=2)
    digest = node.images.resolve(NEW)
    with pytest.raises(Infrastructure, match="unexpected EOF"):
        node.images.pull(digest)
    assert not node.images.has(digest)
    assert image.ready(node, NEW) == digest and node.images.has(digest)
    assert node.clock.now() > 2 * 0.6 * 96 + 96 + image.FIRST_WAIT_S


def test_s23_a_registry_that_never_lets_a_download_end_is_given_up(node_of):
    node = node_of(flaky_downloads=99)
    with pytest.raises(Infrastructure, match=f"in {image.TRIES} tries: .*broke"):
        image.ready(node, NEW)


def test_s22_a_pull_that_does_not_fit_is_refused_before_it_begins_with_the_size(node_of):
    node = node_of({"disk_free_gib": 80.0})
    with pytest.raises(DiskFull, match="needs 96 GiB of disk; 80 GiB are free"):
        image.ready(node, NEW)
    assert node.clock.now() < 2.0


def test_a_node_that_dies_in_a_download_is_lost(node_of):
    with pytest.raises(NodeLost):
        image.ready(node_of({"dies_at_s": 40.0}), NEW)
