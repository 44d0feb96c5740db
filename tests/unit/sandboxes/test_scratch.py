"""Where a sandbox' temporary folder lies: below the work folder, or short and private."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from day0.runs.errors import Infrastructure
from day0.sandboxes import scratch
from hypothesis import given
from hypothesis import strategies as st

WORK, RECORDS = Path("/h/nodes/local/sandboxes/r1.1-0-server-0"), Path("/h/nodes/local/wardens/r1.1-0-server-0")
OWN = f"day0-{os.geteuid()}"


def long(path: Path) -> Path:
    return path / ("x" * 60)


def test_a_short_home_keeps_everything_in_its_work_folder(tmp_path):
    assert scratch.of(WORK, RECORDS, [str(tmp_path)]) == WORK / "tmp"
    assert list(tmp_path.iterdir()) == []


@given(st.integers(1, 150))
def test_every_socket_below_it_has_room_for_its_name(length):
    found = scratch.of(Path("/" + "h" * length), RECORDS)
    assert len(str(found)) + 1 + scratch.NAME_BYTES <= scratch.ADDRESS_BYTES


def test_a_long_home_gets_a_private_folder_that_goes_with_its_parent(tmp_path):
    found = scratch.of(long(WORK), RECORDS, [str(tmp_path)])
    assert found == scratch.of(long(WORK), RECORDS, [str(tmp_path)])
    assert found != scratch.of(long(WORK), RECORDS / "other", [str(tmp_path)])
    assert found.parent == tmp_path / OWN
    scratch.make(found)
    (found / "socket").touch()
    scratch.make(found)
    assert list(found.iterdir()) == [], "what an earlier sandbox of that name left is not handed on"
    assert {folder.stat().st_mode & 0o777 for folder in (found, found.parent)} == {0o700}
    other = found.with_name("0123456789ab")
    scratch.make(other)
    scratch.remove(found)
    assert list(found.parent.iterdir()) == [other]
    scratch.remove(other)
    assert list(tmp_path.iterdir()) == []


def test_a_parent_that_another_sandbox_removed_is_made_again(tmp_path):
    found = scratch.of(long(WORK), RECORDS, [str(tmp_path)])
    found.parent.rmdir()
    scratch.make(found)
    assert found.is_dir()


@pytest.mark.parametrize("kind", ["link", "open to others", "file"])
def test_a_folder_that_is_not_ours_alone_is_never_used_nor_removed(tmp_path, kind):
    bad, good, target = tmp_path / "bad", tmp_path / "good", tmp_path / "target"
    for folder in (bad, good, target):
        folder.mkdir(mode=0o700)
    taken = bad / OWN
    if kind == "link":
        taken.symlink_to(target)
    elif kind == "file":
        taken.touch()
    else:
        taken.mkdir()
        taken.chmod(0o755)
    assert scratch.of(long(WORK), RECORDS, [str(bad), str(good)]).parent == good / OWN
    with pytest.raises(Infrastructure, match="DAY0_HOME to a shorter path"):
        scratch.of(long(WORK), RECORDS, [str(bad)])
    if kind != "file":
        (taken / "0123456789ab").mkdir()
        scratch.remove(taken / "0123456789ab")
        assert (taken / "0123456789ab").exists()


def test_nothing_else_is_ever_removed(tmp_path):
    for path in (tmp_path, Path(), tmp_path / OWN, tmp_path / OWN / "short"):
        path.mkdir(mode=0o700, exist_ok=True)
        scratch.remove(path)
        assert path.exists()
