"""Engines that are on this machine already, by name."""

from pathlib import Path

import pytest
from day0.runs.errors import UserError
from day0.tools.environments import HARNESS, MARKER
from day0.tools.own_engine import listing, own, use


def environment(
    folder: Path, package: str = "sglang", version: str = "0.5.23", place: str = "lib/python3.12/site-packages"
) -> Path:
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").touch()
    info = folder / place / f"{package}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "RECORD").write_text(f"{package}/__init__.py,sha256=abc,10\n")
    return folder


def test_a_named_engine_is_found_with_the_load_generator(tmp_path: Path) -> None:
    place = environment(tmp_path / "there")
    build = use(tmp_path, "rocm", place)
    with pytest.raises(UserError, match="engine install harness"):
        own(tmp_path, "rocm")
    (environment(tmp_path / "engines" / HARNESS) / MARKER).write_text("{}")
    found = own(tmp_path, "rocm")
    assert (found.engine, found.build, found.version) == (str(place), build, "0.5.23")
    assert [(e.name, e.build) for e in listing(tmp_path)] == [("rocm", build)]


@pytest.mark.parametrize(
    ("name", "package", "said"),
    [("Rocm!", "sglang", "no name"), ("rocm", "vllm", "no SGLang"), (HARNESS, "sglang", "another name")],
)
def test_what_is_no_engine_is_one_sentence(tmp_path: Path, name: str, package: str, said: str) -> None:
    place = environment(tmp_path / "there", package)
    (tmp_path / "engines" / HARNESS).mkdir(parents=True)
    with pytest.raises(UserError, match=said):
        use(tmp_path, name, place)


def test_debians_own_python_is_an_environment_too(tmp_path: Path) -> None:
    place = environment(tmp_path / "usr", place="local/lib/python3.10/dist-packages")
    assert use(tmp_path, "rocm", place).startswith("sha256:")


def test_a_folder_without_python_and_a_name_that_nobody_gave(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no bin/python"):
        use(tmp_path, "rocm", tmp_path)
    with pytest.raises(UserError, match="day0 engine use FOLDER --name rocm"):
        own(tmp_path, "rocm")


def test_an_engine_that_vanished_is_said(tmp_path: Path) -> None:
    place = environment(tmp_path / "there")
    use(tmp_path, "rocm", place)
    (environment(tmp_path / "engines" / HARNESS) / MARKER).write_text("{}")
    (place / "lib").rename(tmp_path / "gone")
    with pytest.raises(UserError, match="no longer in"):
        own(tmp_path, "rocm")
    assert listing(tmp_path)[0].build == ""
