from __future__ import annotations

import pytest
from day0.sandboxes import identity, record
from day0.sandboxes.identity import Known
from day0.sandboxes.record import Header, Journal

HEADER = Header("boot pid:[1]", Known(10, 1), Known(11, 2), "r1.1", "r1.1-0-server-0")


def test_a_journal_reads_back(tmp_path):
    journal = Journal(str(tmp_path), HEADER)
    journal.add([Known(100, 7)])
    journal.add([Known(100, 7), Known(101, 8)])
    found = record.load(str(tmp_path))
    assert found is not None
    assert found.header == HEADER
    assert found.seen == (Known(100, 7), Known(101, 8))
    assert (tmp_path / "tree").stat().st_size == record.ROOM, "its room is allocated ahead"


def test_a_journal_that_is_full_keeps_the_living(tmp_path):
    journal = Journal(str(tmp_path), HEADER)
    for pid in range(8000):
        journal.add([Known(1, 1), Known(100_000 + pid, 1_000_000)])
    found = record.load(str(tmp_path))
    assert found is not None
    assert {Known(1, 1), Known(107_999, 1_000_000)} <= set(found.seen)
    assert (tmp_path / "tree").stat().st_size == record.ROOM


@pytest.mark.parametrize("text", ["", "{}", "not json\n1 2\n", '{"world": 1}\n', "[1]\n"])
def test_what_is_not_whole_proves_nothing(tmp_path, text):
    (tmp_path / "tree").write_text(text)
    assert record.load(str(tmp_path)) is None
    assert record.load(str(tmp_path / "nowhere")) is None


def test_a_line_cut_short_is_left_out(tmp_path):
    Journal(str(tmp_path), HEADER).add([Known(100, 77)])
    text = (tmp_path / "tree").read_bytes().rstrip(b"\0")
    (tmp_path / "tree").write_bytes(text + b"101 7")
    found = record.load(str(tmp_path))
    assert found is not None
    assert found.seen == (Known(100, 77),)


def test_the_exit_is_kept_for_who_comes_later(tmp_path):
    assert record.read_exit(str(tmp_path)) is None
    record.write_exit(str(tmp_path), 137, True)
    assert record.read_exit(str(tmp_path)) == (137, True)
    (tmp_path / "exit.json").write_text("{")
    assert record.read_exit(str(tmp_path)) is None


def test_an_owner_is_alive_only_as_the_same_process_of_the_same_boot(tmp_path):
    assert record.owner_lives(str(tmp_path)) is None
    record.write_owner(str(tmp_path))
    assert record.owner_lives(str(tmp_path)) is True
    text = (tmp_path / "owner").read_text()
    (tmp_path / "owner").write_text(text.replace(identity.world(), "another boot"))
    assert record.owner_lives(str(tmp_path)) is False
    (tmp_path / "owner").write_text(text.replace(str(record.own().start), "1"))
    assert record.owner_lives(str(tmp_path)) is False
