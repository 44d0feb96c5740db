import pytest
from day0.agent.replaying import admit
from day0.runs.candidate import Candidate
from day0.runs.documents import target
from day0.runs.engine_facts import ModelFacts
from day0.runs.errors import Refused, UserError
from day0.runs.facts import Surveyed
from day0.runs.recipe import Configuration, EnginePin, ModelPin, Recipe
from day0.tools.engines.sglang import Sglang

MODEL = ModelFacts(
    model="m",
    revision="r",
    architecture="A",
    layers=1,
    hidden=1,
    heads=1,
    kv_heads=1,
    head_dim=1,
    vocab=1,
    context=8192,
)


def candidate(flags=None, env=None, build="sha256:b"):
    return Candidate(engine="sglang", build=build, model="/m", revision="r", flags=flags or {}, env=env or {})


def refusal(facts, flags=None, env=None, model=MODEL, **more) -> str:
    with pytest.raises(Refused) as refused:
        Sglang().check(candidate(flags, env, **more), facts, model)
    return refused.value.reason


def test_what_the_build_knows_is_admitted(facts):
    flags = {
        "dtype": "float32", "chunked-prefill-size": "16k", "max-running-requests": 8, "mem-fraction-static": 0.1,
        "enable-tf32-matmul": False, "disable-radix-cache": True, "cuda-graph-bs-decode": "1 2 4", "tp-size": 2,
        "context-length": "8Ki", "json-model-override-args": '{"rope_scaling": {"type": "yarn"}}',
        "speculative-accept-threshold-single": 1.0, "load-format": "safetensors",
    }  # fmt: skip
    env = {"OMP_NUM_THREADS": "1", "MALLOC_TOP_PAD_": "67108864", "SGLANG_USE_AITER": "1"}
    Sglang().check(candidate(flags, env), facts, MODEL)


def test_an_unknown_flag_is_told_the_nearest_names(facts):
    assert refusal(facts, {"chunk-prefil-size": 1}).split("the nearest are ")[1].startswith("--chunked-prefill-size")
    assert "has no flag --qqqqq" in refusal(facts, {"qqqqq": 1})


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ({"dtype": "bf16"}, "did you mean bfloat16"),
        ({"max-running-requests": "many"}, "a whole number"),
        ({"max-running-requests": 1.5}, "a whole number"),
        ({"mem-fraction-static": "nan"}, "a number"),
        ({"mem-fraction-static": True}, "needs a value"),
        ({"mem-fraction-static": ""}, "needs a value"),
        ({"chunked-prefill-size": "16K"}, "a whole number (also 16k, 1Ki)"),
        ({"json-model-override-args": "{"}, "JSON"),
        ({"disable-radix-cache": False}, "leave it out"),
        ({"disable-radix-cache": 1}, "is a switch"),
        ({"enable-tf32-matmul": "yes"}, "true or false"),
        ({"cuda-graph-bs-decode": "1 two"}, "a whole number"),
        ({"chat-template": "--host"}, "must not start with a dash"),
        ({"chat-template": "a\nb"}, "control characters"),
        ({"tp-size": 2, "tensor-parallel-size": 4}, "are the same flag"),
    ],
)
def test_s66_values_that_the_parser_would_refuse_or_misread(facts, flags, says):
    assert says in refusal(facts, flags)


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ({"load-format": "dummy"}, "random weights"),
        ({"load-format": "pt"}, "code from the checkpoint"),
        ({"trust-remote-code": True}, "a person's consent"),
        ({"speculative-accept-threshold-single": 0.9}, "accepts tokens that the model would not write"),
        ({"json-model-override-args": '{"num_hidden_layers": 2}'}, "num_hidden_layers"),
        ({"json-model-override-args": '{"text_config": {"num_experts_per_tok": 1}}'}, "num_experts_per_tok"),
        ({"json-model-override-args": '{"index_topk": 1, "n_routed_experts": 2}'}, "index_topk, n_routed_experts"),
        ({"context-length": 4096}, "shorter than the model's 8192"),
        ({"allow-auto-truncate": True}, "banned"),
        ({"host": "0.0.0.0"}, "set by day0"),
        ({"port": 1}, "set by day0"),
        ({"model": "/other"}, "set by day0"),
    ],
)
def test_s39_what_fakes_a_result_is_refused(facts, flags, says):
    assert says in refusal(facts, flags)


