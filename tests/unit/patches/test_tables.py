"""Shapes from logs and from facts, and the tables of tuned rows."""

import pytest
from day0.runs.engine_facts import ModelFacts
from day0.runs.errors import Refused
from day0.sandboxes.twin import tuning
from day0.sandboxes.twin.programs import bootlog
from day0.sandboxes.twin.world import world
from day0.tools import kernels
from day0.tools.aiter_shapes import FP4, MOST_TOKENS, UNTUNED_HEADER, Shape, padded, parse_key, untuned, untuned_of
from day0.tools.aiter_tables import HEADER, LEGACY_LACKS, coverage, key, merged, rows, validated, written, wrong
from day0.tools.engines.sglang import Sglang
from hypothesis import given, settings
from hypothesis import strategies as st

LEGACY = ",".join(name for name in HEADER.split(",") if name not in LEGACY_LACKS)
KINDS = (
    "'ActivationType.Silu', 'torch.bfloat16', 'torch.float4_e2m1fn_x2', 'torch.float4_e2m1fn_x2', 'QuantType.per_1x32'"
)
KEY = f"('gfx950', 256, {{}}, 6144, 512, 257, 9, {KINDS}, True, False)"
GLM = ModelFacts(
    model="m", revision="r", architecture="GlmMoeDsaForCausalLM", layers=78, hidden=6144, heads=64, kv_heads=1,
    head_dim=64, vocab=1, context=1, experts=256, experts_per_token=8, shared_experts=1, moe_intermediate=2048,
    quantization="quark fp4",
)  # fmt: skip

shapes = st.builds(
    Shape,
    token=st.sampled_from([1, 2, 64, 16384]),
    model_dim=st.sampled_from([2048, 6144]),
    inter_dim=st.sampled_from([256, 512]),
    expert=st.sampled_from([256, 257]),
    topk=st.sampled_from([8, 9]),
    use_g1u1=st.sampled_from([0, 1]),
)


def row(shape, us=10.0, *, arch="gfx950", units=256, error="0.0", header=HEADER, **more):
    given = {**dict(zip(UNTUNED_HEADER.split(","), shape.key(), strict=True)), "gfx": arch, "cu_num": str(units)}
    given |= {"us": str(us), "kernelName1": "k1", "err1": error, "kernelName2": "k2", "err2": "0.0", **more}
    return ",".join(str(given.get(name, "0")) for name in header.split(","))


def table(*lines, header=HEADER):
    return "\n".join((header, *lines)) + "\n"


# -- shapes ------------------------------------------------------------------------------------------------------------

GEMM = (
    "[aiter] shape is M:16, N:6144, K:2048, not found tuned config in /tmp/aiter_configs/a4w4_blockscale_tuned_gemm.csv"
    ", will use default config!"
)
LOG = f"""\
[2026-01-01 00:00:00 TP0] max_total_num_tokens=1, chunked_prefill_size=4096, max_prefill_tokens=16384
[aiter] [fused_moe] no tuned FlyDSL config for {KEY.format(1)}, using heuristic FlyDSL fallback (kn1='a', kn2='b')
[aiter] [fused_moe] no tuned FlyDSL config for {KEY.format(1)}, using heuristic FlyDSL fallback (kn1='a', kn2='b')
[aiter] [fused_moe] using 2stage default for {KEY.format(2)}
[aiter] [fused_moe] using 1stage default for {KEY.format(4).replace("512, 257", "1024, 33")}
[aiter] [fused_moe] using 2stage (kernelName1='x', kernelName2='y') for {KEY.format(8)}
[aiter] [fused_moe] using 2stage default for (nonsense, 1)
{GEMM}
{GEMM}
[aiter] shape M:32, N:6144, K:2048 dtype=bf16, not found tuned config in CKGEMM, will use default config!
[aiter] Fmoe tuning not support for ('x',)
Using default MoE kernel config. Performance might be sub-optimal! Config file not found at /x/E=256.json
"""


def test_every_form_of_line_is_read_and_counted_once():
    found = untuned(LOG.encode())
    assert [(s.token, s.inter_dim, s.expert) for s in found.shapes] == [(1, 512, 257), (2, 512, 257), (4, 1024, 33)]
    assert [s.token for s in found.tuned] == [8] and found.coverage == 0.25
    assert (found.arch, found.chunk) == ("gfx950", 4096)
    assert dict(found.gemm) == {"CKGEMM": 1, "a4w4_blockscale_tuned_gemm.csv": 1}
    assert len(found.others) == 2 and set(found.others.values()) == {1}


