from __future__ import annotations

import errno
import subprocess
import sys

import pytest
from day0.sandboxes.spool import SpoolReader, SpoolWriter
from hypothesis import given, settings
from hypothesis import strategies as st

HEAD, SEGMENT, SEGMENTS = 64, 16, 3


def writer(folder) -> SpoolWriter:
    return SpoolWriter(str(folder), head=HEAD, segment=SEGMENT, segments=SEGMENTS)


def follow(reader: SpoolReader, step: int) -> bytes:
    found = b""
    while data := reader.read(len(found), step):
        assert len(data) <= step
        found += data
    return found


@settings(max_examples=60, deadline=None)
@given(chunks=st.lists(st.binary(min_size=1, max_size=90), max_size=12), step=st.integers(1, 200))
def test_every_kept_byte_stands_at_its_offset(tmp_path_factory, chunks, step):
    folder = tmp_path_factory.mktemp("spool")
    spool, reader = writer(folder), SpoolReader(str(folder))
    for chunk in chunks:
        spool.append(chunk)
    text = b"".join(chunks)
    assert reader.size() == spool.total == len(text)
    seen = follow(reader, step)
    assert len(seen) == len(text)
    assert seen[:HEAD] == text[:HEAD]
    kept_tail = min(len(text) - HEAD, SEGMENT * (SEGMENTS - 1))
    if kept_tail > 0:
        assert seen[-kept_tail:] == text[-kept_tail:]
    assert sum(f.stat().st_size for f in folder.iterdir()) <= HEAD + SEGMENT * SEGMENTS


def test_one_gap_has_one_marker_also_for_small_reads(tmp_path):
    spool, reader = writer(tmp_path), SpoolReader(str(tmp_path))
    spool.append(b"x" * 1000)
    gap = follow(reader, 70)[HEAD : -SEGMENT * SEGMENTS]
    assert gap.count(b"not kept") == 1
    assert b"bytes of output not kept]" in gap


def test_a_reader_in_the_middle_of_a_gap_is_told_too(tmp_path):
    spool, reader = writer(tmp_path), SpoolReader(str(tmp_path))
    spool.append(b"x" * 1000)
    assert b"not kept" in reader.read(HEAD + 100, 200)


def test_a_reader_without_output_reads_nothing(tmp_path):
    reader = SpoolReader(str(tmp_path / "nowhere"))
    assert (reader.size(), reader.read(0, 10), reader.read(-1, 10), reader.read(0, 0)) == (0, b"", b"", b"")


FULL = """
import signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
from day0.sandboxes.spool import SpoolWriter
spool = SpoolWriter(sys.argv[1])
spool.append(b"y" * 5000); spool.append(b"z")
print(spool.total, spool.full)
"""


def test_a_full_disk_is_remembered_and_not_raised(tmp_path):
    done = subprocess.run([sys.executable, "-c", FULL, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("1000 ")
    assert "File too large" in done.stdout
    assert SpoolReader(str(tmp_path)).read(0, 9999) == b"y" * 1000


def test_other_errors_are_raised(tmp_path):
    spool = writer(tmp_path / ".")
    spool.append(b"x" * HEAD)
    spool.folder = str(tmp_path / "gone")
    with pytest.raises(OSError) as error:
        spool.append(b"x")
    assert error.value.errno == errno.ENOENT
