"""The artifact store: by content, whole or not at all."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from day0.runs.artifacts import WRITING_S, Artifacts
from day0.runs.errors import DiskFull, Infrastructure
from day0.runs.values import sha256
from hypothesis import given, settings
from hypothesis import strategies as st


@pytest.fixture
def store(tmp_path):
    return Artifacts(tmp_path / "artifacts")


def test_what_is_put_is_got(store, tmp_path):
    (tmp_path / "log").write_bytes(b"line\n" * 1000)
    from_bytes, from_file = store.put(b"line\n" * 1000), store.put(tmp_path / "log")
    assert from_bytes == from_file == sha256(b"line\n" * 1000)
    assert store.get(from_file) == b"line\n" * 1000
    assert from_file in store
    assert store.path(from_file).stat().st_size < 200
    assert store.get(store.put(b"")) == b""


@settings(deadline=None, max_examples=30)
@given(data=st.binary(max_size=300))
def test_any_bytes_come_back(tmp_path_factory, data):
    store = Artifacts(tmp_path_factory.getbasetemp() / "any")
    assert store.get(store.put(data)) == data


def test_a_large_one_is_read_as_a_stream(store):
    data = os.urandom(1 << 16) * 40
    with store.open(store.put(data)) as file:
        assert file.read(10) == data[:10]
        assert file.read() == data[10:]
    with store.open(store.put(b"a\nb\n")) as file:
        assert [*file] == [b"a\n", b"b\n"]


def test_what_is_not_there_or_no_digest_is_said(store):
    with pytest.raises(Infrastructure, match="is not in"):
        store.get(sha256(b"x"))
    for name in ("../../etc/passwd", "sha256:" + "0" * 63, "sha256:" + "A" * 64, sha256(b"x") + "\n"):
        with pytest.raises(Infrastructure, match="no artifact digest"):
            store.get(name)


@pytest.mark.parametrize(
    "damage", [lambda raw: raw[:-8], lambda raw: raw[:20] + b"X" + raw[21:], lambda raw: b"", bytes.upper]
)
def test_damage_is_noticed_and_mended_by_the_next_put(store, damage):
    data = bytes(range(256)) * 30
    digest = store.put(data)
    store.path(digest).write_bytes(damage(store.path(digest).read_bytes()))
    with pytest.raises(Infrastructure, match="damaged"):
        store.get(digest)
    assert store.put(data) == digest
    assert store.get(digest) == data


def test_a_file_that_changes_while_it_is_stored_is_refused(store, tmp_path):
    with pytest.raises(Infrastructure, match="changed while it was stored"):
        store.put(Path("/proc/sys/kernel/random/uuid"))  # another content at each reading
    assert not [file for file in tmp_path.glob("artifacts/??/*")]


def test_many_writers_of_one_content_agree(store):
    data, told = os.urandom(100_000), []
    threads = [threading.Thread(target=lambda: told.append(store.put(data))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {*told} == {sha256(data)}
    assert store.get(told[0]) == data


FULL = """
import os, resource, sys
from pathlib import Path
from day0.runs.artifacts import Artifacts
from day0.runs.errors import DiskFull
store = Artifacts(Path(sys.argv[1]))
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
try:
    store.put(os.urandom(2_000_000))
except DiskFull as error:
    print(error)
"""


def test_s11_a_full_disk_keeps_the_old_and_leaves_no_half(store, tmp_path):
    old = store.put(b"old")
    line = [sys.executable, "-W", "error", "-c", FULL, str(tmp_path / "artifacts")]
    told = subprocess.run(line, capture_output=True, text=True, check=True)
    assert "no room left" in told.stdout
    assert "2000000 bytes" in told.stdout
    assert told.stderr == ""
    assert store.get(old) == b"old"
    assert [file.name for file in (tmp_path / "artifacts").glob("??/*")] == [store.path(old).name]


def test_s11_an_unwritable_place_is_infrastructure(tmp_path):
    (tmp_path / "artifacts").write_text("a file where the folder should be")
    with pytest.raises(Infrastructure, match="can't be written") as caught:
        Artifacts(tmp_path / "artifacts").put(b"x")
    assert not isinstance(caught.value, DiskFull)
    with pytest.raises(Infrastructure, match="can't be read"):
        Artifacts(tmp_path / "other").put(tmp_path / "missing")


def test_the_collector_keeps_what_is_named_young_or_foreign(store, tmp_path):
    kept, old, young = store.put(b"kept"), store.put(b"old"), store.put(b"young")
    for digest in (kept, old):
        os.utime(store.path(digest), (1, 1))
    leftover, fresh = store.path(old).with_name(".dead.tmp"), store.path(old).with_name(".alive.tmp")
    foreign = store.path(old).with_name("notes.txt")
    for file in (leftover, fresh, foreign):
        file.write_bytes(b"12345")
    os.utime(leftover, (1, 1))
    os.utime(foreign, (1, 1))
    size = store.path(old).stat().st_size + 5
    gone = store.gc(keep={kept}, older_than_s=WRITING_S / 10)
    assert (gone.files, gone.bytes) == (2, size)
    assert kept in store
    assert young in store
    assert old not in store
    assert fresh.exists()
    assert foreign.exists()
    assert not leftover.exists()


def test_storing_again_makes_it_young(store):
    digest = store.put(b"wanted again")
    os.utime(store.path(digest), (1, 1))
    store.put(b"wanted again")
    assert store.gc(keep=(), older_than_s=60).files == 0
