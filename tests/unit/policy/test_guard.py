"""Admission: what is refused, with which reason, and that nothing else is."""

import pytest
from day0.agent.policy.actions import TryCandidate
from day0.agent.policy.guard import admit, check_flags
from day0.runs.candidate import Candidate
from day0.runs.errors import Refused
from day0.tools.engines.sglang import Sglang
from hypothesis import given
from hypothesis import strategies as st


def ask(node, flags=None, env=None, parent="r0.1", **view):
    action = TryCandidate(parent=parent, flags=flags or {}, env=env or {}, hypothesis="h", expected_gain=0.1)
    return admit(action, node.view(**view))


def why(answer) -> str:
    assert isinstance(answer, Refused), answer
    return answer.reason


def test_a_sound_change_becomes_the_parents_candidate_changed(make_node):
    node = make_node()
    candidate = ask(node, {"dtype": "float32"}, {"MALLOC_TOP_PAD_": "65536"})
    assert isinstance(candidate, Candidate)
    assert set(candidate.changed(node.attempts[0].candidate)) == {"--dtype", "MALLOC_TOP_PAD_"}


def test_aliases_become_the_engines_own_names(make_node):
    node = make_node(target=make_node().target.model_copy(update={"server_cores": (0, 1)}))
    assert dict(ask(node, {"tensor-parallel-size": 2}).flags)["tp-size"] == 2


def test_older_builds_that_print_another_name_first_give_the_same_candidate(make_node):
    node = make_node(target=make_node().target.model_copy(update={"server_cores": (0, 1)}))
    older = tuple(
        f.model_copy(update={"name": "tensor-parallel-size", "aliases": ("tp-size",)}) if f.name == "tp-size" else f
        for f in node.engine.flags
    )
    node.engine = node.engine.model_copy(update={"flags": older})
    candidate = ask(node, {"tensor-parallel-size": 2})
    assert candidate.gpus_held == 2 and candidate == ask(node, {"tp-size": 2})


def test_what_the_target_sets_is_not_held_against_the_candidate(make_node):
    seen = []
    action = TryCandidate(parent="r0.1", env={"MALLOC_TOP_PAD_": "1"}, hypothesis="h", expected_gain=0.1)
    node = make_node()
    assert isinstance(admit(action, node.view(), check=lambda c, f, model: seen.append(dict(c.env))), Candidate)
    assert seen == [{"MALLOC_TOP_PAD_": "1"}]


def test_an_unknown_parent_names_the_latest(make_node):
    assert "r0.1" in why(ask(make_node(), {"dtype": "float32"}, parent="r9.9"))


def test_an_unknown_flag_names_the_nearest(make_node):
    assert "--stream-interval" in why(ask(make_node(), {"stream-intervals": 4}))


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        ({"dtype": "int3"}, "not offered"),
        ({"stream-interval": True}, "takes a value"),
        ({"enable-mixed-chunk": 1}, "switch"),
        ({"enable-mixed-chunk": False}, "no negative form"),
    ],
)
def test_values_are_checked_against_the_help(make_node, flags, text):
    assert text in why(ask(make_node(), flags))


def test_s54_the_same_proposal_twice_is_refused_with_the_earlier_result(make_node):
    node = make_node()
    first = ask(node, {"dtype": "float16"})
    attempt = node.climb(first, "r0.1", "playbook")
    reason = why(ask(node, {"dtype": "float16"}))
    assert attempt.id in reason and attempt.status.value in reason and attempt.reason in reason


def test_s54_a_detour_to_a_known_candidate_is_found_too(make_node):
    node = make_node()
    node.climb(ask(node, {"dtype": "float32"}), "r0.1", "playbook")
    assert "r0.1" in why(ask(node, {"dtype": None}, parent="r0.2"))


def test_a_change_that_changes_nothing_is_refused(make_node):
    assert "changes nothing" in why(ask(make_node(), {"dtype": None}))


