"""What holds a knee back: named with its evidence, and never guessed where the server's counters are silent."""

from __future__ import annotations

import pytest
from day0.runs.engine_facts import BootFacts
from day0.runs.facts import LoadPoint, Percentiles
from day0.runs.workload import Slo, Workload
from day0.tools.explain import explain
from hypothesis import given
from hypothesis import strategies as st

WORK = Workload(name="w", input_tokens=4000, output_tokens=100, slo=Slo(ttft_ms=2000.0, tpot_ms=50.0))
BOOT = BootFacts(
    ready_s=1.0, version="0", model_path="m", max_running_requests=96,
    resolved={"dp_size": 2, "chunked_prefill_size": 8192, "mem_fraction_static": 0.85},
)  # fmt: skip


def flat(value: float, p95: float | None = None) -> Percentiles:
    return Percentiles(mean=value, p50=value, p95=p95 or value, p99=p95 or value)


def point(
    rate: float | None, *, ttft: float = 500.0, p95: float | None = None, tpot: float = 30.0, **more
) -> LoadPoint:
    limits = WORK.slo
    good = (p95 or ttft) <= limits.ttft_ms and tpot <= limits.tpot_ms and not more.get("void")
    known = {
        "workload": "w", "rate_rps": rate, "seed": 0, "window_s": 60.0, "offered": 60, "completed": 60, "failed": 0,
        "output_tok_s": 100.0 * (rate or 1.0), "total_tok_s": 100.0, "uncached_tok_s": 9000.0,
        "ttft_ms": flat(ttft, p95), "tpot_ms": flat(tpot), "success_share": 1.0, "duty": 20.0, "running_max": 40.0,
        "queue_max": 0.0, "kv_use_max": 0.5, "steady": True, "meets_slo": good,
    }  # fmt: skip
    return LoadPoint(**{**known, **more})


PASSED = point(2.0)


def names(*points: LoadPoint, boot: BootFacts = BOOT) -> list[str]:
    return [d.name for d in explain([PASSED, *points], boot, WORK)]


def test_s47_running_at_the_sum_of_the_caps_with_a_queue_is_an_admission_cap_and_its_experiment_lifts_it():
    (found,) = explain([PASSED, point(3.0, ttft=4000.0, queue_max=12.0, running_max=92.0)], BOOT, WORK)
    assert found.name == "admission cap" and "92 of 96" in found.evidence and "12 queued" in found.evidence
    assert found.flags == {"max-running-requests": 96}, "twice as many, asked of each of two replicas"
    assert names(point(3.0, ttft=4000.0, queue_max=12.0, running_max=90.0)) == ["prefill-bound"], "94 % is not the cap"


def test_s47_a_full_cache_is_named_before_prefill_is_blamed():
    (found,) = explain([PASSED, point(3.0, ttft=4000.0, queue_max=12.0, kv_use_max=0.97)], BOOT, WORK)
    assert found.name == "kv cap" and found.flags == {"mem-fraction-static": 0.89}
    tight = BOOT.model_copy(update={"resolved": {**BOOT.resolved, "mem_fraction_static": 0.93}})
    (found,) = explain([PASSED, point(3.0, ttft=4000.0, queue_max=12.0, kv_use_max=0.97)], tight, WORK)
    assert found.flags == {} and found.experiment


def test_s47_late_first_tokens_below_every_cap_are_prefill_or_bunches():
    (found,) = explain([PASSED, point(3.0, ttft=4000.0, queue_max=5.0)], BOOT, WORK)
    assert found.name == "prefill-bound" and found.flags == {"chunked-prefill-size": 16384}
    assert names(point(3.0, ttft=4000.0, queue_max=0.0)) == ["prefill-bound"], "even without a queue"
    assert names(point(3.0, ttft=600.0, p95=4000.0, queue_max=5.0)) == ["queueing"]
    assert names(point(3.0, ttft=600.0, p95=4000.0, queue_max=5.0, steady=False)) == ["prefill-bound"]


