import json
import struct

import pytest
from day0.runs.errors import UserError
from day0.tools.survey import header, survey

# geometry as the published config.json files state it, reduced to what is read
LLAMA = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "num_hidden_layers": 80, "hidden_size": 8192,
    "num_attention_heads": 64, "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 131072,
    "intermediate_size": 28672, "torch_dtype": "bfloat16",
}  # fmt: skip
GLM52 = {
    "architectures": ["GlmMoeDsaForCausalLM"], "model_type": "glm_moe_dsa", "num_hidden_layers": 78,
    "hidden_size": 6144,
    "num_attention_heads": 64, "num_key_value_heads": 64, "vocab_size": 154880, "max_position_embeddings": 1048576,
    "intermediate_size": 12288, "n_routed_experts": 256, "num_experts_per_tok": 8, "n_shared_experts": 1,
    "moe_intermediate_size": 2048, "first_k_dense_replace": 3, "kv_lora_rank": 512, "q_lora_rank": 2048,
    "qk_rope_head_dim": 64, "qk_nope_head_dim": 192, "v_head_dim": 256, "num_nextn_predict_layers": 1,
    "dtype": "bfloat16",
    "quantization_config": {
        "quant_method": "quark", "exclude": ["model.layers.78.eh_proj", "lm_head"],
        "global_quant_config": {"weight": {"dtype": "fp4", "group_size": 32}},
    },
}  # fmt: skip
DEEPSEEK = {
    **GLM52, "architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "num_hidden_layers": 61,
    "hidden_size": 7168, "num_attention_heads": 128, "num_key_value_heads": 128, "vocab_size": 129280,
    "max_position_embeddings": 163840, "qk_nope_head_dim": 128, "q_lora_rank": 1536,
    "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
}  # fmt: skip
KIMI = {
    "architectures": ["KimiK25ForConditionalGeneration"], "model_type": "kimi_k25",
    "text_config": {
        **DEEPSEEK, "architectures": ["DeepseekV3ForCausalLM"], "num_attention_heads": 64, "num_key_value_heads": 64,
        "n_routed_experts": 384, "first_k_dense_replace": 1, "vocab_size": 163840, "max_position_embeddings": 262144,
        "num_nextn_predict_layers": 0,
        "quantization_config": {"quant_method": "compressed-tensors", "ignore": ["lm_head", "re:.*self_attn.*"]},
    },
    "vision_config": {"hidden_size": 1152, "num_hidden_layers": 27},
}  # fmt: skip
QWEN35 = {
    "architectures": ["Qwen3_5MoeForConditionalGeneration"], "model_type": "qwen3_5_moe",
    "text_config": {
        "num_hidden_layers": 60, "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 2,
        "head_dim": 256,
        "vocab_size": 248320, "max_position_embeddings": 262144, "num_experts": 512, "num_experts_per_tok": 10,
        "moe_intermediate_size": 1024, "shared_expert_intermediate_size": 1024, "mtp_num_hidden_layers": 1,
    },
}  # fmt: skip
MINIMAX = {
    "architectures": ["MiniMaxM2ForCausalLM"], "model_type": "minimax_m2", "num_hidden_layers": 62, "hidden_size": 3072,
    "num_attention_heads": 48, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 200064,
    "max_position_embeddings": 196608, "intermediate_size": 1536, "num_local_experts": 256, "num_experts_per_tok": 8,
    "num_mtp_modules": 3, "auto_map": {"AutoConfig": "x.Y"},
}  # fmt: skip
GPT_OSS = {
    "architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss", "num_hidden_layers": 36, "hidden_size": 2880,
    "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64, "vocab_size": 201088,
    "max_position_embeddings": 131072, "intermediate_size": 2880, "num_local_experts": 128, "experts_per_token": 4,
    "quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn"]},
}  # fmt: skip


def place(folder, config, **files):
    (folder / "config.json").write_text(json.dumps(config))
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)
    return folder