@pytest.mark.parametrize(
    ("flags", "env"),
    [
        ({"load-format": "dummy"}, {}),
        ({"load-format": "pt"}, {}),
        ({"json-model-override-args": '{"num_hidden_layers": 2}'}, {}),
        ({"json-model-override-args": '{"index_topk": 64}'}, {}),
        ({"speculative-accept-threshold-single": 0.2}, {}),
        ({"speculative-accept-threshold-acc": "nan"}, {}),
        ({"context-length": 64}, {}),
        ({"allow-auto-truncate": True}, {}),
        ({"preferred-sampling-params": '{"max_new_tokens": 1}'}, {}),
        ({}, {"SGLANG_SIMULATE_ACC_LEN": "4"}),
    ],
)
def test_s39_fakes_of_the_result_are_refused(make_node, flags, env):
    assert "ban" in why(ask(make_node(), flags, env))


def test_s60_code_from_a_repository_needs_consent(make_node):
    assert "consent" in why(ask(make_node(), {"trust-remote-code": True}))


@pytest.mark.parametrize(
    "flags",
    [
        {"host": "0.0.0.0"},
        {"port": 80},
        {"model-path": "x; rm -rf /"},
        {"sidecar": "sh"},
        {"log-requests-target": "/etc/passwd"},
        {"tool-server": "http://198.51.100.7"},
        {"custom-weight-loader": "os.system"},
        {"forward-hooks": "[]"},
        {"file-storage-path": "/"},
        {"lora-paths": "/x"},
        {"dtype": "--trust-remote-code"},
        {"log-level": "info\n--host 0.0.0.0"},
        {"schedule-conservativeness": float("inf")},
    ],
)
def test_ways_out_are_refused(make_node, flags):
    why(ask(make_node(), flags))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("LD_PRELOAD", "/tmp/evil.so"),
        ("LD_LIBRARY_PATH", "/tmp"),
        ("PATH", "/tmp"),
        ("PYTHONPATH", "/tmp"),
        ("PYTHONSTARTUP", "/tmp/x.py"),
        ("HOME", "/root"),
        ("HTTPS_PROXY", "http://198.51.100.7"),
        ("HF_TOKEN", "hf_xxxxxxxx"),
        ("DAY0_ATTEMPT", "r0.9"),
        ("OMP_NUM_THREADS", "1;id"),
        ("MALLOC_CONF", "prof:true,prof_prefix:/etc/x"),
    ],
)
def test_the_environment_is_an_allow_list(make_node, name, value):
    why(ask(make_node(), {}, {name: value}))


def test_an_allocator_may_be_preloaded_only_from_where_it_was_found(make_node, facts):
    node = make_node(engine=facts(tcmalloc="/usr/lib/libtcmalloc.so.4"))
    assert isinstance(ask(node, {}, {"LD_PRELOAD": "/usr/lib/libtcmalloc.so.4"}), Candidate)
    why(ask(node, {}, {"LD_PRELOAD": "/usr/lib/libtcmalloc.so.4:/tmp/evil.so"}))


def test_what_the_target_needs_cannot_be_changed(make_node):
    assert "needs --attention-backend torch_native" in why(ask(make_node(), {"attention-backend": "triton"}))
    assert "needs --device" in why(ask(make_node(), {"device": None}))


def test_ranks_need_cores(make_node):
    assert "2 ranks" in why(ask(make_node(), {"tp-size": 2}))
    assert "server cores" in why(ask(make_node(), {}, {"OMP_NUM_THREADS": "2"}))


def test_heads_must_be_divisible(make_node):
    node = make_node(target=make_node().target.model_copy(update={"server_cores": tuple(range(8))}))
    assert "heads" in why(ask(node, {"tp-size": 3}))


