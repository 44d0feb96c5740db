"""What each shipped world promises, met by the real callers; and what solves it, by the fluid estimate of its space."""

from __future__ import annotations

from pathlib import Path

import pytest
from day0.runs import documents
from day0.runs.errors import CandidateFailed, NodeLost, Refused
from day0.sandboxes.twin import checkpoint, oracle, rate
from day0.sandboxes.twin.node import TwinNode, environments
from day0.sandboxes.twin.wellformed import problems
from day0.sandboxes.twin.world import World, for_model, world
from day0.tools import canary, image
from day0.tools.forecast.models import geometry
from day0.tools.loadplan import closed_loop
from day0.tools.summary import summarise
from day0.tools.survey import survey

from tests.twin.node.conftest import RULES, SHORT, Bench

WORLDS = documents.names("world")
AGENTIC = documents.workload("agentic-20k1k")
PROBE = closed_loop(SHORT, RULES, concurrency=40, content_seed=1)


def bench(tmp_path, name, **changes) -> Bench:
    return Bench(tmp_path, world(name).model_copy(update=changes))


def test_there_are_at_least_fourteen_worlds_of_many_models_and_faults():
    found = [world(name) for name in WORLDS]
    assert len(found) >= 14 and len({w.model.id for w in found}) >= 12
    assert {w.solved_by for w in found} == {"flags", "tuning", "image", "codemod", "patch"}
    assert sum(w.solved_by == "patch" for w in found) >= 2
    assert {f.kind for w in found for f in w.faults} == {"crash", "hang", "oom", "slow", "slow_start", "wrong_output"}


@pytest.mark.parametrize("name", WORLDS)
def test_nothing_in_a_shipped_world_is_unknown_to_its_engine(name):
    assert list(problems(world(name))) == []
    assert 2 <= len(list(oracle.candidates(world(name)))) <= 200, "every world declares its space"


@pytest.mark.parametrize("name", WORLDS)
def test_the_checkpoint_is_read_as_what_it_is(name, tmp_path):
    found = world(name)
    facts, true = survey(checkpoint.write(found, tmp_path)), found.model.geometry
    told = geometry(name, found.model.config)
    assert (facts.layers, facts.hidden, facts.experts) == (true.layers, true.hidden, true.experts)
    assert told.total_parameters == pytest.approx(true.total_parameters, rel=0.05)
    assert facts.nextn_layers == true.draft_layers, "what the checkpoint does not tell, no policy can know"


def worth(found, pick) -> float:
    made = oracle.server(found, AGENTIC, pick)
    return 0.0 if isinstance(made, str) else rate.estimate(made[0], AGENTIC) / made[1]


@pytest.mark.parametrize("name", WORLDS)
def test_a_world_is_solved_by_what_it_says(name):
    found = world(name)
    rated = [(pick, worth(found, pick)) for pick in oracle.candidates(found)]
    best = max(value for _, value in rated)
    first = found.builds[0].name
    without = {
        "codemod": max((v for p, v in rated if not p.repaired), default=0.0),
        "image": max((v for p, v in rated if p.build in ("", first)), default=0.0),
        "tuning": max((v for p, v in rated if not p.tuned or found.tuned is None), default=0.0),
    }
    needs = {"patch": ("codemod",), "codemod": ("codemod",), "image": ("image",), "tuning": ("tuning",), "flags": ()}
    for means in needs[found.solved_by]:
        assert best > 1.1 * without[means], f"{means} wins nothing there"
    if found.solved_by == "flags":
        assert all(best == pytest.approx(value) for value in without.values())
    assert best > 0 and rated[0][1] < best, "there is something to find"


def test_a_model_finds_its_world_by_checkpoint_or_origin():
    assert for_model("amd/GLM-5.2-MXFP4").name == for_model("zai-org/GLM-5.2").name == "glm-5.2"
    found = for_model("zai-org/GLM-5.2-FP8")
    (bf16, fp8) = found.checkpoints
    assert found.name == "glm-5.2" and (bf16.precision, fp8.precision) == ("bf16", "fp8")
    assert "quantization_config" not in found.config_of(bf16)
    assert found.config_of(fp8)["quantization_config"]["quant_method"] == "fp8"
    with pytest.raises(Exception, match=r"no world is shipped for 'x/y': there are worlds of .*zai-org/GLM-5.2"):
        for_model("x/y")


def test_s47_a_silent_cap_is_in_the_servers_own_word_and_lifted_by_asking(tmp_path):
    here = bench(tmp_path, "deepseek-v3.2-hidden-caps")
    for flags, cap in (({}, 2 * 24), ({"max-running-requests": 256}, 2 * 256)):
        with here.serving(flags) as (server, _):
            assert server.facts.max_running_requests == cap


def test_memory_runs_out_under_load_until_prompts_are_cut_smaller(tmp_path):
    here = bench(tmp_path, "llama-3.1-405b-oom")
    with pytest.raises(CandidateFailed) as error, here.serving() as (server, harness):
        harness.run(PROBE, server)
    assert error.value.failure == "oom"
    with here.serving({"chunked-prefill-size": 8192}) as (server, harness):
        assert summarise(PROBE, harness.run(PROBE, server), RULES).void is None


def test_s24_of_three_tags_one_exists_nowhere_and_the_newer_wins(tmp_path):
    found = world("gpt-oss-120b-missing-tag")
    node = TwinNode("twin-0", tmp_path, found, cancel=lambda: False)
    old, new, gone = (build.name for build in found.builds)
    with pytest.raises(Refused) as error:
        image.ready(node, gone)
    assert f"the nearest are {new}, {old}" in str(error.value)
    assert image.ready(node, new) == environments(found)[new]
    flags = {"tp-size": 1, "dp-size": 8}
    assert worth(found, oracle.Pick(flags, build=new)) > 1.3 * worth(found, oracle.Pick(flags))
    assert oracle.server(found, AGENTIC, oracle.Pick(flags, build=gone)) == f"there is no image {gone}"


