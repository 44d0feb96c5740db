"""A trace replayed against a real SGLang server: lengths, bursts and shared prompts as the server counts them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from day0.runs import trace
from day0.runs.documents import workload
from day0.runs.engine_facts import EngineFacts
from day0.sandboxes.local import LocalNode
from day0.tools.bench import summarise
from day0.tools.install import EngineHome
from day0.tools.loadplan import arrivals, closed_loop, expected, open_loop

from tests.engine.test_bench_real import RULES, booted, engines, facts, model, node  # noqa: F401 (fixtures)

pytestmark = pytest.mark.timeout(400)


def conversations(file: Path) -> None:
    """Two agents whose prompts begin alike at each turn, and strangers in between."""
    lines = []
    for turn in range(8):
        for agent in (0, 1):
            call = {"timestamp": 1000 * turn + 3 * agent, "input_length": 600 + 5 * turn, "output_length": 8 + turn}
            lines.append(json.dumps(call | {"hash_ids": [agent, 10 + 2 * turn + agent]}))
        lines.append(json.dumps({"timestamp": 1000 * turn + 400, "input_length": 130, "output_length": 6}))
    file.write_text("\n".join(lines))


def test_s45_a_trace_is_what_the_server_sees(
    node: LocalNode,  # noqa: F811
    engines: EngineHome,  # noqa: F811
    facts: EngineFacts,  # noqa: F811
    tmp_path: Path,
) -> None:
    conversations(tmp_path / "t.jsonl")
    (tmp_path / "w.yaml").write_text("schema: day0/workload/v1\nname: agents\narrival: trace\ntrace: t.jsonl\n")
    work = workload(str(tmp_path / "w.yaml"))
    with booted(node, engines, facts, model(node, engines, damaged=False)) as (server, harness):
        probe = closed_loop(work, RULES, concurrency=2, content_seed=1, trace=trace.of(work))
        first = summarise(probe, harness.run(probe, server), RULES)
        assert first.void is None and first.completed > 0
        plan = open_loop(work, RULES, rate_rps=1.0, seed=2, content_seed=2, trace=trace.of(work))
        raw = harness.run(plan, server)
        point = summarise(plan, raw, RULES)
    assert point.void is None and point.completed == point.offered == 8
    asked = raw.requests
    order = asked.planned.argsort(kind="stable")
    assert asked.planned[order] == pytest.approx(arrivals(plan))
    assert sorted(asked.prompt_tokens) == sorted(float(c.input_tokens) for c in plan.calls)
    assert sorted(asked.output_tokens) == sorted(float(c.output_tokens) for c in plan.calls)
    share = expected(plan).cached_share
    assert share > 0.4
    # who comes while the prompt that it shares with is still being computed finds nothing: at least half do
    assert 0.5 * share < point.cached_share < share + 0.01