def test_s47_slow_steps_are_decode_and_name_what_the_log_told():
    slow = point(3.0, tpot=80.0)
    (found,) = explain([PASSED, slow], BOOT.model_copy(update={"fallback_lines": 7}), WORK)
    assert found.name == "decode-bound" and "7 lines" in found.experiment and "speculation" in found.experiment
    (found,) = explain([PASSED, slow.model_copy(update={"acceptance_length": 2.1})], BOOT, WORK)
    assert "speculation" not in found.experiment
    assert names(point(3.0, tpot=80.0, ttft=4000.0, queue_max=9.0, running_max=96.0)) == [
        "decode-bound",
        "admission cap",
    ], "a larger cap would make steps slower still: it comes second"


def test_s41_a_load_generator_that_was_too_slow_is_named_and_not_the_server():
    late = point(3.0, void="harness: the load generator used 97% of its core", meets_slo=False)
    (found,) = explain([PASSED, late], BOOT, WORK)
    assert found.name == "load generator" and "97%" in found.evidence
    assert names(point(2.5, ttft=4000.0, queue_max=4.0), late) == ["prefill-bound"], "the server failed before it"


def test_throughput_that_falls_beyond_a_rate_is_a_cliff():
    peak = point(3.0, ttft=4000.0, queue_max=9.0, running_max=80.0, output_tok_s=300.0, total_tok_s=900.0)
    over = point(4.0, ttft=9000.0, queue_max=90.0, running_max=96.0, output_tok_s=200.0, total_tok_s=600.0)
    cliff, second = explain([PASSED, peak, over], BOOT, WORK)
    assert cliff.name == "cliff" and cliff.flags == {"max-running-requests": 40} and second.name == "prefill-bound"
    assert "cliff" not in names(peak, over.model_copy(update={"output_tok_s": 280.0}))
    assert "cliff" not in names(peak, over.model_copy(update={"total_tok_s": 890.0})), "prompts are read first"


def test_nothing_is_said_where_nothing_is_shown():
    assert names() == ["none"] and "lies higher" in explain([PASSED], BOOT, WORK)[0].evidence
    silent = point(3.0, ttft=4000.0, queue_max=None, running_max=None, kv_use_max=None)
    (found,) = explain([PASSED, silent], BOOT, WORK)
    assert found.name == "none" and "counters show no cause" in found.evidence and not found.experiment
    assert names(point(3.0, void="cut: it did not end", meets_slo=False)) == ["none"]
    (found,) = explain([], BOOT, WORK)
    assert found.name == "none"


def test_clients_without_a_rate_wait_for_prefill_or_for_decode():
    assert explain([point(None, ttft=9000.0)], BOOT, WORK)[0].name == "prefill-bound"
    assert explain([point(None, ttft=100.0)], BOOT, WORK)[0].name == "decode-bound"


@given(
    st.lists(
        st.builds(
            point,
            st.floats(0.5, 8.0),
            ttft=st.floats(10.0, 9000.0),
            tpot=st.floats(5.0, 99.0),
            queue_max=st.sampled_from([None, 0.0, 20.0]),
            running_max=st.sampled_from([None, 10.0, 96.0]),
            kv_use_max=st.sampled_from([None, 0.2, 1.0]),
        ),
        max_size=5,
    )
)
def test_whatever_was_measured_there_is_one_first_diagnosis_and_the_order_of_points_does_not_matter(points):
    rates = [p.rate_rps for p in points]
    if len({*rates}) == len(rates):
        assert explain(points, BOOT, WORK) == explain(points[::-1], BOOT, WORK)
    found = explain(points, BOOT, WORK)
    assert found and len({d.name for d in found}) == len(found)
    assert all(bool(d.experiment) == (d.name != "none") for d in found)


@pytest.mark.parametrize("flags", [{}, {"dp_size": 0}, {"dp_size": None}])
def test_a_server_that_names_no_replicas_is_one(flags):
    boot = BOOT.model_copy(update={"resolved": flags})
    (found,) = explain([PASSED, point(3.0, ttft=4000.0, queue_max=1.0, running_max=96.0)], boot, WORK)
    assert found.flags == {"max-running-requests": 192}
