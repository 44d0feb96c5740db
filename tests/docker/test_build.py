"""Images on a real daemon: a registry asked before planning, downloads, overlays, builds that fail."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from day0.runs.errors import CandidateFailed, DiskFull, Infrastructure, Refused
from day0.sandboxes.docker import DockerNode
from day0.sandboxes.docker_build import Build
from day0.sandboxes.spec import SandboxSpec
from day0.tools import image, image_build
from day0.tools.image_overlay import Change, Overlay

from tests.contract.node_worlds.contained import BASE, registry


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    """A registry on this machine, HOST:PORT."""
    with registry(tmp_path_factory.mktemp("registry")) as address:
        yield address


@pytest.fixture
def kept():
    return {}


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "context"
    made.mkdir()
    return made


def build(node, folder, text, kept, **more):
    (folder / "Dockerfile").write_text(text)
    return image_build.build(node, Build(folder, **more), kept.__setitem__, needed=0, timeout_s=120)


def pushed(daemon, hub: str, tag: str, **config) -> str:
    """A small image in the registry, none of it on the node; its repository there."""
    name = f"{hub}/lab/engine"
    made = daemon.api.create_container(BASE, ["true"])["Id"]
    try:
        identity = daemon.api.commit(made, repository=name, tag=tag, changes=[f"LABEL mark={tag}"])["Id"]
    finally:
        daemon.remove(made)
    for event in daemon.api.push(name, tag=tag, stream=True, decode=True):
        assert "error" not in event, event
    assert daemon.discard(f"{name}:{tag}")
    assert identity
    return name


def test_s24_a_tag_is_resolved_by_the_registry_before_anything_is_fetched(daemon, node, hub):
    name = pushed(daemon, hub, "v0.5.23-rocm724-mi35x")
    digest = node.images.resolve(f"{name}:v0.5.23-rocm724-mi35x")
    assert digest.startswith("sha256:") and len(digest) == 71
    assert not node.images.has(digest)
    with pytest.raises(Refused) as error:
        node.images.resolve(f"{name}:v0.5.24-rocm724-mi35x")
    assert "there is no image" in str(error.value) and f"{name}:v0.5.23-rocm724-mi35x" in str(error.value)
    with pytest.raises(Refused, match="there is no image"):
        node.images.resolve(f"{hub}/lab/other:v1")
    with pytest.raises(Infrastructure, match="can't be reached"):
        node.images.resolve("127.0.0.1:9/lab/engine:v1")


def test_an_image_is_pulled_by_digest_entered_and_known_again(world, daemon, node, hub):
    name = pushed(daemon, hub, "v1")
    digest = image.ready(node, f"{name}:v1")
    reference = node.reference(digest)
    assert reference == f"{name}@{digest}"
    with node.open(SandboxSpec("job", reference, "r1.1")) as sandbox:
        assert sandbox.spawn(["python3", "-c", "print(1)"]).wait(20).code == 0
    again = world.restarted()
    assert again.images.resolve(f"{name}:v1") == digest and again.images.has(digest), "what is here stands for itself"
    assert again.images.resolve(reference) == digest
    daemon.discard(reference)
    assert not node.images.has(digest)


def test_s22_an_image_too_large_for_the_disk_is_refused_with_the_size_before_the_pull(daemon, node, hub):
    name = pushed(daemon, hub, "huge")
    digest = node.images.resolve(f"{name}:huge")
    node.images._bytes[digest] = 1 << 50
    with pytest.raises(DiskFull, match=r"lab/engine needs about \d{7}"):
        node.images.pull(digest)
    with pytest.raises(DiskFull, match="needs about"):
        node.room(1 << 60, "a build")


def test_names_without_a_host_are_asked_of_the_hub_that_is_set(daemon, tmp_path, hub):
    pushed(daemon, hub, "v7")
    node = DockerNode(
        "n2", tmp_path / "other", engine=daemon, base=BASE, allowed=(), cancel=lambda: False, hub=hub
    )  # fmt: skip
    digest = image.ready(node, "lab/engine:v7")
    assert node.images.has(digest) and node.reference(digest) == f"{hub}/lab/engine@{digest}"
    daemon.discard(node.reference(digest))


def test_the_base_of_host_environments_is_fetched_where_it_is_missing(world, daemon, hub):
    name = pushed(daemon, hub, "base")
    node = DockerNode(
        "n3", world.folder, engine=daemon, base=f"{name}:base", allowed=(world.folder,), cancel=lambda: False
    )
    digest = node.images.resolve(world.environment)
    assert not node.images.has(digest)
    assert image.ready(node, world.environment) == digest and node.images.has(digest)
    spec = SandboxSpec("server", world.environment, "r1.1")
    with node.open(spec) as sandbox, node.open(SandboxSpec("harness", "", "r1.1")):
        assert sandbox.spawn(["python3", "-c", "print(1)"]).wait(20).code == 0
    daemon.discard(f"{name}@{node.images.resolve(f'{name}:base')}")


def test_a_build_is_kept_cached_and_ours(daemon, node, folder, kept):
    (folder / "data").write_text("payload")
    text = f"FROM {BASE}\nARG WHAT\nCOPY data /data\nRUN echo built $WHAT > /said\nENV PRESET=yes\n"
    one = build(node, folder, text, kept, args={"WHAT": "x"})
    assert b"RUN echo built" in kept["build-1.log"]
    assert one.startswith("sha256:") and node.images.has(one)
    assert build(node, folder, text, kept, args={"WHAT": "x"}) == one
    assert b"CACHED" in kept["build-1.log"]
    assert build(node, folder, text, kept, args={"WHAT": "y"}) != one
    with node.open(SandboxSpec("job", one, "r1.1")) as sandbox:
        show = "import os; print(open('/data').read(), open('/said').read().strip(), os.environ['PRESET'])"
        process = sandbox.spawn(["python3", "-c", show])
        process.wait(20)
        assert process.output(0, 100) == b"payload built x yes\n"
    gone = node.prune(keep={one})
    assert gone and one not in gone and node.images.has(one)
    assert daemon.image(BASE), "an image that is not ours stays"
    node.prune(keep=())
    assert not node.images.has(one)


def test_a_failed_build_names_its_step_its_line_and_what_it_said(node, folder, kept):
    text = f"# a comment\nFROM {BASE} AS tools\nRUN true\nFROM {BASE}\nENV A=1\n\n"
    text += "RUN echo one && \\\n  echo 'fatal: no kernel' >&2; exit 3\nRUN true\n"
    with pytest.raises(CandidateFailed) as error:
        build(node, folder, text, kept)
    assert error.value.failure == "bad_patch"
    assert "step 2/3, line 7 of the Dockerfile: RUN echo one" in error.value.evidence
    assert "fatal: no kernel" in error.value.evidence
    assert b"fatal: no kernel" in kept["build-1.log"] and list(kept) == ["build-1.log"]


def test_s23_what_the_node_broke_is_built_once_more_and_is_never_the_candidates_fault(node, folder, kept):
    with pytest.raises(Infrastructure, match="broke 2 times"):
        build(node, folder, f"FROM {BASE}\nRUN echo 'unexpected EOF' >&2; false\n", kept)
    assert sorted(kept) == ["build-1.log", "build-2.log"]


def test_a_base_that_does_not_exist_or_a_dockerfile_that_is_none_is_said(node, folder, kept):
    for text in ("FROM no-such/base:1\n", "FRUM x\n"):
        with pytest.raises((CandidateFailed, Infrastructure)) as error:
            build(node, folder, text, kept)
        assert len(str(error.value)) > 40


def test_an_overlay_changes_the_files_it_names_on_a_base_by_digest(node, daemon, folder, kept):
    base = build(
        node, folder,
        f"FROM {BASE}\nRUN mkdir -p /sgl-workspace/sglang/python/sglang /sgl-workspace/aiter/aiter/jit/build/module_x "
        "/tmp/aiter_configs && touch /sgl-workspace/aiter/aiter/jit/module_x.so && "
        "echo 'print(1)' > /sgl-workspace/sglang/python/sglang/a.py\n",
        kept,
    )  # fmt: skip
    changes = (
        Change(path="/sgl-workspace/sglang/python/sglang/a.py", source="a"),
        Change(path="/sgl-workspace/aiter/csrc/kernels/x.cu", source="x", modules=("module_x",)),
        Change(path="/sgl-workspace/aiter/aiter/configs/tuned_fmoe.csv", source="t", names_unbuilt_kernels=True),
    )
    contents = {"a": b"print(2)\n", "x": b"// new\n", "t": b"gfx,cu_num\n"}
    overlay = Overlay(base=base, changes=changes)
    made = image_build.overlaid(node, overlay, contents, folder / "overlay", kept.__setitem__)
    with node.open(SandboxSpec("job", made, "r1.1")) as sandbox:
        process = sandbox.spawn(["python3", "/sgl-workspace/sglang/python/sglang/a.py"])
        process.wait(20)
        assert process.output(0, 9) == b"2\n"
        look = "import os; print(*map(os.path.exists, ('/sgl-workspace/aiter/aiter/jit/module_x.so',"
        look += "'/sgl-workspace/aiter/aiter/jit/build/module_x', '/tmp/aiter_configs')), os.environ['AITER_REBUILD'])"
        process = sandbox.spawn(["python3", "-c", look])
        process.wait(20)
        assert process.output(0, 99) == b"False False False 1\n"
    assert image_build.overlaid(node, overlay, contents, folder / "again", kept.__setitem__) == made, "cached"
    assert image_build.overlaid(node, Overlay(base=base, changes=()), {}, folder / "none", kept.__setitem__) == base
    node.prune(keep=())


def test_a_full_build_takes_the_engines_own_dockerfile_and_pins_its_commits(node, tmp_path, kept):
    checkout = tmp_path / "sglang"
    (checkout / "docker").mkdir(parents=True)
    (checkout / "docker/rocm.Dockerfile").write_text(
        f"ARG GPU_ARCH=gfx950\nFROM {BASE} AS gfx950-rocm724\nARG AITER_COMMIT=default\nARG BRANCH_TYPE=remote\n"
        "RUN echo $AITER_COMMIT $BRANCH_TYPE > /pins\nFROM ${GPU_ARCH}\nRUN cat /pins\n"
    )
    wanted = image_build.FullBuild(checkout=str(checkout), gpu_arch="gfx950-rocm724", aiter="c16d44b")
    with pytest.raises(Refused, match="name a checkout of SGLang"):
        image_build.full(node, wanted.model_copy(update={"checkout": str(tmp_path)}), kept.__setitem__)
    made = image_build.full(node, wanted, kept.__setitem__, needed=1 << 30, network="none")
    assert b"c16d44b local" in kept["build-1.log"]
    with node.open(SandboxSpec("job", made, "r1.1")) as sandbox:
        process = sandbox.spawn(["cat", "/pins"])
        process.wait(20)
        assert process.output(0, 99) == b"c16d44b local\n"
    node.prune(keep=())


def test_s06_a_cancelled_build_ends_within_seconds(world, node, folder, kept):
    world.cancel_after(2.0)
    began = time.monotonic()
    with pytest.raises(Exception, match="cancelled"):
        build(node, folder, f"FROM {BASE}\nRUN echo {os.getpid()} && sleep 100\n", kept)
    assert time.monotonic() - began < 30
    assert Path(folder).is_dir()