def safetensors(path, tensors, cut=0):
    offset, head = 0, {"__metadata__": {"format": "pt"}}
    sizes = {"BF16": 2, "F32": 4, "F8_E4M3": 1}
    for name, (dtype, shape) in tensors.items():
        length = sizes[dtype]
        for n in shape:
            length *= n
        head[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + length]}
        offset += length
    text = json.dumps(head).encode()
    data = struct.pack("<Q", len(text)) + text + bytes(offset)
    path.write_bytes(data[: len(data) - cut])


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (LLAMA, {"layers": 80, "kv_heads": 8, "head_dim": 128, "experts": 0, "quantization": None, "context": 131072}),
        (
            GLM52,
            {
                "layers": 78, "hidden": 6144, "heads": 64, "head_dim": 256, "experts": 256, "experts_per_token": 8,
                "shared_experts": 1, "moe_intermediate": 2048, "dense_layers": 3, "kv_lora_rank": 512,
                "rope_head_dim": 64, "nextn_layers": 1, "quantization": "quark fp4",
                "exclude": ("model.layers.78.eh_proj", "lm_head"), "dtype": "bfloat16",
            },
        ),
        (DEEPSEEK, {"layers": 61, "head_dim": 192, "quantization": "fp8", "exclude": (), "q_lora_rank": 1536}),
        (
            KIMI,
            {
                "architecture": "KimiK25ForConditionalGeneration", "layers": 61, "experts": 384, "dense_layers": 1,
                "quantization": "compressed-tensors", "exclude": ("lm_head", "re:.*self_attn.*"), "nextn_layers": 0,
            },
        ),
        (QWEN35, {"layers": 60, "kv_heads": 2, "head_dim": 256, "experts": 512, "shared_experts": 1}),
        (MINIMAX, {"experts": 256, "moe_intermediate": 1536, "nextn_layers": 3, "shared_experts": 0}),
        (GPT_OSS, {"experts": 128, "experts_per_token": 4, "moe_intermediate": 2880, "quantization": "mxfp4"}),
    ],
    ids=["llama", "glm-5.2", "deepseek", "kimi", "qwen3.5", "minimax", "gpt-oss"],
)  # fmt: skip
def test_geometry_of_published_families(tmp_path, config, expected):
    facts = survey(place(tmp_path, config))
    assert {name: getattr(facts, name) for name in expected} == expected


def test_sizes_come_from_the_headers(tmp_path):
    place(tmp_path, LLAMA, tokenizer__json="{}", generation_config__json="{}", chat_template__jinja="x")
    safetensors(tmp_path / "model.safetensors", {"a": ("BF16", [4, 8]), "b": ("F32", [2])})
    facts = survey(tmp_path)
    assert (facts.weight_bytes, facts.parameters) == (72, 34)
    assert (facts.tokenizer, facts.chat_template, facts.warnings) == ("tokenizer.json", True, ())


def test_what_is_wrong_with_a_checkpoint_is_a_warning(tmp_path):
    place(tmp_path, MINIMAX, **{"pytorch_model.bin": "x"})
    index = {"weight_map": {"a": "m-1.safetensors", "b": "m-2.safetensors"}, "metadata": {"total_size": 99}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    safetensors(tmp_path / "m-1.safetensors", {"a": ("BF16", [4, 8])}, cut=5)
    text = "; ".join(survey(tmp_path).warnings)
    for part in ("1 of 2 weight files are missing", "it was cut off", "pickle", "auto_map", "no tokenizer"):
        assert part in text


def test_s60_a_survey_tells_of_a_checkpoints_code_and_runs_none(tmp_path):
    code = f"open({str(tmp_path / 'ran')!r}, 'w')"
    place(tmp_path, MINIMAX, x__py=code, modeling_x__py=code, tokenizer__json="{}")
    assert any("auto_map" in said and "consent" in said for said in survey(tmp_path).warnings)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("content", [b"", b"1234567", struct.pack("<Q", 2**40) + b"{}", struct.pack("<Q", 4) + b"nope"])
def test_a_file_that_is_no_safetensors_is_told_apart(tmp_path, content):
    (tmp_path / "x.safetensors").write_bytes(content)
    with pytest.raises(ValueError, match=r"x\.safetensors"):
        header(tmp_path / "x.safetensors")


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda f: f.rmdir(), "is not a folder"),
        (lambda f: None, "has no config.json"),
        (lambda f: (f / "config.json").write_text("{"), "can't be read as JSON"),
        (lambda f: (f / "config.json").write_text("[]"), "is not a JSON object"),
        (lambda f: place(f, {"num_hidden_layers": 2}), "does not say"),
    ],
)
def test_a_folder_that_is_no_model_gets_one_sentence(tmp_path, make, says):
    folder = tmp_path / "m"
    folder.mkdir()
    make(folder)
    with pytest.raises(UserError, match=says):
        survey(folder)


@pytest.mark.parametrize(
    "wrong",
    [{"num_hidden_layers": float("inf")}, {"num_key_value_heads": "eight"}, {"num_key_value_heads": 0},
     {"head_dim": -5}, {"intermediate_size": {"a": 1}}, {"num_experts": "many"}],
)  # fmt: skip
def test_values_of_a_wrong_kind_are_one_sentence(tmp_path, wrong):
    (tmp_path / "config.json").write_text(json.dumps({**LLAMA, **wrong}))
    with pytest.raises(UserError) as error:
        survey(tmp_path)
    assert "\n" not in str(error.value)


def test_a_configuration_nested_without_end_is_one_sentence(tmp_path):
    (tmp_path / "config.json").write_text("[" * 100_000)
    with pytest.raises(UserError, match="can't be read as JSON"):
        survey(tmp_path)
