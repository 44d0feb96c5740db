"""The real callers on the simulated node: nobody of them knows where it is."""

from __future__ import annotations

import json

import httpx
import pytest
from day0.runs.errors import CandidateFailed, Refused
from day0.sandboxes.node import preflight
from day0.sandboxes.spec import SandboxSpec
from day0.sandboxes.twin.node import HARNESS
from day0.sandboxes.twin.programs import tuner
from day0.sandboxes.twin.tuning import UNTUNED_HEADER, VARIABLE
from day0.tools import canary
from day0.tools.loadplan import closed_loop, open_loop
from day0.tools.summary import summarise
from day0.tools.survey import survey

from tests.twin.node.conftest import RULES, SHORT, SPECULATION


def test_the_model_folder_is_surveyed_as_any_other(bench):
    facts = survey(bench.model)
    assert (facts.architecture, facts.experts, facts.nextn_layers) == ("GlmMoeDsaForCausalLM", 256, 1)
    assert facts.quantization == "quark fp4" and "model.layers.78.eh_proj" in facts.exclude
    assert facts.weight_bytes == pytest.approx(2 * 199.52 * 2**30, rel=0.01), "as a published server log says"
    assert len(canary.task_of(bench.model)) == 200


def test_the_node_tells_what_it_is(bench):
    facts = preflight(bench.node)
    assert (facts.cores, facts.governor, facts.numa_balancing, facts.problems) == (128, "performance", False, ())
    done = bench.node.host(["amd-smi", "metric", "--json"], timeout_s=5)
    assert len(json.loads(done.output)) == 8


def test_the_engine_tells_its_flags_and_unknown_ones_get_argparses_message(bench):
    assert bench.facts.version == "0.5.13.post1" and bench.facts.flag("tensor-parallel-size").name == "tp-size"
    with pytest.raises(Refused, match="no flag --tp-sise; the nearest are --tp-size"):
        bench.engine.check(bench.candidate({"tp-sise": 2}), bench.facts)
    with bench.node.open(SandboxSpec("job", bench.build, "r1.1")) as sandbox:
        process = sandbox.spawn(["python", "-m", "sglang.launch_server", "--model-path", "m", "--tp-sise", "2"])
        assert process.wait(60).code == 2
        assert b"error: unrecognized arguments: --tp-sise 2" in process.output(0, 1 << 20)


def test_a_server_boots_answers_and_is_measured(bench):
    flags = {**SPECULATION, "max-running-requests": 256, "disable-custom-all-reduce": True}
    with bench.serving(flags) as (server, harness):
        facts = server.facts
        assert 300 < facts.ready_s < 900 and facts.max_running_requests == 2 * 256 and not facts.differs
        assert facts.fallback_lines > 0, "no tuned rows for these shapes"
        assert b"Load weight end" in server.log() and server.process.vitals().vram_bytes > 4e11
        checked = canary.answer(harness, server, task=canary.task_of(bench.model), concurrency=8, long_chars=40_000)
        assert checked.passed and checked.score > 0.9
        probe = summarise(SHORT_PROBE, harness.run(SHORT_PROBE, server), RULES)
        assert probe.void is None and probe.output_tok_s > 100
        plan = open_loop(SHORT, RULES, rate_rps=2.0, seed=1, content_seed=2)
        before = bench.engine.counters(server.http)
        point = summarise(plan, harness.run(plan, server), RULES)
        after = bench.engine.counters(server.http)
    assert point.void is None and point.steady and point.completed == point.offered == 40
    assert point.cached_share == pytest.approx(0.5, abs=0.01) and point.acceptance_length > 3
    assert point.output_tok_s == pytest.approx(400, rel=0.1)
    assert after.finished_requests - before.finished_requests >= 40
    assert after.generated_tokens - before.generated_tokens >= 40 * 200 and after.running == 0
    assert bench.node.site.machine.vram_bytes == 0, "given back"


SHORT_PROBE = closed_loop(SHORT, RULES, concurrency=8, content_seed=1)


@pytest.mark.parametrize("after", [2.0, 30.0])
def test_a_plan_that_is_cut_while_priming_or_loading_answers_at_once(bench, after):
    with bench.serving() as (server, harness):
        plan = open_loop(SHORT.model_copy(update={"prefixes": 64}), RULES, rate_rps=2.0, seed=1, content_seed=2)
        raw = harness.run(plan, server, deadline_s=after)
    assert raw.cut and raw.requests.count < 60 and set(raw.requests.errors) <= {"cut", ""}


def test_the_silent_cap_is_in_the_servers_own_word(bench):
    with bench.serving(SPECULATION) as (server, _):
        assert server.facts.max_running_requests == 2 * 48


def test_a_second_boot_finds_compiled_kernels_and_the_same_point_is_the_same_number(bench):
    ready, points = [], []
    plan = open_loop(SHORT, RULES, rate_rps=1.0, seed=1, content_seed=2)
    for _ in range(2):
        with bench.serving() as (server, harness):
            ready.append(server.facts.ready_s)
            points.append(summarise(plan, harness.run(plan, server), RULES))
    assert ready[1] < ready[0] - 200
    assert points[0].ttft_ms == points[1].ttft_ms and points[0].output_tok_s == points[1].output_tok_s
    other = open_loop(SHORT, RULES, rate_rps=1.0, seed=1, content_seed=3)
    with bench.serving() as (server, harness):
        fresh = summarise(other, harness.run(other, server), RULES)
    assert fresh.tpot_ms.p50 != points[0].tpot_ms.p50
    assert fresh.tpot_ms.p50 == pytest.approx(points[0].tpot_ms.p50, rel=0.1), "noise, not another server"


