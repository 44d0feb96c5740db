"""Workloads as a user gives them: closed loops and random text through a whole run, bad files in one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest
from day0.runs.facts import Rung
from day0.runs.schema import RunStatus
from day0.runs.workload import Slo

from tests.twin.test_loop import WORKLOAD, Bench, bench  # noqa: F401 (a fixture)
from tests.unit.agent.test_cli import Day0, sentence, wrong

HEAD = "schema: day0/workload/v1\nname: w\n"


def test_a_closed_loop_is_measured_once_and_smoke_is_marked(bench: Bench) -> None:  # noqa: F811
    changes = {"name": "looped", "arrival": "closed_loop", "concurrency": 4, "text": "random", "slo": Slo()}
    run = bench.work(bench.submit(workloads=(WORKLOAD.model_copy(update=changes),)))
    assert run.status == RunStatus.DONE, run.reason
    for attempt in bench.ledger.attempts(run.id):
        measured = [p for _, rung, p in attempt.points if rung == Rung.MEASURE]
        assert [(p.concurrency, p.rate_rps, p.smoke, p.text) for p in measured] == [(4, None, True, "random")]
        knee = attempt.knee("looped")
        assert knee is not None and knee.bound_by == "4 clients that ask again at once" and knee.tpot_ms is None
        assert knee.rate_rps == pytest.approx(measured[0].output_tok_s / WORKLOAD.output_tokens)
    (recipe,) = bench.ledger.recipes(run.id)
    assert "label: smoke, short, simulated" in recipe.text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEAD + "input_tokens: 8\noutput_tokens: 4\narrival: closed_loop\n", "w.yaml:1: "),
        (HEAD + "input_tokens: 8\noutput_tokens: 4\nconcurrency: 3\n", "w.yaml:5: `concurrency`: only arrival"),
        (HEAD + "arrival: trace\ntrace: t.jsonl\n", "t.jsonl:2: `output_length` is missing"),
        (HEAD + "arrival: trace\ntrace: nowhere.jsonl\n", "nowhere.jsonl can't be read: no such file"),
        (HEAD + "arrival: trace\ntrace: t.jsonl\nprefixes: 2\n", "w.yaml:5: `prefixes` comes from the trace itself"),
    ],
)
def test_a_bad_workload_file_is_one_sentence(day0: Day0, model: Path, tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "w.yaml").write_text(text)
    (tmp_path / "t.jsonl").write_text(
        '{"timestamp": 0, "input_length": 3, "output_length": 4}\n{"timestamp": 9, "input_length": 3}\n'
    )
    assert message in sentence(wrong(day0, "run", str(model), "--workload", str(tmp_path / "w.yaml")))
