"""`day0 patches` and `day0 patch show|approve|reject`."""

import json
from contextlib import closing

import pytest
from day0.agent.settings import load
from day0.runs.candidate import Candidate
from day0.runs.ledger import Ledger
from day0.runs.patches import Patch
from day0.runs.schema import RunRequest
from day0.runs.values import sha256
from day0.runs.workload import MeasureRules, Target, Workload

DIFF = (
    "diff --git a/x.h b/x.h\n--- a/x.h\n+++ b/x.h\n@@ -1 +1,2 @@\n"
    "-#include <cuda.h>\n+#ifndef USE_ROCM\n+\x1b[31m// [red]\n"
)
PATCH = Patch(
    name="rocm-guard", title="Guard a header", author="codemod:rocm-guard", build="b", diff=DIFF,
    before={"sglang/x.h": sha256("a")}, after={"sglang/x.h": sha256("b")}, issue="jit-cuda-header",
    why="x.h:3: error \x1b]0;title\x07 sk-abcdefghijklmnop", upstream="sglang PR 29373", gone=("x",),
)  # fmt: skip
RULES = MeasureRules(point_s=8, min_requests=8, p95_multiples=0, max_points=5, max_pairs=4, stability_s=0)
TARGET = Target(
    name="cpu", kind="local", accelerator="cpu", stall_s=20, boot_stall_s=20, boot_cap_s=240, measure=RULES,
    workload="chat",
)  # fmt: skip


def request(seed):
    workload = Workload(name="chat", input_tokens=320, output_tokens=48)
    return RunRequest(model="tiny", revision="r1", target=TARGET, workloads=(workload,), seed=seed)


@pytest.fixture
def runs(home):
    """Two runs that made the same patch, and one without."""
    with closing(Ledger.open(load().database)) as ledger:
        made = [ledger.submit(request(seed)).run.id for seed in range(3)]
        for run in made[:2]:
            with ledger.write(run) as writer:
                candidate = Candidate(engine="sglang", build="b", model="m", revision="r", patches=(PATCH.digest(),))
                writer.add_attempt(candidate=candidate, proposer="playbook")
                writer.add_patch(PATCH)
    return made


def test_a_runs_patches_are_listed(day0, runs):
    code, out, _ = day0("patches", runs[0], "--json")
    (row,) = json.loads(out)
    assert code == 0 and (row["patch"], row["digest"]) == (PATCH.short, PATCH.digest())
    assert (row["status"], row["added"], row["removed"], row["files"]) == ("waiting", 2, 1, ["sglang/x.h"])
    assert "diff" not in row
    code, out, _ = day0("patches", runs[0])
    assert PATCH.short in out and "waiting" in out and "+2 -1" in out and "sglang PR 29373" in out
    code, out, _ = day0("patches", runs[2])
    assert code == 0 and "no patches" in out and json.loads(day0("patches", runs[2], "--json")[1]) == []


def test_s67_a_patch_is_shown_without_terminal_escapes_and_whole_in_json(day0, runs):
    code, out, _ = day0("patch", "show", PATCH.short[:8])
    assert code == 0 and "\x1b" not in out and "sk-abcdefghijklmnop" not in out and "[red]" in out
    assert f"{runs[0]}.1" in out and f"{runs[1]}.1" in out and "+#ifndef USE_ROCM" in out.splitlines()
    told = json.loads(day0("patch", "show", PATCH.digest(), "--json")[1])
    assert told["diff"] == DIFF and told["gone"] == ["x"] and len(told["attempts"]) == len(told["reviews"]) == 2


@pytest.mark.parametrize(("verb", "status"), [("approve", "approved"), ("reject", "rejected")])
def test_s78_a_review_is_of_that_content_in_every_run_and_final(day0, runs, verb, status):
    code, out, _ = day0("patch", verb, PATCH.short, "--reason", "read it\x1b[0m, token=abcdefghij")
    assert code == 0 and out.startswith(f"{status}: patch {PATCH.short}") and PATCH.digest() in out
    for run in runs[:2]:
        (row,) = json.loads(day0("patches", run, "--json")[1])
        assert row["status"] == status and row["reason"].startswith("read it") and "abcdefghij" not in row["reason"]
    assert day0("patch", verb, PATCH.short)[0] == 0, "the same again says the same"
    other = {"approve": "reject", "reject": "approve"}[verb]
    code, out, err = day0("patch", other, PATCH.short)
    assert code == 2 and out == "" and "a review is final" in err


@pytest.mark.parametrize("verb", ["show", "approve", "reject"])
@pytest.mark.parametrize("given", ["0000", "nonsense", "../..", "ab", "x; rm -rf /"])
def test_an_unknown_patch_is_one_sentence_and_exit_2(day0, runs, verb, given):
    code, out, err = day0("patch", verb, given)
    assert code == 2 and out == "" and len(err.strip().splitlines()) == 1 and err.startswith("day0: ")


def test_an_unknown_run_names_the_nearest(day0, runs):
    code, _, err = day0("patches", runs[0][:-1] + "9")
    assert code == 2 and f"did you mean {runs[0]}" in err