def test_tuned_rows_take_effect_and_the_log_says_so(bench, tmp_path):
    rows = ["gfx,cu_num,token,model_dim,inter_dim,expert,topk,kernelName1"]
    rows += [f"gfx950,256,{2**n},6144,512,257,9,k" for n in range(15)]
    table = tmp_path / "rows.csv"
    table.write_text("\n".join(rows))
    paces = []
    for env in ({}, {VARIABLE: str(table)}):
        with bench.serving(env=env) as (server, harness):
            assert (server.facts.fallback_lines == 0) == bool(env)
            paces.append(summarise(SHORT_PROBE, harness.run(SHORT_PROBE, server), RULES).tpot_ms.p50)
    assert paces[1] < 0.9 * paces[0]


def test_the_tuner_makes_rows_that_the_server_takes(bench):
    seen = []
    with bench.node.open(SandboxSpec("job", bench.build, "r1.1", caches=("tables",))) as sandbox:
        rows = [
            f"{2**n},6144,512,257,9,ActivationType.Silu,torch.bfloat16,fp4,fp4,QuantType.per_1x32,1,0"
            for n in range(15)
        ]
        sandbox.write("untuned.csv", "\n".join([UNTUNED_HEADER, *rows]).encode())
        before = bench.node.clock.now()
        process = sandbox.spawn(["python3", tuner.SCRIPT, "-i", "untuned.csv", "-o", "tuned.csv"])
        assert process.wait(7200).code == 0
        assert bench.node.clock.now() - before == pytest.approx(1510, rel=0.01)
        table = bench.home / "tuned.csv"
        table.write_bytes(sandbox.read("tuned.csv", 1 << 20))
        assert sandbox.spawn(["python3", tuner.SCRIPT, "--no-such"]).wait(60).code == 2
        assert sandbox.spawn(["python3", tuner.SCRIPT, "-i", "missing.csv", "-o", "x"]).wait(60).code == 1
    for tp in (4, 8):
        flags = {"tp-size": tp, "dp-size": 8 // tp}
        with bench.serving(flags, {VARIABLE: str(table)}) as (server, _):
            seen.append(server.facts.fallback_lines)
    assert seen == [0, 10], "rows are of one layout"


def test_too_little_memory_is_an_oom_with_a_real_signature(bench):
    with pytest.raises(CandidateFailed) as error, bench.serving({"tp-size": 1, "dp-size": 8}):
        pass
    assert error.value.failure == "oom" and error.value.issue != "unknown"


def test_endpoints_speak_sglangs_protocol(bench):
    with bench.serving() as (server, _):
        http = server.http
        chat = http.post(
            "/v1/chat/completions",
            json={"model": "m", "messages": [{"role": "user", "content": "12 + 30 ="}], "max_tokens": 8},
        )
        assert chat.json()["choices"][0]["message"]["content"] == "42"
        text = http.post("/v1/completions", json={"prompt": "Once", "max_tokens": 8}).json()
        assert text["choices"][0]["text"] and text["usage"]["completion_tokens"] <= 8
        assert http.get("/v1/models").json()["data"][0]["id"] == str(bench.model)
        assert http.get("/health").status_code == 200 and http.get("/nowhere").status_code == 404
        assert http.post("/generate", content=b"no json").status_code == 400
        too_long = http.post("/generate", json={"text": "x" * 8_000_000})
        assert too_long.status_code == 400
        bench.engine.flush(http)


def test_a_stopped_server_refuses_and_a_harness_without_one_says_so(bench):
    with bench.serving() as (server, harness):
        port = server.port
        server.process.stop(10)
        with harness.sandbox.http(port) as http, pytest.raises(httpx.ConnectError):
            http.get("/health")
        ask = {"base_url": f"http://127.0.0.1:{port}", "model": "m", "concurrency": 2, "temperature": 0.0}
        ask |= {"request_deadline_s": 5.0, "questions": [{"key": "a", "prompt": "1 + 1", "max_tokens": 4}]}
        harness.sandbox.write("ask-9.json", json.dumps(ask).encode())
        harness.sandbox.spawn(["python", "-u", "ask.py", "9"]).wait(60)
        (answer,) = json.loads(harness.sandbox.read("answers-9.json", 1 << 20))["answers"]
        assert "refused" in answer["error"]


def test_s01_a_server_whose_day0_is_gone_is_found_with_its_memory_and_stopped(bench):
    with bench.node.open(SandboxSpec("server", bench.build, "r1.7")) as sandbox:
        candidate = bench.candidate()
        launch = bench.engine.launch(candidate, bench.facts, host="127.0.0.1", port=sandbox.free_port())
        sandbox.spawn(launch.argv, env=launch.env)
        bench.node.clock.sleep(1200)
        bench.node.vanish()
    again = bench.another()
    assert again.clock.now() == bench.node.clock.now(), "time goes on where it stood"
    held = json.loads(again.host(["amd-smi", "metric", "--json"], timeout_s=5).output)
    assert held[0]["mem_usage"]["used_vram"]["value"] > 100_000
    swept = again.sweep()
    assert {attempt for _, attempt in swept.stopped} == {"r1.7"} and len(swept.stopped) == 9
    assert again.site.machine.vram_bytes == 0 and again.sweep().stopped == ()
    assert HARNESS and not list((bench.home / "twin" / "twin-0" / "sandboxes").iterdir())
