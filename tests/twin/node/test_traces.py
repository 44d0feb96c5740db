"""A trace on the simulated node: each request of its own lengths, prompts that begin alike found again."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from day0.runs import trace
from day0.runs.documents import workload
from day0.sandboxes.twin.costs import Costs
from day0.sandboxes.twin.promptcache import PromptPool, Prompts
from day0.sandboxes.twin.replica import ServerSpec
from day0.sandboxes.twin.simulate import Load, simulate
from day0.tools.loadplan import arrivals, closed_loop, expected, open_loop
from day0.tools.summary import summarise
from hypothesis import given
from hypothesis import strategies as st

from tests.twin.node.conftest import RULES

BLOCK = 512


def conversations(folder, agents=4, turns=12):
    """Agents whose prompts grow turn by turn, each far enough apart that the turn before was answered."""
    lines = []
    for turn in range(turns):
        for agent in range(agents):
            blocks = [1000 * agent + n for n in range(2 + turn)]
            call = {"timestamp": 8000 * turn + 900 * agent, "input_length": BLOCK * len(blocks) - 30 * (agent + 1)}
            lines.append(json.dumps(call | {"output_length": 20 + 7 * agent + turn, "hash_ids": blocks}))
    (folder / "t.jsonl").write_text("\n".join(lines))
    (folder / "w.yaml").write_text("schema: day0/workload/v1\nname: agents\narrival: trace\ntrace: t.jsonl\n")
    return workload(str(folder / "w.yaml"))


def test_s45_a_trace_is_what_the_simulated_server_sees(bench, tmp_path):
    work = conversations(tmp_path)
    plan = open_loop(work, RULES, rate_rps=0.4, seed=2, content_seed=2, trace=trace.of(work))
    probe = closed_loop(work, RULES, concurrency=2, content_seed=1, trace=trace.of(work), warmup=False)
    with bench.serving({"dp-size": 1}) as (server, harness):
        raw = harness.run(plan, server)
        alone = summarise(probe, harness.run(probe, server), RULES)
    point, asked = summarise(plan, raw, RULES), raw.requests
    assert point.void is None and point.completed == point.offered and alone.void is None and alone.completed > 10
    order = asked.planned.argsort(kind="stable")
    assert asked.planned[order] == pytest.approx(arrivals(plan), abs=1e-3)
    assert asked.prompt_tokens[order].tolist() == [c.input_tokens for c in plan.calls]
    assert asked.output_tokens[order].tolist() == [c.output_tokens for c in plan.calls]
    share = expected(plan).cached_share
    assert share > 0.6 and point.cached_share == pytest.approx(share, abs=0.05)
    assert point.forced_tokens is not None and 0 <= point.forced_tokens < point.answer_tokens
    assert "forced past the end" in point.beside() and point.beside().startswith("prose, T 0")


def test_a_server_without_a_prefix_cache_finds_nothing_of_a_trace(bench, tmp_path):
    work = conversations(tmp_path)
    plan = open_loop(work, RULES, rate_rps=0.4, seed=2, content_seed=2, trace=trace.of(work))
    with bench.serving({"dp-size": 1, "disable-radix-cache": True}) as (server, harness):
        point = summarise(plan, harness.run(plan, server), RULES)
    assert point.void is None and point.cached_share == 0.0


COSTS = Costs(
    fixed=1e-3, token=1e-5, matrix=0, shared_read=0, expert_read=0, experts=0, per_token=0, expert_row=0, kappa=0,
    drafts=0, prompt_fixed=1e-3, prompt_token=1e-5, prompt_read=0, pair=0, verify=1,
)  # fmt: skip
SERVER = ServerSpec(replicas=1, cap=64, chunk=8192, kv_tokens=100_000, costs=COSTS)


def load(calls, gap):
    at = tuple(gap * n for n in range(len(calls)))
    return Load(0, 0, 0, 0, tuple(range(len(calls))), at, calls=tuple(calls), block=BLOCK)


def test_what_was_shared_is_evicted_when_the_pool_is_small():
    calls = [(BLOCK * 8, 4, tuple(100 * agent + n for n in range(8))) for agent in (0, 1, 2)] * 6
    roomy = simulate(SERVER, load(calls, 1.0)).requests
    tight = simulate(replace(SERVER, kv_tokens=BLOCK * 10), load(calls, 1.0)).requests
    assert roomy.cached[3:] == [BLOCK * 8 - 1] * 15 and sum(tight.cached) == 0


def test_lengths_of_their_own_cost_their_own_time():
    calls = [(1000, 2, (1,)), (1000, 200, (2,)), (20_000, 2, tuple(range(10, 50)))]
    r = simulate(SERVER, load(calls, 100.0)).requests
    took = np.array(r.finish) - np.array(r.arrive)
    first = np.array(r.first) - np.array(r.arrive)
    assert took[1] - took[0] == pytest.approx(198 * COSTS.step(1)) and first[2] > 10 * first[0]


prompts = st.lists(
    st.tuples(st.integers(0, 3), st.integers(1, 4), st.integers(1, BLOCK), st.integers(1, 200)), min_size=1, max_size=25
)


@given(prompts, st.integers(3000, 12_000), st.lists(st.booleans(), min_size=40, max_size=40), st.booleans())
def test_whatever_runs_the_pool_never_holds_more_than_it_has_and_gives_all_back(given_, capacity, early, reuse):
    """Admitted in turn, some ended at once and some at the end: nothing is lost, nothing is locked for ever."""
    blocks = [tuple(100 * agent + n for n in range(count)) for agent, count, _, _ in given_]
    tokens = [BLOCK * (count - 1) + last for _, count, last, _ in given_]
    pool = PromptPool(capacity, Prompts(blocks, tokens, BLOCK), reuse=reuse)
    running = []

    def end(number, own):
        pool.release(number, number, own, tokens[number] + given_[number][3])

    for number, (_, _, _, output) in enumerate(given_):
        hit = pool.admit(number, tokens[number], output)
        assert hit < tokens[number] and pool.held + pool.cached <= capacity
        if hit < 0:
            continue
        own = tokens[number] - hit + output
        own -= pool.filled(number)
        assert pool.held + pool.cached <= capacity and own >= 0
        assert pool.pinned == sum(pool.entries[node] for node in pool.locks) <= pool.cached
        if early[number]:
            end(number, own)
        else:
            running.append((number, own))
    for number, own in running:
        end(number, own)
    assert pool.held == pool.pinned == 0 and not pool.locks and pool.cached == sum(pool.entries.values()) <= capacity
    assert reuse or not pool.cached
