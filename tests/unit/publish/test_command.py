"""`day0 publish`: the ledger's approvals on one side, a bare repository or a folder on the other."""

import json
import os
import sys
from contextlib import closing
from pathlib import Path

import engine
import pytest
from day0.agent.settings import load
from day0.runs.candidate import Candidate
from day0.runs.ledger import Ledger
from day0.runs.schema import RunRequest
from day0.runs.workload import MeasureRules, Target, Workload
from day0.tools.forge.files import FOLDER
from git import Repo

from .conftest import made

AUTHOR = ("--author", "Ada Person <ada@example.org>")
RULES = MeasureRules(point_s=8, min_requests=8, p95_multiples=0, max_points=5, max_pairs=4, stability_s=0)
TARGET = Target(
    name="twin", kind="twin", accelerator="mi355x", stall_s=20, boot_stall_s=20, boot_cap_s=240, measure=RULES,
    workload="chat",
)  # fmt: skip
PATCHES = (made("rocm-guard"), made("nextn-prefixes"))


@pytest.fixture
def home(tmp_path, monkeypatch):
    for name in [name for name in os.environ if name.startswith("DAY0_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("DAY0_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


@pytest.fixture
def day0(home, monkeypatch, capsys):
    from day0.agent.cli import main

    def call(*argv):
        monkeypatch.setattr(sys, "argv", ["day0", *argv])
        try:
            main()
            code = 0
        except SystemExit as ended:
            code = ended.code or 0
        out = capsys.readouterr()
        return code, out.out, out.err

    return call


@pytest.fixture
def run(home):
    with closing(Ledger.open(load().database)) as ledger:
        workload = Workload(name="chat", input_tokens=320, output_tokens=48)
        request = RunRequest(model="tiny", revision="r1", target=TARGET, workloads=(workload,))
        run = ledger.submit(request).run.id
        with ledger.write(run) as writer:
            digests = tuple(p.digest() for p in PATCHES)
            writer.add_attempt(
                candidate=Candidate(engine="sglang", build="b", model="m", revision="r", patches=digests),
                proposer="playbook",
            )
            for patch in PATCHES:
                writer.add_patch(patch)
    return run


def told(ledger_home, kind):
    with closing(Ledger.open(load().database)) as ledger:
        return [e.data for run in ledger.runs() for e in ledger.facts(run.id, kind)]


def test_s78_nothing_leaves_before_somebody_approved_it(day0, run, staging):
    to = str(staging.folder)
    code, out, _ = day0("publish", "--to", to, *AUTHOR)
    assert code == 0 and "no patch is approved" in out and list(staging.branches()) == ["main"]
    code, _, err = day0("publish", PATCHES[0].short, "--to", to, *AUTHOR)
    assert code == 2 and "not approved" in err
    day0("patch", "reject", PATCHES[0].short)
    assert "is rejected" in day0("publish", PATCHES[0].short, "--to", to, *AUTHOR)[2]
    assert not (staging.folder / FOLDER).exists()


def test_s71_two_approved_patches_twice_published_are_one_pull_each(day0, run, staging, home):
    for patch in PATCHES:
        assert day0("patch", "approve", patch.short)[0] == 0
    code, out, _ = day0("publish", "--to", staging.folder.as_uri(), *AUTHOR, "--json")
    first = json.loads(out)
    assert code == 0 and [s["status"] for s in first] == ["opened", "opened"]
    assert len(told(home, "patch_pushed")) == len(told(home, "patch_sent")) == 2
    code, out, _ = day0("publish", "--to", str(staging.folder), *AUTHOR, "--json")
    again = json.loads(out)
    assert [s["status"] for s in again] == ["unchanged"] * 2
    assert [s["pull"] for s in again] == [s["pull"] for s in first] == [1, 2]
    assert len(list((staging.folder / FOLDER).glob("*.json"))) == 2 and len(staging.branches()) == 3
    body = json.loads((staging.folder / FOLDER / "1.json").read_text())["body"]
    assert f"`{run}.1`" in body and "simulated" in body


def test_without_a_forge_a_folder_holds_what_git_am_takes(day0, run, staging):
    for patch in PATCHES:
        day0("patch", "approve", patch.short)
    code, _, _ = day0("publish", "--folder", "out", *AUTHOR)
    mails = sorted(Path("out").glob("*.patch"))
    assert code == 0 and len(mails) == 2 and len(list(Path("out").glob("*.pull.md"))) == 2
    work = Repo(staging.work.working_dir)
    work.git.am("--quiet", "--keep-non-patch", *[str(m.absolute()) for m in mails])
    head = work.head.commit
    assert head.author.email == "ada@example.org" and "Signed-off-by: Ada Person <ada@example.org>" in head.message
    text = (head.tree / engine.METADATA.removeprefix("sglang/")).data_stream.read().decode()
    assert "#ifndef USE_ROCM" in text and head.parents[0].message.startswith("[AMD] ")
    before = [m.read_bytes() for m in mails]
    day0("publish", "--folder", "out", *AUTHOR)
    assert [m.read_bytes() for m in mails] == before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--author", "nobody"), "is no person"),
        ((), "nobody signs off"),
        ((*AUTHOR, "--to", "not a repository"), "neither a bare repository"),
        ((*AUTHOR, "--to", "owner/name"), "needs a token"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_2(day0, run, words, said):
    day0("patch", "approve", PATCHES[0].short)
    code, out, err = day0("publish", *words)
    assert code == 2 and out == "" and said in err and len(err.strip().splitlines()) == 1


def test_no_other_process_keeps_the_forges_token(monkeypatch):
    from day0.agent import compose

    monkeypatch.setenv("DAY0_FORGE_TOKEN", "x" * 20)
    compose.quiet()
    assert "DAY0_FORGE_TOKEN" not in os.environ
