"""Which databases are taken, and where SQLite may lie. Pure."""

import ast
from pathlib import Path

import pytest
from day0.runs import database
from day0.runs.database import filesystem, parse_url, refuse_remote
from day0.runs.errors import UserError

MOUNTS = """\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
23 22 0:21 / /proc rw - proc proc rw
40 22 0:44 / /home rw,relatime - nfs4 server:/home rw,vers=4.2
41 40 254:9 / /home/me/local rw - xfs /dev/vdb rw
42 22 0:45 / /mnt/my\\040share rw - cifs //nas/share rw
43 22 0:46 / /data rw - ext4 /dev/vdc rw
44 43 0:47 / /data rw - fuse.sshfs box:/ rw
broken line
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/ledger.db", "ext4"),
        ("/home/me/ledger.db", "nfs4"),
        ("/home/me/local/ledger.db", "xfs"),
        ("/homes/ledger.db", "ext4"),
        ("/mnt/my share/ledger.db", "cifs"),
        ("/data/ledger.db", "fuse.sshfs"),
    ],
)
def test_s09_the_deepest_and_latest_mount_decides(path, kind):
    assert filesystem(Path(path), MOUNTS) == kind


def test_s09_sqlite_on_a_network_file_system_is_refused_with_the_way_out():
    with pytest.raises(UserError, match=r"nfs4.*DAY0_HOME at a local disk or DAY0_DATABASE_URL at a PostgreSQL"):
        refuse_remote(Path("/home/me/ledger.db"), MOUNTS)
    refuse_remote(Path("/home/me/local/ledger.db"), MOUNTS)
    refuse_remote(Path("/anywhere/ledger.db"), "")


def test_s09_a_link_to_a_network_file_system_is_followed(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "there")
    (tmp_path / "there").mkdir()
    mounts = MOUNTS + f"50 22 0:50 / {tmp_path}/there rw - nfs server:/ rw\n"
    with pytest.raises(UserError, match="nfs"):
        refuse_remote(tmp_path / "link" / "ledger.db", mounts)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("", "must look like"),
        ("ledger.db", "must look like"),
        ("postgresql://host:port/name", "must look like"),
        ("sqlite://", "needs a file"),
        ("sqlite:///:memory:", "needs a file"),
        ("sqlite:///%00", "needs a file"),
        ("mysql://host/name", "`mysql` is not supported"),
    ],
)
def test_other_urls_are_refused_in_one_sentence(url, why):
    with pytest.raises(UserError, match=why) as caught:
        parse_url(url)
    assert "\n" not in str(caught.value)


def test_postgresql_goes_through_psycopg_three():
    for scheme in ("postgresql", "postgresql+psycopg2"):
        assert parse_url(f"{scheme}://me@host/name").drivername == "postgresql+psycopg"


def test_s10_no_module_here_can_run_code_from_data():
    banned = {"pickle", "marshal", "shelve", "dill", "cloudpickle"}
    unsafe = {"eval", "exec", "unsafe_load", "full_load", "UnsafeLoader", "FullLoader", "PickleType"}
    for file in Path(database.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            names = {
                alias.name.partition(".")[0] for alias in getattr(node, "names", ()) if isinstance(alias, ast.alias)
            }
            names |= {getattr(node, "module", None) or "", getattr(node, "attr", ""), getattr(node, "id", "")}
            assert not names & (banned | unsafe), f"{file}:{getattr(node, 'lineno', 0)}"
