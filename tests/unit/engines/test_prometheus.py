from __future__ import annotations

from day0.tools.engines import prometheus

TEXT = """# HELP sglang:num_running_reqs The number of running requests.
# TYPE sglang:num_running_reqs gauge
sglang:num_running_reqs{engine_type="unified",model_name="m",tp_rank="0"} 3.0
sglang:num_running_reqs{engine_type="unified",model_name="m",tp_rank="1"} 4.0
sglang:time_to_first_token_seconds_bucket{le="0.1",model_name="m"} 12.0
sglang:time_to_first_token_seconds_sum{model_name="m"} 1.5e+01
sglang:http_requests_active{endpoint="/generate",path="a \\"b\\" }"} 2.0
sglang:spec_accept_length{tp_rank="0"} 0.0
sglang:spec_accept_length{tp_rank="1"} 3.5
process_cpu_seconds_total 7
no value here
sglang:token_usage{tp_rank="0"} much
"""


def test_samples_are_read_by_name_and_buckets_are_left_out():
    found = prometheus.parse(TEXT)
    assert prometheus.total(found, "sglang:num_running_reqs") == 7.0
    assert prometheus.highest(found, "sglang:num_running_reqs") == 4.0
    assert prometheus.total(found, "sglang:time_to_first_token_seconds_sum") == 15.0
    assert prometheus.total(found, "process_cpu_seconds_total") == 7.0
    assert prometheus.mean_positive(found, "sglang:spec_accept_length") == 3.5
    assert [s.label("endpoint") for s in found["sglang:http_requests_active"]] == ["/generate"]
    assert not any("bucket" in name for name in found)


def test_what_makes_no_sense_or_is_not_there_is_none():
    found = prometheus.parse(TEXT)
    assert prometheus.total(found, "sglang:token_usage") is None and prometheus.highest(found, "no") is None
    assert prometheus.mean_positive(found, "sglang:num_queue_reqs") is None
    assert prometheus.parse("") == {}
