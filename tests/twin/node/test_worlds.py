"""Worlds are documents: the shipped ones tell their stories, a malformed one names its line."""

from __future__ import annotations

import contextlib

import pytest
from day0.runs import documents
from day0.runs.errors import UserError
from day0.sandboxes.twin import layout, oracle, resolve
from day0.sandboxes.twin.world import world
from day0.tools.engines.help import parse_help, with_types

WORLDS = documents.names("world")


@pytest.mark.parametrize("name", WORLDS)
def test_a_shipped_world_is_whole_and_its_space_parses(name):
    found = world(name)
    assert found.name == name
    every = list(oracle.candidates(found))
    assert 1 <= len(every) <= 200
    for pick in every:
        with contextlib.suppress(resolve.Fatal):
            oracle.arguments(found, pick.flags, pick.build)


@pytest.mark.parametrize("name", WORLDS)
def test_a_shipped_world_tells_its_story(name):
    found = world(name)
    for told in found.story:
        workload = documents.workload(told.workload)
        rating = oracle.rated(found, workload, oracle.Pick(told.flags, told.env, told.tuned, told.repaired))
        # the oracle's knee lies on the crossing, a measured one below it: 10 % here, 5 % where it is measured
        assert rating.tok_s == pytest.approx(told.value, rel=told.tolerance + 0.05), told.name


def test_a_malformed_world_names_its_line(tmp_path):
    text = documents.shipped("world", "glm-5.2").read_text()
    lines = text.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("  layer_us:"))
    for broken, told in (
        ("  layer_us: fast", f":{at + 1}: `truth.layer_us`"),
        ("  layer_uss: 95.0", f":{at + 1}: unknown key `layer_uss`"),
    ):
        file = tmp_path / "own.yaml"
        file.write_text("\n".join([*lines[:at], broken, *lines[at + 1 :]]))
        with pytest.raises(UserError) as error:
            world(str(file))
        assert told in str(error.value)
    with pytest.raises(UserError, match="there is no world `no-such`"):
        world("no-such")


def test_a_space_that_is_too_large_is_refused(tmp_path):
    text = documents.shipped("world", "glm-5.2").read_text()
    axis = "  - " + "\n    ".join(f"- {{flags: {{page-size: {n}}}}}" for n in range(1, 4))
    file = tmp_path / "own.yaml"
    file.write_text(text.replace("space:\n", f"space:\n{axis}\n"))
    with pytest.raises(UserError, match="432 candidates, at most 200"):
        world(str(file))


def test_the_help_is_read_by_the_engine_adapter_as_the_real_one():
    flags = with_types(parse_help(resolve.parser("sglang-0.5.23").format_help()), resolve.types("sglang-0.5.23"))
    by_name = {f.name: f for f in flags}
    assert len(flags) == len(resolve.rows("sglang-0.5.23")) > 500
    assert by_name["tp-size"].aliases == ("tensor-parallel-size",) and by_name["tp-size"].kind == "int"
    assert "tilelang" in by_name["dsa-decode-backend"].choices
    assert by_name["cuda-graph-bs-decode"].many and not by_name["enable-mixed-chunk"].takes_value


def args(**flags):
    return oracle.arguments(world("glm-5.2"), {k.replace("_", "-"): v for k, v in flags.items()})


def test_the_engine_resolves_what_nobody_asked():
    plain = args(tp_size=8)
    assert plain["max_running_requests"] == 2048 and plain["chunked_prefill_size"] == 16384
    silent = args(tp_size=8, speculative_algorithm="EAGLE")
    assert silent["max_running_requests"] == 48, "the silent cap"
    assert (silent["speculative_num_steps"], silent["speculative_num_draft_tokens"]) == (3, 4)
    assert args(tp_size=8, speculative_algorithm="EAGLE", max_running_requests=256)["max_running_requests"] == 256
    assert args(tp_size=8, attn_dp_size=8, speculative_algorithm="EAGLE")["max_running_requests"] == 48
    kv = [args(tp_size=t)["max_total_num_tokens"] for t in (1, 2, 4, 8)]
    assert kv[0] < 0 < kv[1] < kv[2] < kv[3], "one accelerator can't hold the weights"
    two = args(tp_size=2, kv_cache_dtype="fp8_e4m3", mem_fraction_static=0.85)["max_total_num_tokens"]
    assert two == pytest.approx(733_696, rel=0.1), "as a published server log of TP2 at 0.85 says"


def test_both_names_of_attention_parallelism_are_one_replica_on_the_same_accelerators():
    seen = []
    for flags in ({"attn_dp_size": 8}, {"dp_size": 8, "enable_dp_attention": True}):
        resolved = args(tp_size=8, **flags)
        at = layout.layout(resolved)
        assert (at.tp, at.dp, at.groups) == (8, 1, 8)
        seen.append(layout.server(world("glm-5.2").physics(), resolved, oracle.scene(resolved, {}, "b", tuned=True)))
    assert seen[0] == seen[1] and seen[0].kv_tokens > 3 * args(tp_size=8)["max_total_num_tokens"]


@pytest.mark.parametrize(
    "flags",
    [
        {"tp_size": 16},
        {"tp_size": 8, "dp_size": 2},
        {"tp_size": 8, "speculative_algorithm": "EAGLE", "speculative_num_steps": 3},
    ],
)  # fmt: skip
def test_what_the_engine_refuses_by_itself(flags):
    with pytest.raises(resolve.Fatal):
        args(**flags)


def test_the_oracle_is_remembered_under_world_workload_and_simulator(tmp_path):
    found = world("glm-5.2").model_copy(update={"space": world("glm-5.2").space[:1]})
    workload = documents.workload("agentic-20k1k")
    one = oracle.oracle(found, workload, memory=tmp_path)
    (file,) = tmp_path.iterdir()
    assert all(r.points <= 5 for r in one.ratings) and one.best.tok_s > 0
    file.write_text(file.read_text().replace(f'"points":{one.best.points}', '"points":0', 1))
    assert oracle.oracle(found, workload, memory=tmp_path) != one, "it came from the file"
    file.write_text("{half a")
    assert oracle.oracle(found, workload, memory=tmp_path) == one
    other = found.model_copy(update={"summary": "another"})
    assert oracle.key(other, workload) != oracle.key(found, workload)
