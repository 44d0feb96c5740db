"""The canaries on the simulated server, through the same calls as on a real one."""

from __future__ import annotations

from day0.sandboxes.twin.conditions import Check, When
from day0.sandboxes.twin.world import Fault
from day0.tools import canary, probes

from tests.twin.node.conftest import SPECULATION

PARSERS = {"tool-call-parser": "glm47", "reasoning-parser": "glm45"}
KIT = probes.Kit(tool_parser="glm47", reasoning_parser="glm45")
RUNNER = {"moe-runner-backend": "triton"}
MIXED_UP = Fault(
    name="it mixes up experts", kind="wrong_output", wrong_share=0.5, time=0.7,
    when=When(flags={"moe-runner-backend": Check(equals="triton")}),
)  # fmt: skip


def asked(bench, flags, reference=None):
    with bench.serving({**PARSERS, **flags}) as (server, harness):
        assert server.facts.resolved["tool_call_parser"] == "glm47"
        task = canary.task_of(bench.model)
        return canary.answer(
            harness, server, task=task, concurrency=8, long_chars=9000, kit=KIT, reference=reference
        )  # fmt: skip


def test_s34_every_canary_is_asked_at_load_and_a_broken_candidate_fails_it(bench_of):
    bench = bench_of(faults=(MIXED_UP,))
    plain = asked(bench, {})
    assert {c.name for c in plain.canaries} == {canary.LONG, *probes.NAMES}
    assert all(c.state == "passed" for c in plain.canaries), plain.detail
    other = asked(bench, {"chunked-prefill-size": 8192}, plain.answers)
    assert other.passed and all(c.state == "passed" for c in other.canaries), other.detail
    assert "nats a token against the reference" in other.detail
    broken = asked(bench, RUNNER, plain.answers)
    assert not broken.passed
    states = {c.name: c.state for c in broken.canaries}
    assert states[probes.LOGPROBS] == "failed" and states[probes.TEMPLATE] == "passed"


def test_s34_every_canary_is_asked_with_speculation_on_too_and_drafts_that_are_wrongly_kept_fail_it(bench_of):
    drafts = {"speculative-algorithm": Check(absent=False), "moe-runner-backend": Check(equals="triton")}
    bench = bench_of(faults=(MIXED_UP.model_copy(update={"when": When(flags=drafts)}),))
    plain = asked(bench, {})
    drafted = asked(bench, SPECULATION, plain.answers)
    assert drafted.passed and {c.name for c in drafted.canaries} == {canary.LONG, *probes.NAMES}
    assert all(c.state == "passed" for c in drafted.canaries), drafted.detail
    assert asked(bench, RUNNER, plain.answers).passed, "it is the drafts that are wrong"
    broken = asked(bench, {**SPECULATION, **RUNNER}, plain.answers)
    assert not broken.passed and {c.name: c.state for c in broken.canaries}[probes.LOGPROBS] == "failed"
