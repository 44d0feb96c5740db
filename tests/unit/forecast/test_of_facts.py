"""A surveyed checkpoint as geometry and precision: by its name only where the files agree."""

from day0.runs.engine_facts import ModelFacts
from day0.tools.forecast.of_facts import geometry_of, precision_of

R1 = ModelFacts(
    model="amd/DeepSeek-R1-0528-MXFP4", revision="r", architecture="DeepseekV3ForCausalLM", layers=61, hidden=7168,
    heads=128, kv_heads=128, head_dim=192, vocab=129280, context=163840, experts=256, experts_per_token=8,
    shared_experts=1, moe_intermediate=2048, intermediate=18432, dense_layers=3, kv_lora_rank=512, q_lora_rank=1536,
    rope_head_dim=64, nextn_layers=1, quantization="quark",
)  # fmt: skip


def named(name, **more):
    return R1.model_copy(update={"model": name, **more})


def test_a_known_name_gives_the_tables_geometry_and_family():
    geometry, family = geometry_of(R1)
    assert (geometry.layers, family) == (61, "deepseek-r1")
    folder, _ = geometry_of(named("/data/models/amd/DeepSeek-R1-0528-MXFP4/"))
    assert folder == geometry


def test_a_folder_that_only_bears_the_name_is_taken_by_its_own_files():
    geometry, family = geometry_of(named("amd/DeepSeek-R1-0528-MXFP4", layers=30))
    assert geometry.layers == 30 and family == "amd/DeepSeek-R1-0528-MXFP4"


def test_an_unknown_model_is_built_from_its_facts():
    known, own = geometry_of(R1)[0], geometry_of(named("someone/new-model"))[0]
    assert own.experts == 256 and own.heads == 128 and own.draft_layers == 1
    assert abs(own.total_parameters / known.total_parameters - 1) < 0.1


def test_facts_that_make_no_geometry_give_none():
    assert geometry_of(named("someone/odd", heads=0, kv_lora_rank=None, head_dim=0)) is None


def test_precision_is_what_the_method_the_name_or_the_bytes_say():
    assert precision_of(R1) == "fp4"
    assert precision_of(named("a/b-FP8", quantization="fp8")) == "fp8"
    assert precision_of(named("a/b", quantization="compressed-tensors")) == "int4"
    assert precision_of(named("a/b", quantization=None)) == "bf16"
    assert precision_of(named("a/b", quantization="quark", weight_bytes=400_000_000_000)) == "fp4"
    assert precision_of(named("a/b", quantization="quark", weight_bytes=680_000_000_000)) == "fp8"
