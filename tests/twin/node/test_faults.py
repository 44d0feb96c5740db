"""What goes wrong in worlds, as the real callers meet it: each fault with its condition, and without."""

from __future__ import annotations

import pytest
from day0.agent.climb import at_once
from day0.runs.errors import CandidateFailed, Infrastructure, NodeLost
from day0.runs.facts import Knee
from day0.sandboxes.simulated.steps import Out
from day0.sandboxes.spec import SandboxSpec
from day0.sandboxes.twin import defects
from day0.sandboxes.twin.conditions import Check, When
from day0.sandboxes.twin.node import TwinNode
from day0.sandboxes.twin.world import Fault, world
from day0.tools import canary
from day0.tools.loadplan import closed_loop, open_loop
from day0.tools.summary import summarise

from tests.twin.node.conftest import RULES, SHORT, SPECULATION

PROBE = closed_loop(SHORT, RULES, concurrency=40, content_seed=1)
RUNNER = {"moe-runner-backend": "triton"}


def on(flags=None, **more) -> When:
    return When(flags={k: Check(equals=v) for k, v in (flags or RUNNER).items()}, **more)


def fault(kind, when=None, **more) -> Fault:
    return Fault(name=f"a {kind}", kind=kind, when=when or on(), **more)


def fails(bench, flags=None, env=None) -> CandidateFailed:
    with pytest.raises(CandidateFailed) as error, bench.serving(flags or RUNNER, env):
        pass
    return error.value


@pytest.mark.parametrize("stage", ["import", "load", "pool", "graph", "warmup"])
def test_a_crash_at_boot_is_diagnosed_and_nothing_of_it_stays(bench_of, stage):
    line = "RuntimeError: ck_moe_stage2: device_gemm does not support this GEMM problem"
    bench = bench_of(faults=(fault("crash", stage=stage, log=("before", line)),))
    failed = fails(bench)
    assert (failed.failure, failed.evidence[-len(line) :]) == ("missing_kernel", line)
    assert bench.node.site.machine.vram_bytes == 0
    with bench.serving():
        pass


def test_a_hang_at_boot_is_noticed_by_silence(bench_of):
    bench = bench_of(faults=(fault("hang", stage="graph", log=("[aiter] waiting for baton release at /jit/lock",)),))
    before = bench.node.clock.now()
    failed = fails(bench)
    assert failed.failure == "hang_deadlock" and failed.issue == "jit-stale-lock"
    assert bench.node.clock.now() - before < 1500


def test_s28_twenty_silent_minutes_of_compilation_are_waited_for(bench_of):
    bench = bench_of(faults=(fault("slow_start", stage="graph", seconds=1200.0),))
    with bench.serving(RUNNER) as (server, _):
        assert 1500 < server.facts.ready_s < 2400


def test_s27_a_stale_lock_that_comes_back_fails_the_boot(bench_of, tmp_path):
    """Cleared and tried once more; never for ever."""
    bench = bench_of(node=world("glm-5.2").node.model_copy(update={"stale_lock": True}))
    (lock,) = (tmp_path / "twin" / "caches" / "jit").glob("lock_*")

    def in_vain(ctx):
        yield Out(f"{lock}\n".encode())

    extra = {"python clear_locks.py": in_vain}
    bench.node = TwinNode("twin-0", tmp_path / "twin", bench.world, cancel=lambda: False, extra=extra)
    began = bench.node.clock.now()
    assert fails(bench).issue == "jit-stale-lock"
    assert 600 < bench.node.clock.now() - began < 1400, "twice"


def test_s34_wrong_output_is_faster_and_caught_by_the_canaries(bench_of):
    bench = bench_of(faults=(fault("wrong_output", time=0.8),))
    paces, verdicts = [], []
    for flags in ({}, RUNNER):
        with bench.serving(flags) as (server, harness):
            task = canary.task_of(bench.model)
            verdicts.append(canary.answer(harness, server, task=task, concurrency=8, long_chars=9000).passed)
            paces.append(summarise(PROBE, harness.run(PROBE, server), RULES).tpot_ms.p50)
    assert verdicts == [True, False] and paces[1] < 0.9 * paces[0]


def test_output_that_is_wrong_only_at_load_is_right_alone(bench_of):
    bench = bench_of(faults=(fault("wrong_output", only_at_load=True),))
    with bench.serving(RUNNER) as (server, harness):
        items = [canary.TaskItem(prompt=f"{n} + 7 =", answer=str(n + 7)) for n in range(1, 90)]
        scores = [canary.accuracy(harness, server, task=items, concurrency=c).detail.split()[0] for c in (1, 8)]
    assert int(scores[0]) > 80 and int(scores[1]) < 60


