import pytest
from day0.runs import geometry as geo
from day0.runs.errors import UserError
from day0.tools.forecast.hardware import document
from day0.tools.forecast.models import geometry
from day0.tools.forecast.names import Names, UnknownModel
from hypothesis import given
from hypothesis import strategies as st

NAMES = Names()


@pytest.mark.parametrize("name", sorted(document("models.yaml")["models"]))
def test_parameters_agree_with_the_publisher(name):
    shape, _ = NAMES.find(name)
    table = document("models.yaml")["models"]
    entry = table[name]
    entry = {**table.get(entry.get("same_as"), {}), **entry}
    assert shape.total_parameters == pytest.approx(1e9 * entry["total_b"], rel=0.02)
    assert shape.active_parameters == pytest.approx(1e9 * entry["active_b"], rel=0.25)


@pytest.mark.parametrize(
    ("name", "element", "expected"),
    [
        ("glm-5.1", 1.0, 55_231),  # read from a server's log: 37.74 GiB for 733,696 tokens
        ("deepseek-r1", 1.0, 35_136),
        ("qwen3.5-397b-a17b", 2.0, 30_720),
        ("llama-3.1-70b", 2.0, 327_680),
        ("gpt-oss-120b", 2.0, 36_864),
    ],
)
def test_cache_bytes_per_token(name, element, expected):
    assert geo.kv_bytes_per_token(NAMES.find(name)[0], element) == pytest.approx(expected, rel=0.001)


def test_latent_cache_is_copied_and_heads_are_divided():
    latent, plain = NAMES.find("deepseek-r1")[0], NAMES.find("qwen3.5-397b-a17b")[0]
    assert geo.kv_bytes_per_token_gpu(latent, 1.0, 8) == geo.kv_bytes_per_token(latent, 1.0)
    assert geo.kv_bytes_per_token_gpu(plain, 2.0, 8) == geo.kv_bytes_per_token(plain, 2.0) / 2  # two KV heads


def test_weights_of_an_observed_boot():
    glm = NAMES.find("glm-5.1")[0]
    assert geo.weight_bytes_per_gpu(glm, "fp4", 2) / 2**30 == pytest.approx(199.52, rel=0.05)
    qwen = NAMES.find("qwen3.5-397b-a17b")[0]
    assert geo.weight_bytes_per_gpu(qwen, "fp8", 4) / 2**30 == pytest.approx(93.35, rel=0.05)


@given(st.integers(2, 1024), st.floats(1, 1e4))
def test_touched_experts_lie_between_one_token_and_all(experts, tokens):
    per_token = max(1, experts // 32)
    touched = geo.experts_touched(float(experts), float(per_token), tokens)
    assert per_token * 0.999 <= touched <= experts


def test_sparse_reads_stop_growing_but_the_index_does_not():
    glm = NAMES.find("glm-5.2")[0]
    near, far = (geo.kv_read_bytes(glm, n, 1.0, 8) for n in (100_000, 200_000))
    assert far - near == pytest.approx(78 * 100_000 * 132)


def test_a_hugging_face_configuration_gives_the_same_geometry():
    config = {
        "num_hidden_layers": 61, "hidden_size": 7168, "num_attention_heads": 128, "vocab_size": 129280,
        "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128,
        "n_routed_experts": 256, "num_experts_per_tok": 8, "n_shared_experts": 1, "moe_intermediate_size": 2048,
        "intermediate_size": 18432, "first_k_dense_replace": 3, "num_nextn_predict_layers": 1,
        "max_position_embeddings": 163840,
    }  # fmt: skip
    mine, known = geometry("r1", config), NAMES.find("deepseek-r1")[0]
    assert mine.groups == known.groups
    assert mine.total_parameters == pytest.approx(known.total_parameters, rel=0.01)
    assert mine.draft_layers == 1


def test_hybrid_and_windowed_configurations():
    base = {"num_hidden_layers": 12, "hidden_size": 256, "num_attention_heads": 8, "num_key_value_heads": 2,
            "head_dim": 32, "vocab_size": 1000, "intermediate_size": 512}  # fmt: skip
    hybrid = geometry("h", {"text_config": {**base, "layer_types": ["linear_attention"] * 9 + ["full_attention"] * 3}})
    assert sorted(g.layers for g in hybrid.groups) == [3, 9]
    assert geo.kv_bytes_per_token(hybrid, 2.0) == 3 * 2 * 2 * 32 * 2
    window = geometry("w", {**base, "layer_types": ["sliding_attention", "full_attention"] * 6, "sliding_window": 128})
    assert [g.window for g in window.groups] == [128, None]


@pytest.mark.parametrize("entry", [{}, {"layers": 3}, {"layers": "x", "hidden": 8, "heads": 1}, {"same_as": "nobody"}])
def test_a_garbled_entry_is_one_sentence(entry):
    with pytest.raises(UserError, match="model bad"):
        geometry("bad", entry, {})


def test_names_resolve_exactly_or_not_at_all():
    assert NAMES.find("dsv4-pro")[0] == NAMES.find("DSV4")[0]
    assert {NAMES.find(n)[1] for n in ("glm5", "glm5.1", "zai-org/GLM-5.2")} == {"glm-5"}
    for name in ("dsr", "glm", "deepseek", ""):
        with pytest.raises(UnknownModel):
            NAMES.find(name)


def test_a_lone_name_is_a_name_and_no_string_of_letters():
    mine = Names({"new": {"same_as": "glm-5", "hf": "Org/New", "aliases": 7}})
    assert mine.find("org/new")[0].layers == 78
    with pytest.raises(UnknownModel):
        mine.find("o")


def test_the_callers_table_wins():
    mine = Names({"dsr1": {"same_as": "glm-5", "layers": 10, "dense_layers": 0}, "new": {"same_as": "dsr1"}})
    assert mine.find("dsr1")[0].layers == 10
    assert mine.find("new")[0].layers == 10
