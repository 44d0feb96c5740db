"""Patches on a real daemon: an image over the engine, what its container holds, and that the server loads it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from day0.agent import contained
from day0.agent.settings import load
from day0.runs import documents
from day0.runs.errors import CandidateFailed, Infrastructure, Refused, UserError
from day0.runs.patches import Table
from day0.sandboxes.docker_build import Build
from day0.sandboxes.spec import SandboxSpec
from day0.tools import image_build, patch, patch_test, wear
from day0.tools.environments import find

from tests.contract.node_worlds.contained import BASE, SOCKET
from tests.contract.test_node_contract import whole

MODULE = "sglang/python/sglang/speed.py"
TEXT = "def speed():\n    return 1\n"
DIFF = f"""diff --git a/{MODULE} b/{MODULE}
--- a/{MODULE}
+++ b/{MODULE}
@@ -1,2 +1,2 @@
 def speed():
-    return 1
+    return 2
"""
SAY = "import sglang.speed; print(sglang.speed.speed())"
TABLE = Table(build="sha256:e", arch="gfx950", variable="AITER_CONFIG_FMOE", text="a,b\n1,2\n", rows=1, shapes=("s",))
REAL = Path(__file__).parent / "patches/grouped-decode.diff"
TIMED = Path(__file__).parent / "patches/timed.py"


@pytest.fixture
def base(node, tmp_path) -> str:
    """An image with a small engine in its workspace."""
    folder = tmp_path / "base"
    (folder / "sglang").mkdir(parents=True)
    (folder / "sglang/__init__.py").write_text("")
    (folder / "sglang/speed.py").write_text(TEXT)
    (folder / "Dockerfile").write_text(
        f"FROM {BASE}\nRUN ln -s python3 /usr/bin/python\nCOPY sglang /sgl-workspace/sglang/python/sglang\n"
        "ENV PYTHONPATH=/sgl-workspace/sglang/python\n"
    )
    return image_build.build(node, Build(folder), lambda name, log: None, needed=0, timeout_s=120)


def job(image: str, role="job") -> SandboxSpec:
    return SandboxSpec(role, image, "r1.1")


def made(node, image, diff=DIFF, name="faster"):
    with node.open(job(image)) as sandbox:
        source = patch.source_of(sandbox)
        return patch.from_diff(diff, source, build=image, name=name, title="Faster", why="", author="person")


def tailored(node, image, patches, tables=(), kept=None):
    kept = {} if kept is None else kept
    return wear.tailored(node, job(image), patches, tables, {}, kept.__setitem__)


def said(sandbox, *argv: str, limit_s: float = 30) -> str:
    process = sandbox.spawn(argv)
    assert process.wait(limit_s).code == 0, whole(process).decode()
    return whole(process).decode()


def test_s44_a_patch_is_an_image_over_the_engines_read_back_and_loaded(node, base):
    found, kept = made(node, base), {}
    overlay = tailored(node, base, [found], kept=kept)
    assert overlay.image not in ("", base) and b"COPY" in kept["build-1.log"]
    again = {}
    assert tailored(node, base, [found], kept=again) == overlay and not again, "built once"
    with node.open(job(overlay.image, "server")) as sandbox:
        assert wear.fitting(overlay)(sandbox) == {}
        assert said(sandbox, "python", "-c", SAY) == "2\n"
        worn = wear.worn(sandbox, overlay)
    path = f"/sgl-workspace/{MODULE}"
    assert (worn.image, worn.loaded) == (overlay.image, (path,))
    assert dict(worn.files) == {path: found.after[MODULE]}
    with node.open(job(base, "server")) as sandbox:
        assert said(sandbox, "python", "-c", SAY) == "1\n", "the base is what it was"


TEST = "import sglang.speed; assert sglang.speed.speed() > {least}, 'too slow'; print('fast enough')"


def test_a_patchs_own_test_never_enters_the_candidate(node, base):
    overlay = tailored(node, base, [made(node, base)])
    told = patch_test.run(node, overlay.image, TEST.format(least=1), "r1.1")
    assert (told.passed, told.said) == (True, "fast enough")
    assert not patch_test.run(node, base, TEST.format(least=1), "r1.1").passed
    failed = patch_test.run(node, overlay.image, TEST.format(least=2), "r1.1")
    assert (failed.passed, failed.said) == (False, "AssertionError: too slow")
    outside = "import socket; socket.create_connection(('192.0.2.1', 80), 2)"
    assert not patch_test.run(node, overlay.image, outside, "r1.1").passed


def test_s44_a_patch_that_nobody_loads_or_that_is_shadowed_had_no_effect(node, base):
    overlay = tailored(node, base, [made(node, base)])
    with (
        node.open(job(overlay.image, "server")) as sandbox,
        pytest.raises(CandidateFailed, match=r"faster had no effect: .* without loading /sgl-workspace/.*speed.py"),
    ):
        wear.worn(sandbox, overlay)
    shadow = replace(job(overlay.image, "server"), env={"PYTHONPATH": "elsewhere"})
    with node.open(shadow) as sandbox:
        sandbox.write("elsewhere/sglang/__init__.py", b"")
        with pytest.raises(CandidateFailed, match=r"would import sglang from /\S+/elsewhere/sglang"):
            wear.fitting(overlay)(sandbox)


def test_s43_a_file_that_is_not_the_overlays_in_the_running_container_counts_for_nothing(node, base, daemon):
    overlay = tailored(node, base, [made(node, base)])
    with node.open(job(overlay.image, "server")) as sandbox:
        said(sandbox, "python", "-c", f"open('/sgl-workspace/{MODULE}', 'a').write('# more\\n')")
        with pytest.raises(Infrastructure, match=r"speed.py in the running container is not"):
            wear.fitting(overlay)(sandbox)


def test_a_table_is_a_file_of_the_overlay_and_a_variable_of_the_launch(node, base):
    overlay = tailored(node, base, [], [TABLE])
    ((name, place),) = overlay.env.items()
    assert name == TABLE.variable and place in overlay.files
    with node.open(job(overlay.image, "server")) as sandbox:
        assert wear.fitting(overlay)(sandbox) == {name: place}
        assert sandbox.read(place, 100).decode() == TABLE.text


def test_s64_the_daemon_reads_only_plain_files_of_the_workspace(node, base):
    with node.open(job(base)) as sandbox:
        assert sandbox.read(f"/sgl-workspace/{MODULE}", 5) == TEXT[:5].encode()
        with pytest.raises(FileNotFoundError):
            sandbox.read("/sgl-workspace/sglang/none.py", 5)
        for path in ("/sgl-workspace/sglang", "/sgl-workspace/../etc/passwd", "/etc/passwd"):
            with pytest.raises(Refused):
                sandbox.read(path, 5)
        said(sandbox, "python", "-c", "import os; os.symlink('/etc/passwd', '/sgl-workspace/link')")
        with pytest.raises(Refused, match="no regular file"):
            sandbox.read("/sgl-workspace/link", 5)


def test_further_images_of_a_target_are_builds_that_the_search_may_try(node, base, monkeypatch):
    settings = load()
    if find(settings.home) is None:
        pytest.skip(f"no load generator in {settings.home}: make engine")
    monkeypatch.setenv("DOCKER_HOST", SOCKET)
    target = documents.target("cpu-docker").model_copy(update={"image": base, "images": (BASE,), "engine_on": "image"})
    at = contained.environments(target, settings)
    other = node.images.resolve(BASE)
    assert (at.engine_build, at.images) == (base, {other: at.folder(other)})
    assert at.digest(at.folder(other)) == other and at.on(other).engine_build == other
    with pytest.raises(UserError, match="there is no image"):
        contained.environments(target.model_copy(update={"images": ("sha256:" + "0" * 64,)}), settings)


@pytest.fixture
def real(tmp_path, monkeypatch):
    """Node and environments of `cpu-docker`, its image the tests' own."""
    settings = load()
    if find(settings.home) is None:
        pytest.skip(f"no engine in {settings.home}: make engine")
    monkeypatch.setenv("DOCKER_HOST", SOCKET)
    target = documents.target("cpu-docker").model_copy(update={"image": BASE})
    node = contained.make(settings, target, lambda: False)
    yield node, contained.environments(target, settings), (target, settings)
    node.close()


