import httpx
import pytest
from day0.runs.candidate import Candidate
from day0.runs.errors import CandidateFailed, Refused
from day0.tools.engines import ENGINES
from day0.tools.engines.sglang import Sglang


def candidate(**flags):
    named = {name.replace("_", "-"): value for name, value in flags.items()}
    return Candidate(engine="sglang", build="sha256:b", model="/m", revision="r", flags=named, env={"A": "1"})


def test_the_command_line_is_an_argument_list_in_a_stable_order(facts):
    asked = candidate(tp_size=2, dtype="float32", disable_radix_cache=True, enable_tf32_matmul=False,
                      mem_fraction_static=0.25, cuda_graph_bs_decode="1 2")  # fmt: skip
    launch = Sglang().launch(asked, facts, host="127.0.0.1", port=31999)
    assert launch.argv == (
        "python", "-m", "sglang.launch_server", "--model-path", "/m", "--host", "127.0.0.1", "--port", "31999",
        "--enable-metrics", "--cuda-graph-bs-decode", "1", "2", "--disable-radix-cache", "--dtype", "float32",
        "--no-enable-tf32-matmul", "--mem-fraction-static", "0.25", "--tp-size", "2",
    )  # fmt: skip
    assert launch.env["HF_HUB_OFFLINE"] == "1"
    assert launch.env["A"] == "1"


def test_a_flag_of_another_build_never_reaches_the_command_line(facts):
    with pytest.raises(Refused):
        Sglang().launch(candidate(nsa_prefill_backend="tilelang"), facts, host="h", port=1)


def test_adapters_are_found_by_name():
    assert ENGINES["sglang"].name == "sglang"


METRICS = """# HELP sglang:num_running_reqs x
sglang:num_running_reqs{engine_type="unified",tp_rank="0"} 2.0
sglang:num_running_reqs{engine_type="unified",tp_rank="0",dp_rank="1"} 3.0
sglang:num_queue_reqs{tp_rank="0"} 1.0
sglang:token_usage{dp_rank="0"} 0.25
sglang:token_usage{dp_rank="1"} 0.5
sglang:spec_accept_length{dp_rank="0"} 0.0
sglang:fwd_occupancy{x="a\\"b,c"} NaN
sglang:generation_tokens_total{is_streaming="true"} 100.0
sglang:realtime_tokens_total{mode="decode"} 140.0
sglang:realtime_tokens_total{mode="prefill_compute"} 60.0
sglang:num_requests_total{is_streaming="true"} 4.0
sglang:http_requests_active{endpoint="/generate",method="POST"} 6.0
sglang:http_requests_active{endpoint="/metrics",method="GET"} 1.0
not a metric
"""


def client(routes) -> httpx.Client:
    def answer(request: httpx.Request) -> httpx.Response:
        return routes[request.url.path]

    return httpx.Client(transport=httpx.MockTransport(answer), base_url="http://server")


def test_counters_are_read_and_what_is_missing_is_unknown():
    counters = Sglang().counters(client({"/metrics": httpx.Response(200, text=METRICS)}))
    assert (counters.running, counters.queued, counters.kv_use) == (5.0, 1.0, 0.5)
    assert counters.generated_tokens == 100.0
    assert counters.in_flight == 6.0
    assert counters.progress == 204.0
    assert counters.cached_tokens is None
    assert counters.acceptance_length is None


INFO = {
    "version": "0.5.23", "model_path": "/m", "dtype": "float32", "tp_size": 2, "chunked_prefill_size": 16000,
    "max_total_num_tokens": 4096, "mem_fraction_static": 0.085, "schedule_policy": "fcfs",
    "cuda_graph_bs_decode": [1, 2],
    "internal_states": [{"effective_max_running_requests_per_dp": 48}, {"effective_max_running_requests_per_dp": 48}],
}  # fmt: skip


def read_back(facts, info=None, **flags):
    asked = candidate(**flags)
    engine = Sglang()
    found = engine.boot_facts(
        client({"/server_info": httpx.Response(200, json={**INFO, **(info or {})})}), asked, 18.0, 3
    )
    engine.check_identity(asked, facts, found)
    return found


def test_resolved_arguments_are_read_back(facts):
    found = read_back(facts, dtype="float32", chunked_prefill_size="16k", tp_size="2", cuda_graph_bs_decode="1 2")
    assert (found.kv_tokens, found.max_running_requests, found.fallback_lines) == (4096, 96, 3)
    assert found.resolved["dtype"] == "float32"
    assert not found.differs


def test_what_the_engine_resolves_by_itself_is_recorded_and_allowed(facts):
    assert read_back(facts, mem_fraction_static=0.1).differs == {"mem_fraction_static": "0.085"}


@pytest.mark.parametrize(
    ("info", "flags", "says"),
    [
        ({"version": "0.5.20"}, {}, "version 0.5.20"),
        ({"model_path": "/other"}, {}, "model /other"),
        ({}, {"dtype": "bfloat16"}, "--dtype is float32, bfloat16 was asked"),
        ({}, {"schedule_policy": "lpm"}, "--schedule-policy is fcfs"),
    ],
)
def test_s43_a_server_that_runs_something_else_fails_on_identity(facts, info, flags, says):
    with pytest.raises(CandidateFailed) as failed:
        read_back(facts, info, **flags)
    assert failed.value.failure == "identity"
    assert says in failed.value.evidence


def test_s20_an_answer_without_text_is_no_answer():
    silent = {"text": "", "meta_info": {"completion_tokens": 8}}
    with pytest.raises(CandidateFailed) as failed:
        Sglang().answers(client({"/generate": httpx.Response(200, json=silent)}))
    assert failed.value.failure == "accuracy_wrong_output"
    spoken = {"text": " Paris", "meta_info": {"completion_tokens": 2}}
    assert Sglang().answers(client({"/generate": httpx.Response(200, json=spoken)})) == " Paris"
