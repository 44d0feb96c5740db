import json

import pytest
from day0.runs.engine_facts import ModelFacts
from day0.runs.errors import UserError
from day0.tools.forecast.breaks import omens
from day0.tools.forecast.hardware import hardware
from day0.tools.forecast.names import Names
from day0.tools.forecast.report import report
from day0.tools.forecast.source import find

GLM = Names().find("glm-5.2")[0]
MI355X = hardware("mi355x")
FACTS = ModelFacts(model="glm", revision="r", architecture="GlmMoeDsaForCausalLM", layers=78, hidden=6144, heads=64,
                   kv_heads=64, head_dim=256, vocab=154880, context=131072, nextn_layers=1, quantization="quark fp4",
                   exclude=("lm_head", "model.layers.78.eh_proj", "model.layers.78.mlp.gate"))  # fmt: skip


def kinds(facts=FACTS, geometry=GLM, silicon=MI355X, **more):
    return {o.kind: o.text for o in omens(geometry, facts, silicon, ["fp4"], **more)}


def test_exclude_prefixes_that_an_older_build_will_not_match():
    assert "2 exclude entries" in kinds(version="0.5.13.post1")["exclude"]
    assert "exclude" not in kinds(version="0.5.17")
    repaired = FACTS.model_copy(update={"exclude": (*FACTS.exclude, "model.decoder.eh_proj")})
    assert "exclude" not in kinds(repaired, version="0.5.13.post1")
    assert "exclude" not in kinds(FACTS.model_copy(update={"exclude": ()}))


def test_architectures_and_draft_classes_that_the_build_lacks():
    assert "architecture" not in kinds()
    strange = kinds(FACTS.model_copy(update={"architecture": "Glm9MoeForCausalLM"}))
    assert "Glm9MoeForCausalLM" in strange["architecture"]
    assert "no class for them" in strange["nextn"]
    assert "nextn" not in kinds()


def test_expert_shapes_without_tuned_rows():
    assert "with fusion off (256, 8)" in kinds()["moe_shape"]
    assert "heuristic kernels" in kinds(geometry=Names().find("minimax-m2.5")[0])["moe_shape"]
    assert "moe_shape" not in kinds(silicon=hardware("b200"))
    assert "moe_shape" not in kinds(geometry=Names().find("llama-3.1-70b")[0])


def test_heads_and_pages():
    found = kinds()
    assert "TP8 (8)" in found["heads"]
    assert "TP4 (16)" not in found["heads"]
    assert "page-size 64" in found["page"]
    assert "heads" not in kinds(silicon=hardware("b200"))


def test_the_silent_cap_is_told():
    assert "at most 48 requests" in kinds()["cap"]
    assert "cap" not in kinds(geometry=Names().find("llama-3.1-70b")[0])


CONFIG = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "num_hidden_layers": 16, "hidden_size": 2048,
          "num_attention_heads": 16, "num_key_value_heads": 4, "vocab_size": 32000, "intermediate_size": 8192,
          "max_position_embeddings": 131072}  # fmt: skip


def test_a_folder_with_a_configuration_is_enough(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    made = report(str(tmp_path), "mi355x", "chat-1k1k")
    assert made.found == "the folder's config.json"
    assert any(layout.fits and layout.name.startswith("TP1xDP8") for layout in made.layouts)
    assert {layout.precision for layout in made.layouts} == {"bf16"}
    assert made.cost is not None
    assert any(o.kind == "files" for o in made.omens)
    json.dumps(made.model_dump(mode="json"), allow_nan=False)


@pytest.mark.parametrize("method", ["fp8", "quark"])
def test_the_stored_precision_decides(tmp_path, method):
    quant = {"quant_method": method, "global_quant_config": {"weight": {"dtype": "fp4"}}}
    (tmp_path / "config.json").write_text(json.dumps({**CONFIG, "quantization_config": quant}))
    assert find(str(tmp_path)).precisions == (("fp8",) if method == "fp8" else ("fp4",))


def test_a_name_says_which_precisions_are_meant():
    assert find("zai-org/GLM-5.2-FP8").precisions == ("fp8",)
    assert find("amd/GLM-5.2-MXFP4").precisions == ("fp4",)
    assert find("glm-5.2").precisions == ("bf16", "fp8", "fp4")
    assert find("moonshotai/Kimi-K2.5").precisions == ("int4", "fp4")


@pytest.mark.parametrize("model", ["", "no such thing", "/etc/passwd", "a/b/c", "../x", "-x", "a\0b"])
def test_what_is_no_model_is_one_sentence(model):
    with pytest.raises(UserError) as caught:
        find(model)
    assert "\n" not in str(caught.value)


def test_folders_that_are_no_models_and_unknown_targets(tmp_path):
    with pytest.raises(UserError, match=r"config\.json"):
        find(str(tmp_path))
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(UserError, match="JSON"):
        find(str(tmp_path))
    with pytest.raises(UserError, match="accelerator"):
        report("glm-5.2", "cpu")
    with pytest.raises(UserError, match="target"):
        report("glm-5.2", "mi999")
    with pytest.raises(UserError, match="workload"):
        report("glm-5.2", "mi355x", "nothing")


def test_a_report_says_what_it_stands_on():
    made = report("glm-5.2", "mi355x")
    assert made.workload == "agentic-20k1k"
    assert made.gpus == 8
    assert "newest published stack" in made.assumes
    assert "median error" in made.trust
    assert made.cost is not None
    assert made.cost.reference == "b200"


def test_the_reference_is_not_compared_with_itself():
    assert report("gpt-oss-120b", "b200").cost is None
