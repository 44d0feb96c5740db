from __future__ import annotations

import os

import pytest
from day0.runs.errors import Infrastructure, Refused
from day0.sandboxes import files


def test_a_pipe_is_refused_and_does_not_block(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "."):
        with pytest.raises((Refused, IsADirectoryError)):
            files.read(tmp_path / name, 10)


def test_a_device_behind_a_link_is_refused(tmp_path):
    (tmp_path / "zero").symlink_to("/dev/zero")
    with pytest.raises(Refused):
        files.inside(tmp_path, "zero")


def test_writing_leaves_the_old_file_when_it_fails(tmp_path):
    files.write(tmp_path / "a", b"old")
    (tmp_path / "a.day0-new").mkdir()
    with pytest.raises((Refused, OSError)):
        files.write(tmp_path / "a", b"new")
    assert (tmp_path / "a").read_bytes() == b"old"


def test_names_with_folders_in_them_stay_in_their_folder(tmp_path):
    (one,) = files.fresh([tmp_path], "../../r1.1")
    (two,) = files.fresh([tmp_path], "../../r1.1")
    assert {one.parent, two.parent} == {tmp_path}
    assert one != two


def test_fresh_gives_the_same_name_in_every_place(tmp_path):
    a, b = tmp_path / "a", tmp_path / "b"
    a.mkdir()
    (b / "x-0").mkdir(parents=True)
    assert files.fresh([a, b], "x") == [a / "x-1", b / "x-1"]
    assert [p.name for p in a.iterdir()] == ["x-1"]


def test_remove_takes_unreadable_folders_along(tmp_path):
    inner = tmp_path / "work" / "locked"
    inner.mkdir(parents=True)
    (inner / "f").write_text("x")
    inner.chmod(0)
    (tmp_path / "work" / "link").symlink_to(tmp_path)
    files.remove(tmp_path / "work")
    assert [p.name for p in tmp_path.iterdir()] == []


@pytest.mark.parametrize("inside", ["/elsewhere", "../x", "a/../../x"])
def test_a_mount_outside_the_work_folder_is_infrastructure(tmp_path, inside):
    (tmp_path / "model").mkdir()
    with pytest.raises(Infrastructure):
        files.mount(tmp_path / "work", tmp_path / "model", inside)
    with pytest.raises(Infrastructure):
        files.mount(tmp_path / "work", tmp_path / "missing", "model")
