"""The real wheels: both defects of GLM-5.2 in sglang 0.5.13.post1, from a run to pull requests; none in 0.5.17.

The node and its figures are simulated, the engine's source is not: pip fetches it.
"""

import json
import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from day0.runs.ledger import Ledger
from day0.tools import engine_source
from day0.tools.forge.files import FOLDER
from git import Repo

pytestmark = pytest.mark.timeout(900)
OLD, NEW = "sglang==0.5.13.post1", "sglang==0.5.17"
BUDGET = ("--max-attempts", "8")
AUTHOR = ("--author", "Ada Person <ada@example.org>")


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("real-source")
    probe = [sys.executable, "-m", "pip", "download", "--no-deps", "-q", "-d", str(folder / "probe"), OLD]
    if subprocess.run(probe, capture_output=True, timeout=600, check=False).returncode:
        pytest.skip(f"pip can't fetch {OLD} here")
    return folder / "home"


def day0(home, *argv):
    env = {k: v for k, v in os.environ.items() if not k.startswith("DAY0_")} | {"DAY0_HOME": str(home)}
    words = [sys.executable, "-m", "day0.agent", *argv]
    return subprocess.run(words, env=env, cwd=home.parent, capture_output=True, text=True, timeout=800, check=False)


def staging(home, files):
    """A bare repository with the release's own files on main."""
    bare, work = home.parent / "sglang.git", Repo.init(home.parent / "work", initial_branch="main")
    Repo.init(bare, bare=True, initial_branch="main")
    source = engine_source.folder_of(home, OLD)
    for path in files:
        file = Path(work.working_dir, path.removeprefix("sglang/"))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes((source / path).read_bytes())
    work.config_writer().set_value("user", "name", "Eve").set_value("user", "email", "eve@example.org").release()
    work.git.add("--all")
    work.git.commit("--quiet", "-m", "sglang 0.5.13.post1")
    work.git.push("--quiet", bare.as_uri(), "main")
    return bare


def test_s71_s76_two_approved_patches_of_a_run_on_the_real_source_become_one_pull_each(home):
    ran = day0(home, "run", "zai-org/GLM-5.2", "--target", "mi355x-twin", "--engine-source", OLD, *BUDGET)
    said = ran.stdout + ran.stderr
    assert ran.returncode == 0, said[-4000:]
    assert "nextn-prefixes: deepseek_nextn.py of this source would need it" in said
    assert "quark: no exclude entry for model.eh_proj" in said
    assert "fused_metadata_copy.cuh:38:10: fatal error: 'cuda_runtime.h' file not found" in said
    ledger = Ledger.open(f"sqlite:///{home / 'day0.sqlite'}")
    run = ledger.runs()[0].id
    rows = json.loads(day0(home, "patches", run, "--json").stdout)
    assert sorted(r["name"] for r in rows) == ["nextn-prefixes", "rocm-guard"]
    assert "simulated" in said and run in said
    bare = staging(home, [path for r in rows for path in r["files"]])
    for row in rows:
        assert day0(home, "patch", "approve", row["patch"]).returncode == 0
    sent = [json.loads(day0(home, "publish", "--to", str(bare), *AUTHOR, "--json").stdout) for _ in range(2)]
    ledger.close()
    assert [[s["status"] for s in each] for each in sent] == [["opened"] * 2, ["unchanged"] * 2]
    assert [s["pull"] for s in sent[1]] == [1, 2] and len(list((bare / FOLDER).glob("*.json"))) == 2
    heads = {head.name: head.commit for head in Repo(bare).heads}
    assert len(heads) == 3 and all(heads[s["branch"]].hexsha == s["commit"] for s in sent[1])
    for each in sent[1]:
        text = json.loads((bare / FOLDER / f"{each['pull']}.json").read_text())["body"]
        assert "fails at boot" in text and "All figures are simulated" in text
        for path, blob in ((b.path, b) for b in heads[each["branch"]].tree.traverse() if b.type == "blob"):
            if path.endswith(".py"):
                compile(blob.data_stream.read(), path, "exec")


def test_s76_the_later_release_has_both_already(home):
    with closing(Ledger.open(f"sqlite:///{home / 'day0.sqlite'}")) as ledger:
        earlier = ledger.runs()
    ran = day0(home, "run", "zai-org/GLM-5.2", "--target", "mi355x-twin", "--engine-source", NEW, *BUDGET)
    said = ran.stdout + ran.stderr
    assert ran.returncode == 0, said[-4000:]
    assert "nextn-prefixes: already upstream (sglang PR 30265)" in said
    assert "rocm-guard: already upstream (sglang PR 29373)" in said
    assert "the winner carries no patch: nothing waits for review" in said
    for name in ("nextn-prefixes", "rocm-guard") if earlier else ():
        assert f"{name} of the earlier base is dropped: already upstream" in said, "its winner is verified again"
    assert "no exclude entry" not in said and "file not found" not in said
