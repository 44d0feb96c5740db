"""An earlier base's winner is verified again on the next one, without what is merged or stands there already (S76)."""

from contextlib import closing

import pytest
from day0.agent import carrying, upstreaming
from day0.agent.parts import Environments
from day0.agent.policy.actions import Finish
from day0.agent.policy.base import Answer
from day0.agent.policy.carried import CARRIED, Carried, Carrying
from day0.agent.policy.controls import Default
from day0.agent.policy.guard import admit
from day0.runs.candidate import Candidate
from day0.runs.errors import Refused
from day0.runs.facts import PatchMade
from day0.runs.ledger import Ledger
from day0.runs.patches import Patch
from day0.tools.upstream import Watched

ONE = Carried(attempt="r1-1.4", gain=0.2, flags={"tp-size": 2}, codemods=("rocm-guard",), dropped=("nextn (merged)",))


def test_s76_the_earlier_winner_comes_first_once_and_is_measured_as_any_candidate(make_node):
    node = make_node()
    carrying_ = Carrying(Default(), ONE)
    proposal = carrying_.decide(node.view())
    (action,) = proposal.actions
    assert (proposal.proposer, action.axis, action.parent) == (CARRIED, CARRIED, "r0.1")
    assert action.codemods == ("rocm-guard",) and dict(action.flags) == {"tp-size": 2}
    assert "r1-1.4" in action.hypothesis and "without nextn (merged)" in action.hypothesis
    refused = node.view(answers=(Answer(round=1, action=action, refused=True, text="no such flag"),))
    assert isinstance(carrying_.decide(refused).actions[0], Finish)
    assert carrying_.decide(node.view(baseline=None, attempts=())).proposer != CARRIED
    assert Carried(attempt="a", gain=0.0, dropped=("x",)).empty and not ONE.empty
    assert not isinstance(admit(action.model_copy(update={"flags": {}}), node.view()), Refused)


def patch(name, author=None):
    path = f"sglang/python/sglang/{name}.py"
    return Patch(
        name=name, title="t", author=author or f"codemod:{name}", build="sha256:old", diff=f"diff of {name}\n",
        before={path: "sha256:0"}, after={path: "sha256:1"},
    )  # fmt: skip


PATCHES = (patch("nextn-prefixes"), patch("rocm-guard"), patch("mine", "person"))
OLD, NEW = (Environments("e", f"sha256:{build}", "h", "sha256:h", digest=str) for build in ("old", "new"))


@pytest.fixture
def ledger(tmp_path):
    with closing(Ledger.open(f"sqlite:///{tmp_path / 'day0.sqlite'}")) as made:
        yield made


def won(ledger, request, build="sha256:old"):
    """A finished run whose winner carries the patches."""
    run = ledger.submit(request).run.id
    with ledger.write(run) as writer:
        for one in PATCHES:
            writer.event("patch_made", PatchMade(patch=one))
        base = Candidate(engine="sglang", build=build, model=request.model, revision=request.revision, flags={"a": 1})
        first = writer.add_attempt(candidate=base, proposer="baseline")
        writer.set_baseline(first.id)
        digests = tuple(one.digest() for one in PATCHES)
        best = base.model_copy(update={"flags": {"tp-size": 2}, "env": {"X": "1"}, "patches": digests})
        second = writer.add_attempt(candidate=Candidate.model_validate(best.model_dump()), proposer="playbook")
        writer.event("search_ended", {"status": "finished", "reason": "done"})
        told = {"workload": request.workloads[0].name, "ok": True}
        writer.event("confirmed", told, attempt=second.id)
    return run, second.id


def test_s76_a_merged_patch_is_dropped_by_itself_at_the_next_base_and_a_persons_diff_stays_behind(ledger, make_node):
    request = make_node().request()
    run, winner = won(ledger, request)
    later = ledger.submit(request.model_copy(update={"seed": 7})).run
    assert carrying.carried(ledger, later, OLD) is None, "the same base: the earlier recipe holds as it is"
    found = carrying.carried(ledger, later, NEW)
    assert (found.attempt, found.codemods) == (winner, ("nextn-prefixes", "rocm-guard"))
    assert dict(found.flags) == {"a": None, "tp-size": 2} and dict(found.env) == {"X": "1"}
    assert [d.partition(" ")[0] for d in found.dropped] == ["mine"]
    merged = Watched(patch=PATCHES[0].digest(), name="nextn-prefixes", state="merged", drop=True, why="PR 1 is merged")
    still = Watched(patch=PATCHES[1].digest(), name="rocm-guard", state="open", drop=False, why="PR 2 is open")
    for _ in range(2):
        upstreaming.note_merged(ledger, run, (merged, still))
    now = carrying.carried(ledger, later, NEW)
    assert now.codemods == ("rocm-guard",) and now.dropped[0] == "nextn-prefixes (PR 1 is merged)"
    other = ledger.submit(request.model_copy(update={"revision": "another"})).run
    assert carrying.carried(ledger, other, NEW) is None, "another revision is another model"
