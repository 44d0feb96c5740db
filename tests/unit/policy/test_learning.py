"""Failures that no known issue covers: what a run learns of them, for which builds, and what comes of it."""

import re

import pytest
from day0.agent.climb import failure
from day0.agent.explaining import diagnosed
from day0.agent.learning import lessons
from day0.agent.policy.playbook import Playbook
from day0.runs.candidate import Candidate
from day0.runs.errors import CandidateFailed
from day0.runs.facts import FailureClass, Rung, Verdict
from day0.tools.learned import issues_of, line_of, match, signature_of

LINE = "FrobError: block 512 of /opt/x/y.co at 0x7f12ab refuses page size 3"
EVIDENCE = f"the server ended with exit code 1; its last word: [2026-01-01 TP0] {LINE}"


def broken(node, number, evidence=EVIDENCE, issue="unknown"):
    attempt = node.attempts[number - 1]
    verdict = Verdict(rung=Rung.BOOT, passed=False, failure=FailureClass.CRASHED, evidence=evidence, issue=issue)
    update = {"verdicts": (verdict,), "knees": (), "status": "failed", "reason": "crashed"}
    node.attempts[number - 1] = type(attempt).model_validate({**attempt.model_dump(), **update})
    return node.attempts[number - 1]


def changed(node, number, **flags):
    base = node.attempts[number - 1].candidate
    made = Candidate.model_validate({**base.model_dump(), "flags": {**base.flags, **flags}})
    return node.climb(made, f"r0.{number}", "playbook")


@pytest.fixture
def node(make_node, glm):
    """The baseline, an attempt with a page size that crashes, and that one with another backend, which works."""
    made = make_node(lambda candidate: 1.0, noise=0.0, **glm)
    made.engine = made.engine.model_copy(update={"packages": {"sglang": "0.5.23", "torch": "2.9.1", "numpy": "2.2"}})
    changed(made, 1, **{"page-size": 64})
    broken(made, 2)
    changed(made, 2, **{"attention-backend": "triton"})
    return made


def learned(node):
    return [lesson for a in node.attempts for lesson in lessons(a, node.attempts, node.engine)]


def test_what_brought_a_failure_and_what_mended_it_are_learned_for_this_build_alone(node):
    undone, mended = learned(node)
    assert undone.id == mended.id and undone.build == node.engine.build
    assert (dict(undone.flags), undone.mended) == ({"page-size": None}, False)
    assert (dict(mended.flags), mended.mended) == ({"attention-backend": "triton"}, True)
    assert dict(undone.packages) == {"sglang": "0.5.23", "torch": "2.9.1"}
    (issue,) = issues_of([undone, mended], node.engine)
    assert [r.flags for r in issue.remedies] == [mended.flags, undone.flags]
    assert (
        match("it died; its last word: FrobError: block 9 of /a/b.co at 0x1 refuses page size 7", [issue]) == issue.id
    )
    assert not match("FrobError: something else altogether, block 9", [issue])
    for other in ({"build": "sha256:other"}, {"packages": {"sglang": "0.5.24", "torch": "2.9.1"}}):
        assert not issues_of([undone, mended], node.engine.model_copy(update=other)), "it expires with its stack"


def test_a_failure_that_was_met_before_is_named_and_its_remedy_comes_next(node):
    known = issues_of(learned(node), node.engine)
    again = CandidateFailed(
        "crashed", "it ended; its last word: FrobError: block 1 of /q/r.co at 0x2 refuses page size 9"
    )
    verdict = failure(Rung.BOOT, again, known)
    assert verdict.issue == known[0].id
    assert failure(Rung.BOOT, CandidateFailed("oom", LINE, "gpu-out-of-memory"), known).issue == "gpu-out-of-memory"
    changed(node, 1, **{"page-size": 32})
    broken(node, 4, again.evidence, verdict.issue)
    action = Playbook().decide(node.view(learned=known)).actions[0]
    assert (action.parent, action.axis, dict(action.flags)) == ("r0.4", "repair", {"attention-backend": "triton"})


def test_little_is_learned_where_little_can_be_said(node):
    attempts = list(node.attempts)
    attempts[1] = broken(node, 2, issue="lds-exceeded")
    assert not list(lessons(attempts[1], attempts, node.engine)), "a known issue needs no lesson"
    attempts[1] = broken(node, 2, evidence="no progress for 300 s; last line: Decode batch, #running-req: 5")
    assert not list(lessons(attempts[1], attempts, node.engine)), "a healthy line is no signature"
    attempts[1] = broken(node, 2, evidence="x; its last word: Error 5")
    assert not list(lessons(attempts[1], attempts, node.engine))


@pytest.mark.parametrize(
    "line", [LINE, "a.b.CError: ['x'] (1) not + in {2}", "Error: no kernel *?|.^$ for shape (1, 2)"]
)
def test_a_signature_matches_its_own_line_and_others_with_other_numbers(line):
    signature = signature_of(line)
    assert re.search(signature, line) and re.search(signature, re.sub(r"\d", "8", line))
    assert line_of(f"the server ended with signal 6; its last word: {line}") == line


def test_day0_diagnose_knows_what_runs_learned(node, tmp_path):
    file = tmp_path / "x.log"
    file.write_text(f"sglang starts\n{LINE}\n")
    found = diagnosed(file, issues_of(learned(node)))
    assert found["issue"].startswith("learned-") and found["confidence"] < 0.5
    assert "sglang 0.5.23" in found["cause"] and found["remedies"][0]["flags"] == {"attention-backend": "triton"}