def test_s44_the_whole_log_of_a_boot_gives_the_coverage_of_tuned_rows():
    """Lines are counted from launch on; the share of shapes with a tuned row stands beside the figures."""
    found = kernels.read(f"{LOG}[aiter] start build [module_x]\n".encode(), Sglang.fallback)
    assert (found.tuned, found.untuned, found.coverage) == (1, 3, 0.25)
    assert (found.fallback_lines, found.compile_lines) == (9, 1)
    assert kernels.words(found) == (
        "1 of 4 expert-kernel shapes ran with tuned rows (25%); 9 lines of fallbacks; 1 lines of compiles or captures"
    )
    assert kernels.read(b"nothing here", Sglang.fallback).coverage is None


def test_a_log_names_the_batches_that_came_all_others_are_asked_for_too():
    wanted = untuned(LOG.encode()).wanted()
    fused = [s.token for s in wanted if s.inter_dim == 512]
    assert fused == [n for n in padded(16384) if n != 8] and fused[-1] == 16384, "not only up to this server's chunk"
    larger = untuned(LOG.replace("chunked_prefill_size=4096", "chunked_prefill_size=131072").encode()).wanted()
    assert max(s.token for s in larger) == 131072
    assert untuned(b"nothing here").wanted() == () and untuned(b"").coverage is None


@given(st.binary(max_size=300), st.binary(max_size=60))
@settings(max_examples=100, deadline=None)
def test_any_log_is_read(noise, inner):
    untuned(noise + b"\n[fused_moe] using 2stage default for (" + inner + b")\nchunked_prefill_size=9\n" + noise)


@given(shapes, st.sampled_from(["gfx950", "gfx942", ""]))
def test_a_key_is_read_back_as_aiter_prints_it(shape, arch):
    head = f"'{arch}', " if arch else ""
    words = [str(w) if isinstance(w, int) else f"'{w}'" for w in shape.model_dump().values()]
    words[-2:] = [str(bool(shape.use_g1u1)), str(bool(shape.doweight_stage1))]
    assert parse_key(f"{head}256, {', '.join(words)}") == (arch or "gfx950", shape)


def test_the_simulated_servers_own_lines_are_understood():
    own = world("glm-5.2")
    args = {"tp_size": 4, "ep_size": 1}
    keys = tuning.shapes(own, args)
    text = "\n".join(bootlog.UNTUNED.format(key=tuning.described(own, k)) for k in keys)
    found = untuned(text.encode())
    assert [(s.token, s.model_dim, s.inter_dim, s.expert, s.topk) for s in found.shapes] == list(keys)
    assert {s.key()[1:] for s in found.shapes} <= {s.key()[1:] for s in untuned_of(GLM, {"tp-size": 4}).shapes}


@pytest.mark.parametrize("most", [1, 5, 512, 16384, 32768, 131072])
def test_batches_are_padded_as_aiter_does(most):
    sizes = padded(most)
    assert sizes[0] == 1 and sizes[-1] >= min(most, MOST_TOKENS[1]) and list(sizes) == sorted(set(sizes))
    assert all(s & (s - 1) == 0 for s in sizes)


@pytest.mark.parametrize(
    ("flags", "keys"),
    [
        ({"tp-size": 4}, {(512, 257, 9), (512, 256, 8)}),
        ({"tp-size": 8, "disable-shared-experts-fusion": True}, {(256, 256, 8)}),
        ({"tp-size": 1, "enforce-shared-experts-fusion": True}, {(2048, 257, 9)}),
        ({"tp-size": 8, "ep-size": 4, "disable-shared-experts-fusion": True}, {(1024, 64, 8)}),
        ({"tp-size": 8, "moe-a2a-backend": "mori", "disable-shared-experts-fusion": True}, {(2048, 32, 8)}),
    ],
)
def test_facts_alone_name_both_keys_unless_a_flag_decides(flags, keys):
    told = untuned_of(GLM, {**flags, "chunked-prefill-size": 1024})
    assert {(s.inter_dim, s.expert, s.topk) for s in told.shapes} == keys
    assert {s.token for s in told.shapes} == set(padded(16384)) and told.source == "facts"
    assert all((s.model_dim, s.q_dtype_a, s.q_dtype_w, s.q_type) == (6144, *FP4) for s in told.shapes)


def test_kinds_of_numbers_follow_the_checkpoint_and_a_dense_model_has_none():
    def kind(quantization):
        return untuned_of(GLM.model_copy(update={"quantization": quantization}), {}).shapes[0].q_type

    assert [kind(q) for q in ("fp8", "quark fp8", "mxfp4", None)] == [
        "QuantType.per_1x128", "QuantType.per_Token", "QuantType.per_1x32", "QuantType.No",
    ]  # fmt: skip
    with pytest.raises(Refused, match="no experts"):
        untuned_of(GLM.model_copy(update={"experts": 0}), {})