def test_s34_output_that_is_wrong_in_large_batches_only_is_seen_at_the_served_concurrency(bench_of):
    bench = bench_of(faults=(fault("wrong_output", when=on(running=10)),))
    with bench.serving(RUNNER) as (server, harness):
        items = [canary.TaskItem(prompt=f"{n} + 7 =", answer=str(n + 7)) for n in range(1, 90)]
        knee = Knee(workload="w", rate_rps=9, goodput_tok_s=1, passed_rps=9, failed_rps=None, in_flight=39.2)
        few, many = (at_once(knees, 8, server.facts.max_running_requests) for knees in ([], [knee]))
        assert (few, many) == (8, 40)
        scores = [canary.accuracy(harness, server, task=items, concurrency=c).detail.split()[0] for c in (few, many)]
    assert int(scores[0]) > 80 and int(scores[1]) < 60


def test_a_silent_slow_path_shows_in_the_log_and_in_the_pace(bench_of):
    line = "[aiter] [fused_moe] using 2stage default for ('gfx950', 256)"
    bench = bench_of(faults=(fault("slow", stage="graph", log=(line,), time=1.6),))
    seen = []
    for flags in ({}, RUNNER):
        with bench.serving(flags) as (server, harness):
            seen.append((server.facts.fallback_lines, summarise(PROBE, harness.run(PROBE, server), RULES).tpot_ms.p50))
    assert seen[1][0] == seen[0][0] + 1 and seen[1][1] == pytest.approx(1.6 * seen[0][1], rel=0.1)


def test_a_deadlock_under_load_passes_smoke_and_stalls_the_point(bench_of):
    bench = bench_of(faults=(fault("hang", on(running=16)),))
    long = closed_loop(SHORT, RULES, concurrency=40, content_seed=1, window_s=800.0)
    with pytest.raises(CandidateFailed) as error, bench.serving(RUNNER) as (server, harness):
        harness.run(closed_loop(SHORT, RULES, concurrency=8, content_seed=1), server)
        harness.run(long, server)
    assert error.value.failure == "hang_deadlock"
    assert harness.partial is not None and harness.partial.requests.count == 40
    with bench.serving() as (server, harness):
        harness.run(PROBE, server)


def test_questions_at_a_load_that_deadlocks_are_never_answered(bench_of):
    bench = bench_of(faults=(fault("hang", on(running=4)),))
    with bench.serving(RUNNER) as (server, harness):
        task = canary.task_of(bench.model)
        assert canary.answer(harness, server, task=task, concurrency=2, long_chars=9000).passed
        checked = canary.accuracy(harness, server, task=task, concurrency=32)
        assert not checked.passed and "zero items" in checked.evidence
        assert bench.engine.counters(server.http).running == 32, "they hang there for ever"


def test_memory_runs_out_under_load_and_the_server_is_gone(bench_of):
    line = "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 3.00 GiB."
    bench = bench_of(faults=(fault("oom", on(running=16), log=(line,), exit_code=137),))
    with pytest.raises(CandidateFailed) as error, bench.serving(RUNNER) as (server, harness):
        harness.run(PROBE, server)
    assert error.value.failure == "oom" and bench.node.site.machine.vram_bytes == 0


def test_s15_memory_that_nobody_holds_makes_boots_fail_as_out_of_memory(bench_of):
    bench = bench_of(node=world("glm-5.2").node.model_copy(update={"leaked_gib": 200.0}))
    assert fails(bench).failure == "oom"
    assert bench.another().site.machine.leaked == 8 * 200 * 2**30, "it outlives day0"


def test_s02_a_node_that_dies_is_lost_for_good(bench_of):
    bench = bench_of(node=world("glm-5.2").node.model_copy(update={"dies_at_s": 700.0}))
    with pytest.raises(NodeLost), bench.serving():
        bench.node.clock.sleep(1000)
    with pytest.raises(NodeLost):
        bench.another().clock.sleep(1)


def test_s24_an_image_that_does_not_exist_is_infrastructure(bench):
    with pytest.raises(Infrastructure), bench.node.open(SandboxSpec("server", "lmsysorg/sglang:v9.9", "r1.1")):
        pass


def test_s46_a_burst_of_noise_slows_a_point_and_the_next_is_well(bench_of):
    noise = world("glm-5.2").noise.model_copy(update={"burst": 0.5, "burst_time": 1.5})
    bench = bench_of(noise=noise)
    with bench.serving() as (server, harness):
        paces = []
        for seed in range(6):
            plan = open_loop(SHORT, RULES, rate_rps=0.5, seed=1, content_seed=seed)
            paces.append(summarise(plan, harness.run(plan, server), RULES).tpot_ms.p50)
    slow = [p for p in paces if p > 1.3 * min(paces)]
    assert len(slow) in range(1, 6)


# -- found by looking ------------------------------------------------------------------------------------------------

