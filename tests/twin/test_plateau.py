"""S47 on the simulated node: a plateau is named from the server's counters, its cap is lifted, and measured again."""

from __future__ import annotations

from day0.runs.workload import Slo
from day0.sandboxes.twin.world import world
from day0.tools.explain import explain
from day0.tools.loadplan import closed_loop, open_loop
from day0.tools.summary import capacity_rps, summarise

from tests.twin.node.conftest import RULES, SHORT, Bench

WORK = SHORT.model_copy(update={"slo": Slo(ttft_ms=1500.0), "cached_share": 0.0, "prefixes": 1})


def test_s47_a_silent_cap_is_named_and_the_experiment_that_it_names_lifts_it(tmp_path):
    here = Bench(tmp_path, world("deepseek-v3.2-hidden-caps"))
    rate, seen = 0.0, []
    flags: dict[str, object] = {}
    for _ in range(2):
        with here.serving(flags) as (server, harness):
            if not rate:
                probe = closed_loop(WORK, RULES, concurrency=96, content_seed=1)
                rate = 2.0 * capacity_rps(summarise(probe, harness.run(probe, server), RULES), WORK.output_tokens)
            plan = open_loop(WORK, RULES, rate_rps=rate, seed=1, content_seed=2)
            point = summarise(plan, harness.run(plan, server), RULES)
            (first, *_) = explain([point], server.facts, WORK)
            seen.append((first.name, point.running_max, point.output_tok_s))
            assert point.void is None, point.void
            flags = flags or dict(first.flags)
    (name, running, output), (after, more, faster) = seen
    assert (name, running) == ("admission cap", 48.0) and flags["max-running-requests"] == 48
    assert after != "admission cap" or more == 96.0
    assert more > running and faster > output, "it was the cap and not the accelerators"