def test_replicas_must_fit_into_memory(make_node):
    target = make_node().target.model_copy(update={"server_cores": tuple(range(16))})
    node = make_node(target=target, model=make_node().model.model_copy(update={"weight_bytes": 3_000_000_000}))
    assert "GB" in why(ask(node, {"dp-size": 8}))
    assert isinstance(ask(node, {"dp-size": 2}), Candidate)
    # a wider type doubles the weights: 4 x 3 GB and four processes fit, 4 x 6 GB do not
    assert isinstance(ask(node, {"dp-size": 4}), Candidate)
    assert "GB" in why(ask(node, {"dp-size": 4, "dtype": "float32"}))


def test_weights_must_fit_into_the_accelerators(make_node, glm):
    node = make_node(**glm)
    assert "per accelerator" in why(ask(node, {"tp-size": 1, "dp-size": 8}))
    assert isinstance(ask(node, {"tp-size": 4, "dp-size": 2}), Candidate)
    assert "16 accelerators" in why(ask(node, {"tp-size": 8, "dp-size": 2}))


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        ({"speculative-num-steps": 3}, "speculative-algorithm"),
        ({"speculative-algorithm": "EAGLE", "speculative-num-steps": 3}, "together"),
        (
            {
                "speculative-algorithm": "EAGLE",
                "speculative-num-steps": 3,
                "speculative-eagle-topk": 1,
                "speculative-num-draft-tokens": 6,
            },
            "num-steps + 1 = 4",
        ),
        ({"chunked-prefill-size": 100, "page-size": 16}, "multiple of page-size"),
        ({"mem-fraction-static": 1.5}, "between 0 and 1"),
    ],
)
def test_flags_that_only_work_together(make_node, flags, text):
    assert text in why(ask(make_node(), flags))


def test_s53_the_budget_is_a_reason(make_node):
    node = make_node()
    assert "node seconds" in why(ask(node, {"dtype": "float32"}, budget_s=10))
    assert "no attempts" in why(ask(node, {"dtype": "float32"}, left=0))
    assert isinstance(ask(node, {"dtype": "float32"}, budget_s=100), Candidate)


def test_the_engines_own_check_decides_when_it_is_given(make_node):
    def never(candidate, facts, *, model):
        assert model == node.view().model
        raise Refused("the adapter says no")

    node = make_node()
    action = TryCandidate(parent="r0.1", flags={"dtype": "float32"}, hypothesis="h", expected_gain=0.1)
    assert why(admit(action, node.view(), check=never)) == "the adapter says no"


def test_the_adapters_check_knows_the_model_that_the_view_has(make_node):
    view = make_node().view()
    action = TryCandidate(
        parent="r0.1", flags={"context-length": view.model.context}, hypothesis="h", expected_gain=0.1
    )
    assert isinstance(admit(action, view, check=Sglang().check), Candidate)


NAMES = st.text("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_-0123456789", min_size=1, max_size=30)


VALUES = st.one_of(st.booleans(), st.integers(), st.text(max_size=30))


@given(flags=st.dictionaries(NAMES, VALUES), env=st.dictionaries(NAMES, st.text(max_size=30)))
def test_whatever_is_asked_the_guard_answers_and_admits_only_known_flags(shared_node, flags, env):
    answer = ask(shared_node, flags, env)
    if isinstance(answer, Candidate):
        check_flags(answer, shared_node.engine)
    else:
        assert answer.reason
    assert ask(shared_node, flags, env).__class__ is answer.__class__


def test_another_image_is_admitted_by_what_is_known_of_the_first(make_node, glm):
    """The engine's own check knows the flags of one build; what a further image has shows once it boots."""
    node = make_node(**glm)
    view = node.view(images={"sha256:other": "the next release"})
    action = TryCandidate(
        parent="r0.1", image="sha256:other", flags={"stream-interval": 4}, hypothesis="it pays", expected_gain=0.1
    )
    made = admit(action, view, check=Sglang().check)
    assert not isinstance(made, Refused) and made.build == "sha256:other"
    assert view.engine.of("sha256:other").version == "unknown" and view.engine.of(view.engine.build) is view.engine