@pytest.mark.parametrize("flags", [{"trust-remote-code": True}, {"load-format": "pt"}])
def test_s60_s61_no_server_is_launched_that_runs_a_checkpoints_code_whoever_set_the_flag(facts, flags):
    with pytest.raises(Refused, match="code from the checkpoint"):
        Sglang().launch(candidate(flags), facts, host="127.0.0.1", port=1)
    bad = target("cpu").model_copy(update={"base_flags": {**target("cpu").base_flags, **flags}})
    with pytest.raises(Refused, match="code from the checkpoint"):
        Sglang().check_target(bad, MODEL)
    Sglang().check_target(target("cpu"), MODEL)


def test_s60_with_a_persons_consent_the_flag_stands_on_the_servers_line_and_still_no_candidate_may_set_it(facts):
    allowed = Sglang(frozenset({"remote-code", "pickle"}))
    line = allowed.launch(candidate({}), facts, host="127.0.0.1", port=1).argv
    assert line[-1] == "--trust-remote-code"
    assert line[:-1] == Sglang().launch(candidate({}), facts, host="127.0.0.1", port=1).argv
    assert "a person's consent" in refusal(facts, {"trust-remote-code": True})


@pytest.mark.parametrize("flags", [{"json-model-override-args": "{"}, {"speculative-accept-threshold-acc": "x"}])
def test_a_target_with_a_value_that_is_none_is_refused(flags):
    with pytest.raises(Refused):
        Sglang().check_target(target("cpu").model_copy(update={"base_flags": flags}), MODEL)


def test_a_context_length_is_refused_where_the_models_own_is_unknown(facts):
    assert "shorter than the model's own" in refusal(facts, {"context-length": 10**9}, model=None)


@pytest.mark.parametrize(
    "env",
    [
        {"SGLANG_SIMULATE_ACC_LEN": "4"},
        {"SGLANG_TEST_RETRACT": "1"},
        {"SGLANG_USE_CPU_ENGINE": "1"},
        {"PATH": "/x"},
        {"PYTHONPATH": "/x"},
        {"LD_LIBRARY_PATH": "/x"},
        {"LD_PRELOAD": "/tmp/evil.so"},
        {"HF_TOKEN": "x"},
        {"MY_API_KEY": "x"},
        {"DAY0_ATTEMPT": "x"},
        {"HTTPS_PROXY": "http://x"},
        {"A B": "x"},
        {"X": "a\nb"},
    ],
)
def test_variables_that_fake_or_escape_are_refused(facts, env):
    assert refusal(facts, env=env)


def test_an_allocator_of_this_build_may_be_preloaded(facts):
    env = {"LD_PRELOAD": "/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4"}
    Sglang().check(candidate(env=env), facts, MODEL)


def test_another_build_is_refused(facts):
    assert "belong to" in refusal(facts, build="sha256:other")


@pytest.mark.parametrize(
    ("flags", "env", "why"),
    [
        ({"trust-remote-code": True}, {}, "trust-remote-code"),
        ({"no-such-flag": 1}, {}, "no-such-flag"),
        ({}, {"LD_PRELOAD": "/tmp/x.so"}, "LD_PRELOAD"),
        ({}, {"HF_HUB_OFFLINE": "0"}, "HF_HUB_OFFLINE"),
    ],
)
def test_s66_a_recipe_of_a_stranger_sets_no_more_than_a_candidate(facts, flags, env, why):
    def given(flags, env):
        return Recipe.model_construct(
            engine=EnginePin(name="sglang", build="sha256:b", version="0.5.23"),
            model=ModelPin(id="/m", revision="r"),
            configuration=Configuration(flags=flags, env=env),
        )

    seen = Surveyed.model_construct(engine=facts, model=MODEL)
    admit(given({"dtype": "float32"}, dict(target("cpu").base_env)), Sglang(), seen)
    with pytest.raises(UserError, match=why):
        admit(given(flags, env), Sglang(), seen)
