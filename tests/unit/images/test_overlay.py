"""An overlay's Dockerfile: what each kind of change needs, and what no overlay may hold."""

from __future__ import annotations

import pytest
from day0.runs.errors import Refused
from day0.sandboxes.registry import HUB, Name
from day0.tools.image_build import FullBuild
from day0.tools.image_overlay import Change, Overlay, dockerfile, of_files, rebuild

BASE = "lmsysorg/sglang-rocm@sha256:" + "0" * 64
SGLANG, AITER = "/sgl-workspace/sglang/", "/sgl-workspace/aiter/"


def needs(path: str, **more):
    return rebuild(Change(path=path, source="x", **more))


def test_python_of_an_editable_checkout_needs_nothing():
    for path in (f"{SGLANG}python/sglang/srt/a.py", f"{AITER}aiter/ops/a.py"):
        assert needs(path).steps == needs(path).env == ()


def test_a_tuned_table_is_merged_anew_and_rebuilds_only_for_kernels_that_are_not_built():
    assert needs(f"{AITER}aiter/configs/t.csv").env == ()
    assert needs(f"{AITER}aiter/configs/t.csv", names_unbuilt_kernels=True).env == (("AITER_REBUILD", "1"),)
    assert ("rm", "-rf", "/tmp/aiter_configs") in needs(f"{AITER}aiter/configs/t.csv").steps


def test_headers_compiled_at_run_time_only_lose_their_cache():
    (step,) = needs(f"{SGLANG}python/sglang/jit_kernel/csrc/elementwise/fused_metadata_copy.cuh").steps
    assert step[:2] == ("rm", "-rf")


def test_a_kernel_of_aiter_loses_its_modules_or_all_are_rebuilt():
    (step,) = needs(f"{AITER}csrc/kernels/a.cu", modules=("module_a",)).steps
    assert f"{AITER}aiter/jit/module_a.so" in step and f"{AITER}aiter/jit/build/module_a" in step
    assert needs(f"{AITER}csrc/kernels/a.cu").env == (("AITER_REBUILD", "1"),)
    with pytest.raises(Refused):
        needs(f"{AITER}csrc/kernels/a.cu", modules=("../../etc",))


def test_what_is_compiled_ahead_of_time_is_installed_again():
    for place in ("sgl-kernel", "python/sglang/kernels/aot"):
        found = needs(f"{SGLANG}{place}/csrc/a.hip")
        assert found.steps == (("cd", f"{SGLANG}{place}/"), ("python3", "setup_rocm.py", "install"))


@pytest.mark.parametrize(
    "path",
    ["/etc/passwd", f"{SGLANG}../../etc/x.py", f"{SGLANG}.git/hooks/x.py", f'{SGLANG}a".py', f"{SGLANG}a\n.py",
     f"{SGLANG}a$(id).py", "/sgl-workspace/other/a.py", "relative.py"],
)  # fmt: skip
def test_s63_nothing_outside_of_engine_and_kernels(path):
    with pytest.raises(Refused):
        of_files(BASE, [path])


def test_the_dockerfile_is_the_same_whatever_the_order_of_the_changes():
    changes = tuple(Change(path=f"{SGLANG}{name}.py", source=name) for name in "ba")
    files = {change.path: change.source for change in changes}
    one, two = (dockerfile(Overlay(base=BASE, changes=c), files, BASE) for c in (changes, changes[::-1]))
    assert one == two
    assert one.startswith(f'FROM {BASE}\nCOPY --chown=0:0 ["a",')
    assert one.endswith("WORKDIR /\n")
    contents = {"a": b"1", "b": b"2"}
    assert Overlay(base=BASE, changes=changes).content_digest(contents) == Overlay(
        base=BASE, changes=changes[::-1]
    ).content_digest(contents)


def test_s24_a_base_is_a_digest_and_never_a_tag():
    with pytest.raises(Refused, match="digest"):
        dockerfile(Overlay(base="lmsysorg/sglang:latest", changes=()), {}, "x")


def test_a_full_build_pins_what_it_fetches():
    assert FullBuild(checkout="/c", gpu_arch="gfx950-rocm724", aiter="abc").args() == {
        "GPU_ARCH": "gfx950-rocm724", "BRANCH_TYPE": "local", "AITER_COMMIT": "abc",
    }  # fmt: skip
    with pytest.raises(Refused, match="commit"):
        FullBuild(checkout="/c", gpu_arch="gfx950", local=False).args()


@pytest.mark.parametrize(
    ("name", "host", "path", "tag"),
    [
        ("python:3.11-slim", HUB, "library/python", "3.11-slim"),
        ("lmsysorg/sglang-rocm:v0.5.16-x", HUB, "lmsysorg/sglang-rocm", "v0.5.16-x"),
        ("127.0.0.1:5000/lab/engine", "127.0.0.1:5000", "lab/engine", "latest"),
        ("ghcr.io/a/b/c:1", "ghcr.io", "a/b/c", "1"),
    ],
)
def test_a_name_is_taken_apart(name, host, path, tag):
    found = Name.parse(name)
    assert found is not None and (found.host, found.path, found.tag) == (host, path, tag)


@pytest.mark.parametrize("name", ["", "/a/b", "A/b", "../../etc", "a b", "a\x1b[31m", "--host", "x" * 500, "a:"])
def test_s24_what_can_be_no_name_is_none(name):
    assert Name.parse(name) is None
