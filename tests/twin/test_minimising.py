"""Of a proposed patch the smallest set of hunks that works goes to review: each is left out in a boot of its own."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from day0.agent import story, twin
from day0.agent.controller import Controller
from day0.agent.patch_evidence import evidence
from day0.agent.policy.actions import Finish, TryCandidate
from day0.agent.policy.base import Proposal
from day0.agent.settings import load
from day0.runs.documents import target
from day0.runs.ledger import Ledger
from day0.runs.queue import ControllerLock
from day0.runs.recipe import parse
from day0.runs.schema import FINISHED, RunRequest, RunStatus
from day0.sandboxes.twin.world import world
from day0.tools import patch
from day0.tools.patch import Files, Over
from day0.tools.patch_minimal import hunks
from day0.tools.revision import revision_of

from tests.twin.test_run import RULES, WORKLOAD

WORLD = world("glm-5.2")
EXTRA = """\
diff --git a/sglang/python/sglang/srt/extra.py b/sglang/python/sglang/srt/extra.py
new file mode 100644
index 0000000..89abcde
--- /dev/null
+++ b/sglang/python/sglang/srt/extra.py
@@ -0,0 +1 @@
+WANTED = False
"""
FLAGS = {
    "speculative-algorithm": "EAGLE", "speculative-num-steps": 3, "speculative-eagle-topk": 1,
    "speculative-num-draft-tokens": 4, "max-running-requests": 256, "disable-custom-all-reduce": True,
}  # fmt: skip


def proposed() -> str:
    """Both repairs and a file that nobody needs, as one diff."""
    tree = WORLD.builds[0].tree
    source, config, out = Files(tree), dict(WORLD.model.config), ""
    for name in ("nextn-prefixes", "rocm-guard"):
        made = patch.made(name, source, build="b", config=config)
        out += made.diff
        source = Over(source, patch.applied([made], source))
    return out + EXTRA


class Once:
    """Proposes one candidate, speculation with the diff, and then ends the search."""

    name = "auto"

    def decide(self, view) -> Proposal:
        base = view.attempt(view.baseline or "")
        if len(view.attempts) > 1 or view.answers or base is None or base.status not in FINISHED:
            return Proposal(proposer="llm", actions=(Finish(reason="done"),))
        action = TryCandidate(
            parent=base.id, flags=FLAGS, diff=proposed(), axis="patch", hypothesis="speculation with both repairs",
            expected_gain=0.3,
        )  # fmt: skip
        return Proposal(proposer="llm", actions=(action,))


def test_of_a_proposed_patch_the_smallest_that_works_goes_to_review_by_real_boots(tmp_path, monkeypatch):
    for name in ("DAY0_HOME", "DAY0_DATABASE_URL", "DAY0_LLM_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    settings = load(home=tmp_path)
    monkeypatch.chdir(tmp_path)
    model = twin.model(settings, WORLD).relative_to(tmp_path)
    rules = RULES.model_copy(update={"ablations": 8})
    aim = target("mi355x-twin").model_copy(update={"measure": rules, "base_flags": {"tp-size": 8}})
    request = RunRequest(
        model=str(model), revision=revision_of(model, tmp_path), target=aim, workloads=(WORKLOAD,), policy="auto",
        max_attempts=2,
    )  # fmt: skip
    ledger, lock = Ledger.open(settings.database), ControllerLock(settings.database)
    assert lock.acquire(1.0)
    try:
        run = ledger.submit(request).run
        make_pool = partial(twin.pool, world=WORLD)

        def make_parts(*given):
            return replace(twin.parts(*given, world=WORLD), policy=Once())

        done = Controller(settings, ledger, lock, lambda *_: None, make_pool, make_parts).work(run.id)
        assert done.status == RunStatus.DONE and done.incumbent != done.baseline, done.reason
        (measured,) = ledger.attempt(done.incumbent).candidate.patches
        (told,) = story.minimised(ledger, run.id).values()
        tried = [e.data for e in ledger.facts(run.id, "hunk_tried")]
        assert told["of"] == len(tried) == told["hunks"] + 1
        assert [t["works"] for t in tried] == [True] + [False] * told["hunks"], "each of the others is needed"
        (review,) = ledger.patches(run.id)
        assert review.patch.digest() == told["smallest"] != measured and review.patch.author == "llm"
        assert len(hunks(review.patch.diff)) == told["hunks"] and "extra.py" not in review.patch.diff
        (known,) = evidence(ledger, [review])
        assert known.attempts == (done.incumbent,) and known.rows[-1].what == "its hunks"
        (recipe,) = ledger.recipes(run.id)
        assert parse(recipe.text).configuration.patches == (measured,), "the recipe has what was measured"
    finally:
        lock.release()
        ledger.close()
