"""Tier 2 of a whole run on the simulated node: the reference as control, the winner paired with it, one label."""

from __future__ import annotations

import json
from functools import partial

from day0.agent import accuracies, show, show_best, twin
from day0.agent.controller import Controller
from day0.agent.settings import load
from day0.runs.documents import target
from day0.runs.facts import FailureClass, Rung
from day0.runs.ledger import Ledger
from day0.runs.queue import ControllerLock
from day0.runs.recipe import parse
from day0.runs.schema import RunRequest, RunStatus
from day0.runs.workload import MeasureRules, Slo, Workload
from day0.sandboxes.twin.conditions import Check, When
from day0.sandboxes.twin.world import Fault, world
from day0.tools import evals
from day0.tools.revision import revision_of

RULES = MeasureRules(point_s=40.0, min_requests=60, p95_multiples=0.0, max_points=3, max_pairs=2, stability_s=0.0)
WORKLOAD = Workload(
    name="short", input_tokens=4000, output_tokens=120, prefixes=4, cached_share=0.5,
    slo=Slo(ttft_ms=3000.0, tpot_ms=30.0),
)  # fmt: skip
SPECULATION = When(flags={"speculative-algorithm": Check(absent=False)})
CARD = (
    "---\nmodel-index:\n- results:\n  - dataset: {name: GSM8K}\n    metrics: [{type: exact_match, value: 0.97}]\n---\n"
)


def played(tmp_path, monkeypatch, found, questions, *, card=False, policy="playbook"):
    """The run, its ledger still open."""
    for name in ("DAY0_HOME", "DAY0_DATABASE_URL", "DAY0_LLM_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    settings = load(home=tmp_path)
    monkeypatch.chdir(tmp_path)
    model = twin.model(settings, found).relative_to(tmp_path)
    if card:
        (model / "README.md").write_text(CARD)
    file = tmp_path / "gsm8k.jsonl"
    lines = ({"question": f"What is {n} + 1?", "answer": f"one more\n#### {n + 1}"} for n in range(questions))
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    pinned = [e.model_dump(mode="json") for e in evals.asked([f"gsm8k={file}"], [], None)]
    aim = target("mi355x-twin").model_copy(update={"measure": RULES, "base_flags": {"tp-size": 8}})
    request = RunRequest(
        model=str(model), revision=revision_of(model, tmp_path), target=aim, workloads=(WORKLOAD,), policy=policy,
        max_attempts=1, options={"evals": pinned},
    )  # fmt: skip
    ledger = Ledger.open(settings.database)
    lock = ControllerLock(settings.database)
    assert lock.acquire(1.0)
    run = ledger.submit(request).run
    make_pool, make_parts = partial(twin.pool, world=found), partial(twin.parts, world=found)
    try:
        return Controller(settings, ledger, lock, lambda *_: None, make_pool, make_parts).work(run.id), ledger
    finally:
        lock.release()


def test_a_sound_winner_is_lossless_within_its_margin_and_recipe_and_show_say_so(tmp_path, monkeypatch):
    done, ledger = played(tmp_path, monkeypatch, world("glm-5.2").mended(), 2000, card=True)
    assert done.status == RunStatus.DONE and done.incumbent != done.baseline
    (stored,) = ledger.recipes(done.id)
    told = parse(stored.text).accuracy
    by_task = {(j.task, j.tier): j for j in told.tasks}
    paired = by_task["gsm8k", 2]
    assert (paired.verdict, paired.items, paired.paired) == ("lossless within margin", 2000, True)
    assert "without aiter" in paired.against and "same-stack" in told.reference
    published = by_task["gsm8k, published", 2]
    assert published.reference == 0.97 and not published.paired
    assert told.label in ("lossless within margin", "inconclusive") and f"answers: {told.label}" in stored.text
    assert {c.name for c in told.canaries} >= {"log-probabilities", "tool call", "long context"}
    (won,) = show.summary(ledger, done.id)["winners"]
    assert won["accuracy"]["label"] == told.label and told.label in show_best.answers_line(won)
    ledger.close()


def test_s34_a_winner_that_loses_more_than_the_margin_does_not_win(tmp_path, monkeypatch):
    broken = Fault(
        name="draft 9 of a step is not verified", kind="wrong_output", wrong_share=0.012, time=0.9,
        when=SPECULATION,
    )  # fmt: skip
    found = world("glm-5.2").mended()
    done, ledger = played(tmp_path, monkeypatch, found.model_copy(update={"faults": (*found.faults, broken)}), 4000)
    fast = next(a for a in ledger.attempts(done.id) if a.id != done.baseline)
    assert fast.verdict(Rung.ACCURACY), [v.evidence for v in fast.verdicts]
    verdict = fast.verdict(Rung.CONFIRM)
    assert not verdict.passed and verdict.failure == FailureClass.ACCURACY_WRONG_OUTPUT, verdict
    assert "lossy" in verdict.evidence and "gsm8k" in verdict.evidence
    assert accuracies.lossy(ledger, fast.id)
    assert fast.verdict(Rung.ACCURACY).passed, "no collapse: only the full eval can see it"
    assert done.incumbent == done.baseline
    (stored,) = ledger.recipes(done.id)
    assert parse(stored.text).accuracy.label != "lossless within margin"
    ledger.close()


def test_where_nothing_beats_the_defaults_they_are_the_winner_and_are_evaluated(tmp_path, monkeypatch):
    """What was asked for is not left out silently: held against the plain reference and the model card."""
    done, ledger = played(tmp_path, monkeypatch, world("glm-5.2").mended(), 400, card=True, policy="default")
    assert done.status == RunStatus.DONE and done.incumbent == done.baseline
    (stored,) = ledger.recipes(done.id)
    told = {(j.task, j.tier): j for j in parse(stored.text).accuracy.tasks}
    assert told["gsm8k", 2].paired and told["gsm8k", 2].items == 400
    assert "without aiter" in told["gsm8k", 2].against and told["gsm8k, published", 2].reference == 0.97
    ledger.close()