@pytest.mark.timeout(300)
def test_s44_a_patch_of_the_real_engine_takes_effect_over_its_read_only_environment_and_is_measured(real, capsys):
    node, at, asked = real
    assert at.patchable and at.overlays and at.digest(at.engine) == at.engine_build
    found = made(node, at.engine, REAL.read_text(), "grouped-decode")
    overlay = tailored(node, at.engine, [found])
    assert contained.environments(*asked).engine == at.engine, "an overlay is never taken for what it lies on"
    told = {}
    for name, image in (("before", at.engine), ("after", overlay.image)):
        with node.open(job(image, "server")) as sandbox:
            if image == overlay.image:
                wear.fitting(overlay)(sandbox)
            sandbox.write("timed.py", TIMED.read_bytes())
            told[name] = json.loads(said(sandbox, "python", "timed.py", limit_s=200).splitlines()[-1])
            if image == overlay.image:
                (path,) = wear.worn(sandbox, overlay).loaded
                assert told[name]["file"] == path
    with capsys.disabled():
        print(
            "\ndecode attention, 8 requests of 256 tokens, us a layer:",
            *(f"{k} {v['us']:.0f}" for k, v in told.items()),
        )
    assert told["after"]["us"] < 0.9 * told["before"]["us"]
    assert told["after"]["sum"] == pytest.approx(told["before"]["sum"], rel=1e-4)
