"""Published recipes: the table reads, the nearest is found, and what becomes of it on a site."""

import pytest
from day0.agent.policy.axes import Site
from day0.agent.policy.published import settings_of_nearest, start_options
from day0.runs.engine_facts import ModelFacts, NodeFacts
from day0.runs.workload import Objective
from day0.tools.published import attention_of, nearest, recipes


@pytest.fixture
def place(glm, facts, work):
    def make(engine=None, **model) -> Site:
        changed = ModelFacts(**{**dict(glm["model"]), **model})
        return Site(changed, engine or facts(), NodeFacts(name="n", gpus=8), glm["target"], work, Objective.GOODPUT)

    return make


def test_every_recipe_names_a_source_and_fits_a_node():
    for recipe in recipes():
        assert recipe.source and recipe.architectures and 8 % recipe.tp == 0
        assert not {"model-path", "trust-remote-code", "host", "port"} & set(recipe.flags)
        assert not any("SIMULATE" in name for name in recipe.env)


def test_architecture_counts_before_attention_before_precision(glm):
    glm5 = glm["model"]
    assert nearest(glm5, "fp4", shared=True).name == "glm-5.2-mxfp4-cookbook"
    assert nearest(glm5, "fp8", shared=True).name == "glm-5.2-fp8-cookbook"
    v32 = glm5.model_copy(update={"architecture": "DeepseekV32ForCausalLM", "model_type": "deepseek_v32"})
    assert nearest(v32, "fp4", shared=False).name == "glm-5.1-fp4"
    r1 = glm5.model_copy(update={"architecture": "DeepseekV3ForCausalLM", "model_type": "deepseek_v3"})
    assert nearest(r1, "fp4", shared=True).name == "deepseek-r1-fp4-mtp"
    kimi = r1.model_copy(update={"architecture": "KimiK25ForConditionalGeneration", "model_type": "kimi_k25"})
    assert nearest(kimi, "int4", shared=True).attention == "latent"


def test_a_model_of_a_kind_that_nobody_published_has_no_recipe(glm):
    plain = glm["model"].model_copy(update={"architecture": "New", "model_type": "new", "kv_lora_rank": None})
    assert attention_of(plain) == "plain" and nearest(plain, "fp8", shared=True) is None
    dense = plain.model_copy(update={"experts": 0, "kv_lora_rank": 512})
    assert nearest(dense, "bf16", shared=True) is None


def test_the_start_fills_the_node_and_is_safe(place):
    flags = start_options(place())[0].flags
    assert flags["tp-size"] * flags["dp-size"] == 8
    assert flags["disable-custom-all-reduce"] is True and flags["max-running-requests"] > 48
    without = start_options(place(nextn_layers=0))[0].flags
    assert not any("speculative" in name for name in without) and "disable-custom-all-reduce" not in without


def test_flags_that_the_build_lacks_are_left_out(place, facts):
    engine = facts()
    fewer = engine.model_copy(update={"flags": tuple(f for f in engine.flags if f.name != "kv-cache-dtype")})
    assert "kv-cache-dtype" in start_options(place())[0].flags
    assert "kv-cache-dtype" not in start_options(place(engine=fewer))[0].flags


def test_what_others_run_is_less_suspect(place):
    assert "kv-cache-dtype=fp8_e4m3" in settings_of_nearest(place())
    assert settings_of_nearest(place(architecture="New", model_type="new", kv_lora_rank=None)) == frozenset()