CUH = "python/sglang/jit_kernel/csrc/fused_metadata_copy.cuh"
UNGUARDED = "#pragma once\n#include <cstdint>\n#include <cuda_runtime.h>\n"
GUARDED = "#pragma once\n#ifdef USE_ROCM\n#include <hip/hip_runtime.h>\n#else\n#include <cuda_runtime.h>\n#endif\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (UNGUARDED, "fused_metadata_copy.cuh:3:10: fatal error: 'cuda_runtime.h' file not found"),
        (GUARDED, ""),
        ("#if defined(__HIP_PLATFORM_AMD__)\n#else\n#include <cub/cub.cuh>\n#endif\n", ""),
        ("#include <hip/hip_fp16.h>\n#ifndef USE_ROCM\n#error CUDA\n#endif\n", ""),
        ('#include "beside.cuh"\n', ""),
        ('#include "/etc/passwd"\n', "fused_metadata_copy.cuh:1:10: fatal error: '/etc/passwd' file not found"),
        ("#ifdef USE_ROCM\n#error not for ROCm\n#endif\n", "error: not for ROCm"),
        ("#define SEL 1\n#if SEL && !defined(USE_ROCM)\n#include <cuda_fp16.h>\n#endif\n", ""),
    ],
)
def test_headers_are_really_preprocessed(text, told):
    files = ((CUH, text), (CUH.replace("fused_metadata_copy", "beside"), ""))
    found = defects.missing_header(CUH, files)
    assert told in found and bool(told) == bool(found)


def test_a_header_defect_is_there_until_the_source_is_patched(bench_of):
    base = world("glm-5.2")
    when = When(flags={"speculative-num-steps": Check(at_least=3)}, header=CUH)
    log = ("{evidence}", "the fused metadata copy failed, falling back to loop")
    build = base.builds[0].model_copy(update={"tree": {CUH: UNGUARDED}})
    bench = bench_of(builds=(build,), faults=(fault("slow", when, stage="graph", log=log, time=2.0),))
    with bench.serving(SPECULATION) as (server, harness):
        assert b"fatal error: 'cuda_runtime.h' file not found" in server.log()
        slow = summarise(PROBE, harness.run(PROBE, server), RULES).tpot_ms.p50
        assert server.sandbox.read(f"sgl-workspace/{CUH}", 1 << 16) == UNGUARDED.encode(), "tools can read it"
    patched = bench_of(builds=(build.model_copy(update={"tree": {CUH: GUARDED}}),), faults=bench.world.faults)
    with patched.serving(SPECULATION) as (server, harness):
        assert b"fatal error" not in server.log()
        assert summarise(PROBE, harness.run(PROBE, server), RULES).tpot_ms.p50 == pytest.approx(slow / 2, rel=0.1)


EXCLUDE = ["lm_head", "model.layers.78.eh_proj", "model.layers.78.mlp.gate"]
CONFIG = {"num_hidden_layers": 78, "quantization_config": {"quant_method": "quark", "exclude": EXCLUDE}}


@pytest.mark.parametrize(
    ("mapper", "more", "wrong"),
    [
        ('DRAFT_PREFIXES = {"model": "model.layers.61", "model.decoder": "model.layers.61"}', [], 2),
        ('DRAFT_PREFIXES = {"model": "model.layers.78", "model.decoder": "model.layers.78"}', [], 0),
        ('L = f"x"\nDRAFT_PREFIXES: dict = {"model": f"model.layers.{config.num_hidden_layers}"}', [], 1),
        ("DRAFT_PREFIXES = {", [], 2),
        ("", ["model.eh_proj", "re:model\\.decoder\\..*gate"], 0),
        ("", ["re:(", "model.decoder.mlp.gate"], 1),
    ],
)
def test_exclude_lists_are_really_evaluated(mapper, more, wrong):
    config = {**CONFIG, "quantization_config": {"exclude": [*EXCLUDE, *more]}}
    assert len(defects.mismatched_drafts(config, defects.draft_mapper(mapper, 78))) == wrong


def test_an_exclude_mismatch_is_mended_in_the_model_folders_own_config(bench_of):
    path = "python/sglang/srt/models/deepseek_nextn.py"
    build = (
        world("glm-5.2").builds[0].model_copy(update={"tree": {path: 'DRAFT_PREFIXES = {"model": "model.layers.61"}'}})
    )
    when = When(flags={"speculative-algorithm": Check(absent=False)}, drafts=path)
    line = "RuntimeError: The size of tensor a (256) must match the size of tensor b (512) at non-singleton dimension 1"
    bench = bench_of(builds=(build,), faults=(fault("crash", when, log=("draft layers: {evidence}", line)),))
    failed = fails(bench, SPECULATION)
    assert failed.failure == "shape_mismatch_quant" and b"model.eh_proj" in failed.log
    config = bench.model / "config.json"
    config.write_text(config.read_text().replace('"lm_head",', '"lm_head", "model.eh_proj", "model.shared_head.head",'))
    with bench.serving(SPECULATION):
        pass