def test_the_untuned_row_of_glm_is_aiters_own():
    (shape,) = [s for s in untuned_of(GLM, {"tp-size": 1}).shapes if s.token == 1 and s.expert == 257]
    fp4 = "torch.float4_e2m1fn_x2,torch.float4_e2m1fn_x2,QuantType.per_1x32"
    assert shape.row() == f"1,6144,2048,257,9,ActivationType.Silu,torch.bfloat16,{fp4},1,0"


# -- tables ------------------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(shapes, st.floats(0.1, 1e4), st.booleans()), max_size=12))
@settings(max_examples=80, deadline=None)
def test_merging_keeps_each_key_once_with_its_fastest_row_under_the_current_header(given_):
    current = table(*(row(s, us) for s, us, old in given_ if not old))
    legacy = table(*(row(s, us, header=LEGACY) for s, us, old in given_ if old), header=LEGACY)
    text = merged((legacy, current))
    assert text.splitlines()[0] == HEADER
    found = {key(r): float(r["us"]) for r in rows(text)}
    assert len(found) == text.count("\n") - 1 == len({s.key() for s, _, _ in given_})
    for s, us, _ in given_:
        assert found["gfx950", "256", *s.key()] <= us + 1e-9
    assert merged((text, current)) == text == merged((text,)), "the same again"
    assert coverage([s for s, _, _ in given_], [text], arch="gfx950") == 1.0


def test_a_table_that_is_named_replaces_the_images_own_so_it_holds_their_rows_too():
    mine, theirs = Shape(token=1, model_dim=6144, inter_dim=512, expert=257, topk=9), Shape(
        token=1, model_dim=2048, inter_dim=256, expert=8, topk=2
    )  # fmt: skip
    image = table(row(theirs, header=LEGACY), row(theirs, arch="", units=304, header=LEGACY), header=LEGACY)
    text = merged((image, table(row(mine))))
    assert coverage((mine, theirs), [text], arch="gfx950") == 1.0
    assert [r["gfx"] for r in rows(text)] == ["gfx942", "gfx950", "gfx950"], "other accelerators stay, named"


def test_columns_that_this_build_has_and_we_do_not_know_are_kept():
    shape = Shape(token=1, model_dim=6144, inter_dim=512, expert=257, topk=9)
    text = merged((table(row(shape) + ",7", header=f"{HEADER},newcol"),))
    assert text.splitlines()[0].endswith(",newcol") and text.splitlines()[1].endswith(",7")


A = Shape(token=1, model_dim=6144, inter_dim=512, expert=257, topk=9)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (row(A, 0.0), "no positive time"),
        (row(A, -3), "no positive time"),
        (row(A, "nan"), "no positive time"),
        (row(A, "inf"), "no positive time"),
        (row(A, kernelName1=""), "no kernel"),
        (row(A, error="0.7"), "error ratio"),
        (row(A, error="70%"), "error ratio"),
        (row(A, error="-1"), "error ratio"),
        (row(A, error="?"), "error ratio"),
        (row(A, token="many"), "damaged key"),
        (row(A, arch="gfx942"), "another accelerator"),
        (row(A.at(7)), "nobody asked for"),
        (row(A, 10.0, error="3%"), ""),
    ],
)
def test_only_rows_that_hold_are_taken_from_the_tuner(line, why):
    checked = validated(table(line), (A,), arch="gfx950")
    assert bool(checked.rows) == (not why)
    assert not why or [r for r in checked.dropped if why in r], checked.dropped


def test_duplicates_of_the_tuner_count_once_the_fastest():
    checked = validated(table(row(A, 9.0), row(A, 3.0), row(A, 5.0), row(A, 1.0, error="0.9")), (A,), arch="gfx950")
    assert [r["us"] for r in checked.rows] == ["3.0"] and sum(checked.dropped.values()) == 3
    assert wrong(checked.rows[0]) == ""


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", "no table at all", HEADER.replace("us,", "")])
def test_what_is_no_table_is_no_table(text):
    with pytest.raises(ValueError, match="lacks the columns"):
        validated(text, (A,), arch="gfx950")


@given(st.text(max_size=200))
@settings(max_examples=60, deadline=None)
def test_damaged_rows_never_reach_a_table_that_serves(noise):
    body = noise.replace("\r", "").replace("\x00", "")
    checked = validated(f"{HEADER}\n{body}\n{row(A)}\n", (A,), arch="gfx950") if '"' not in body else None
    assert checked is None or [key(r)[2:] for r in checked.rows] == [A.key()]
    assert checked is None or merged((written(checked.rows),))
