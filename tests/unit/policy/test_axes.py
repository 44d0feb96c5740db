"""The axis table: what is offered where, and why not elsewhere."""

import pytest
from day0.agent.policy.axes import Option, Site, all_axes, offers
from day0.runs.candidate import Candidate
from day0.runs.engine_facts import ModelFacts, NodeFacts
from day0.runs.workload import Objective, Target, Workload
from day0.tools.engines import router

NODE = NodeFacts(name="n", cores=2)


@pytest.fixture
def site(make_node):
    node = make_node()

    def make(*, engine=None, work=None, model=None, **target) -> Site:
        return Site(
            model or node.model,
            engine or node.engine,
            NODE,
            Target(**{**dict(node.target), **target}),
            work or node.work,
            Objective.GOODPUT,
        )

    return make


@pytest.fixture
def gpu_site(glm, facts, work):
    def make(**changes) -> Site:
        model = ModelFacts(**{**dict(glm["model"]), **changes.pop("model", {})})
        traffic = Workload(**{**dict(work), **changes.pop("work", {})})
        return Site(model, facts(), NodeFacts(name="n", gpus=8), glm["target"], traffic, Objective.GOODPUT)

    return make


def named(site: Site) -> dict:
    return {o.axis.name: o for o in offers(site)}


def test_names_are_unique_per_kind_and_every_axis_says_why_and_where_from():
    for kind in ("cpu", "gpu"):
        names = [a.name for a in all_axes() if kind in a.kinds]
        assert len(names) == len(set(names))
        for axis in (a for a in all_axes() if kind in a.kinds):
            assert axis.why and axis.source
            assert axis.conflicts <= set(names), axis.name


def test_every_flag_of_every_axis_exists_in_the_released_engine(site, gpu_site):
    for place in (site(server_cores=(0, 1, 2, 3)), gpu_site(), gpu_site(model={"nextn_layers": 0})):
        for axis in (a for a in all_axes() if place.kind in a.kinds):
            for option in axis.options(place):
                for flag, value in option.flags.items():
                    spec = place.engine.flag(flag)
                    if spec is None and flag in router.FLAGS:
                        continue  # of a package beside the engine, where a build has it
                    assert spec is not None, f"{axis.name}: --{flag}"
                    assert spec.takes_value != isinstance(value, bool) or value is None, f"{axis.name}: --{flag}"
                    assert not spec.choices or str(value) in spec.choices, f"{axis.name}: --{flag} {value}"


def test_without_a_compiler_the_compile_axis_is_refused_with_that_reason(site, facts):
    assert named(site())["compile"].options
    refused = named(site(engine=facts()))["compile"]
    assert not refused.options and "g++" in refused.reason


def test_parallelism_needs_cores(site):
    one = named(site())
    assert {n for n in ("parallelism", "replicas", "threads", "tokenizers") if one[n].options} == set()
    assert "2 server cores" in one["parallelism"].reason
    two = named(site(server_cores=(0, 1)))
    assert [o.flags for o in two["parallelism"].options] == [{"tp-size": 2}]
    assert two["parallelism"].options[0].env == {"SGLANG_CPU_OMP_THREADS_BIND": "0|1"}


def test_the_prefix_cache_is_only_given_up_where_nothing_is_shared(site, work):
    assert not named(site())["prefix-cache"].options
    nothing = work.model_copy(update={"cached_share": 0.0})
    assert named(site(work=nothing))["prefix-cache"].options
    assert "shares no prefixes" in named(site(work=nothing))["policy"].reason


def test_queueing_axes_do_not_apply_to_a_single_stream(site, work):
    single = named(site(work=work.model_copy(update={"arrival": "single_stream"})))
    for name in ("running-cap", "prefill-pace", "conservativeness"):
        assert not single[name].options and "single stream" in single[name].reason


def test_an_allocator_is_only_offered_from_the_path_where_it_was_found(site, facts):
    assert all("LD_PRELOAD" not in o.env for o in named(site())["allocator"].options)
    found = named(site(engine=facts(tcmalloc="/usr/lib/libtcmalloc.so.4")))["allocator"].options
    assert [o.env["LD_PRELOAD"] for o in found if "LD_PRELOAD" in o.env] == ["/usr/lib/libtcmalloc.so.4"]


def test_what_the_target_itself_sets_is_not_an_axis(site):
    pinned = named(site(base_flags={"device": "cpu", "dtype": "bfloat16"}))["dtype"]
    assert not pinned.options and "target itself sets --dtype" in pinned.reason


def test_a_flag_that_the_build_lacks_closes_the_axis(site):
    engine = site().engine
    older = engine.model_copy(update={"flags": tuple(f for f in engine.flags if f.name != "stream-interval")})
    assert "has no --stream-interval" in named(site(engine=older))["stream"].reason


def test_a_processor_speculates_where_its_engines_plug_in_can_and_nothing_samples(site):
    engine, work = site().engine, site().workload
    able = engine.model_copy(update={"packages": {**engine.packages, "day0_sglang_cpu": "0.2.0"}})
    for option in named(site(engine=able))["speculation"].options:
        assert (option.flags["attention-backend"], option.flags["speculative-algorithm"]) == ("torch_grouped", "NGRAM")
        assert option.flags["speculative-ngram-max-bfs-breadth"] == 1, "it verifies chains"
    old = engine.model_copy(update={"packages": {**engine.packages, "day0_sglang_cpu": "0.1.0"}})
    assert "sgl_kernel" in named(site(engine=old))["speculation"].reason
    sampled = site(engine=able, work=work.model_copy(update={"temperature": 0.7}))
    assert "sample" in named(sampled)["speculation"].reason


def test_speculation_sets_its_three_depths_and_an_explicit_cap_together(gpu_site):
    for option in named(gpu_site())["speculation"].options:
        steps = option.flags["speculative-num-steps"]
        assert option.flags["speculative-num-draft-tokens"] == steps + 1
        assert option.flags["speculative-eagle-topk"] == 1
        assert option.flags["max-running-requests"] > 48
        assert option.flags["disable-custom-all-reduce"] is True
    assert "draft layer" in named(gpu_site(model={"nextn_layers": 0}))["speculation"].reason


def test_a_single_stream_wants_wide_tensor_parallelism_and_throughput_replicas(gpu_site):
    def first(place):
        return max(named(place)["topology"].options, key=lambda o: o.gain).label

    assert first(gpu_site()) == "TP4 x DP2"
    assert first(gpu_site(work={"arrival": "single_stream"})) == "TP8 x DP1"


def test_a_dense_model_has_no_expert_axes(gpu_site):
    dense = named(gpu_site(model={"experts": 0, "shared_experts": 0, "architecture": "Llama", "model_type": "llama"}))
    assert {
        n for n in ("moe-runner", "expert-parallel", "shared-fusion", "sparse-backend") if dense[n].options
    } == set()
    assert dense["attention-backend"].options


def test_offers_are_ordered_by_expected_gain(site):
    gains = [o.axis.gain for o in offers(site())]
    assert gains == sorted(gains, reverse=True)


def test_an_option_changes_only_what_it_names():
    base = Candidate(engine="sglang", build="b", model="m", revision="r", flags={"a": 1, "b": 2}, env={"X": "1"})
    changed = Option("", {"a": None, "c": True}, {"Y": "2"}).on(base)
    assert dict(changed.flags) == {"b": 2, "c": True}
    assert dict(changed.env) == {"X": "1", "Y": "2"}
    assert Option("", {"b": 2}).set_in(base) and not Option("", {"b": 3}).set_in(base)
    assert changed.digest() == Candidate.model_validate(changed.model_dump()).digest()