def test_s23_two_downloads_break_before_the_image_is_there(tmp_path):
    found = world("minimax-m3-flaky-registry")
    node = TwinNode("twin-0", tmp_path, found, cancel=lambda: False)
    image.ready(node, found.builds[0].name)
    assert 250 < node.clock.now() < 400


def test_s02_of_two_nodes_the_first_dies(tmp_path):
    found = world("kimi-k2.5-mxfp4-dying-node")
    nodes = [TwinNode(f"twin-{n}", tmp_path, found, cancel=lambda: False) for n in range(found.node.count)]
    with pytest.raises(NodeLost):
        nodes[0].clock.sleep(8 * 3600.0)
    nodes[1].clock.sleep(8 * 3600.0)


def test_s14_what_a_dead_owner_holds_is_stopped_and_what_a_stranger_holds_is_left(tmp_path):
    here = bench(tmp_path, "glm-5-leftovers")
    gib = 8 * 2**30
    assert here.node.site.machine.vram_bytes == 102 * gib
    swept = here.node.sweep()
    assert [attempt for _, attempt in swept.stopped] == ["r0.1"] and swept.failed == ()
    assert here.node.site.machine.vram_bytes == 6 * gib
    assert here.another().site.machine.vram_bytes == 6 * gib and here.another().sweep().stopped == ()


def test_s27_the_stale_lock_of_a_killed_compiler_is_noticed_cleared_and_the_boot_tried_once_more(tmp_path):
    here = bench(tmp_path, "glm-5-leftovers")
    here.node.sweep()
    locks = tmp_path / "twin" / "caches" / "jit"
    assert list(locks.glob("lock_*"))
    began = here.node.clock.now()
    with here.serving({"tp-size": 8, "dp-size": 1}) as (server, _):
        assert here.node.clock.now() - began - server.facts.ready_s > 300, (
            "the silence of the first boot was waited for"
        )
    assert not list(locks.glob("lock_*"))


def test_s34_a_patch_that_returns_early_is_faster_and_wrong(tmp_path):
    name = "minimax-m2.5-mxfp4-cheat"
    (build,) = world(name).builds
    ((path, text),) = build.tree.items()
    early = text.replace("    rows = tokens * topk\n", "    return 8\n    rows = tokens * topk\n")
    verdicts, paces = [], []
    for number, tree in enumerate(({path: text}, {path: early})):
        here = bench(tmp_path / str(number), name, builds=(build.model_copy(update={"tree": tree}),))
        with here.serving() as (server, harness):
            task = canary.task_of(here.model)
            verdicts.append(canary.answer(harness, server, task=task, concurrency=8, long_chars=9000).passed)
            paces.append(summarise(PROBE, harness.run(PROBE, server), RULES).tpot_ms.p50)
        assert worth(here.world, oracle.Pick({"tp-size": 4, "dp-size": 2})) == 0 or not number
    assert early != text and verdicts == [True, False] and paces[1] < 0.75 * paces[0]


OTHERWISE = {
    "qwen3.5-mxfp4-serial-scan": (
        "    return heads",
        "    share = 0\n    for piece in range(pieces):\n        if share < 1024:\n            share += heads\n"
        "    return min(share, 1024)",
    ),
    "qwen3.6-35b-a3b-expert-split": (
        "    return rank * (experts // 8)",
        "    whole, rest = divmod(experts, ranks)\n    return rank * whole + min(rank, rest)",
    ),
}


@pytest.mark.parametrize("name", [n for n in WORLDS if world(n).solved_by == "patch"])
def test_a_defect_that_no_codemod_knows_is_mended_by_any_patch_that_is_right(name, tmp_path):
    found = world(name)
    (build,) = found.builds
    ((path, text),) = build.tree.items()
    before, after = OTHERWISE[name]
    flags = {"tp-size": 4, "dp-size": 2}
    broken = worth(found, oracle.Pick(flags))
    for new in (build.repaired[path], text.replace(before, after)):
        mended = found.model_copy(update={"builds": (build.model_copy(update={"tree": {path: new}}),)})
        assert new != text and worth(mended, oracle.Pick(flags)) > max(1.0, 1.5 * broken)
    for wrong in (text.replace(before, "    return 1"), "", text.replace("def ", "async def ")):
        same = found.model_copy(update={"builds": (build.model_copy(update={"tree": {path: wrong}}),)})
        assert worth(same, oracle.Pick(flags)) == broken


def test_a_division_of_experts_that_leaves_some_out_ends_loading_with_the_evidence(tmp_path):
    here = bench(tmp_path, "qwen3.6-35b-a3b-expert-split")
    with pytest.raises(CandidateFailed) as error, here.serving():
        pass
    assert b"expert split: local_experts(0, 1, 256) = 32, not 256" in error.value.log
    with here.serving({"tp-size": 8, "dp-size": 1}):
        pass


def test_a_plan_on_one_wavefront_is_told_by_the_log_and_by_nothing_else(tmp_path):
    here = bench(tmp_path, "qwen3.5-mxfp4-serial-scan")
    with here.serving() as (server, _):
        assert b"scan plan: wavefronts(640, 32) = 32, not 320" in server.log()


def test_the_document_lists_every_shipped_world_with_what_solves_it():
    text = (Path(__file__).parents[3] / "docs" / "worlds.md").read_text(encoding="utf-8")
    assert all(f"| `{name}` | {world(name).solved_by} | " in text for name in WORLDS)
    assert all(f"`{key}`" in text for key in World.model_fields)
