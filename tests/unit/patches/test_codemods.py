"""The shipped codemods, judged as the simulated node judges source: by preprocessing and by parsing it."""

import ast

import pytest
from day0.runs.errors import Refused
from day0.sandboxes.twin import defects
from day0.tools.codemods import CODEMODS, codemod, nextn_prefixes, rocm_guard
from day0.tools.codemods.base import Files, Over
from day0.tools.known import codemod_of, known_issues
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.patches.engine import EVIDENCE, KERNEL, MAPPER, METADATA, TREE, WEIGHTS, config

HEADERS = sorted(rocm_guard.HIP)


def mended(text, asked, path=WEIGHTS):
    return nextn_prefixes.change(Files({path: text}), asked, "").files[path]


def wrong(text, asked):
    layers = asked["num_hidden_layers"]
    return defects.mismatched_drafts(asked, defects.draft_mapper(text, layers))


# -- the guard ---------------------------------------------------------------------------------------------------------


def test_the_guard_is_the_one_that_upstream_took():
    change = rocm_guard.change(Files(TREE), {}, EVIDENCE)
    guard = "#ifndef USE_ROCM\n#include <cuda_runtime.h>\n#else\n#include <hip/hip_runtime.h>\n#endif\n"
    assert change.files == {METADATA: KERNEL.replace("#include <cuda_runtime.h>\n", guard)}
    assert "'cuda_runtime.h' file not found" in change.gone
    assert defects.missing_header(METADATA, ((METADATA, change.files[METADATA]),)) == ""


@st.composite
def kernels(draw):
    """Sources with CUDA headers in all places: bare, guarded, in comments, in branches, with trailing comments."""
    piece = st.one_of(
        st.sampled_from(
            ["#include <cstdint>\n", "int a;\n", "\n", "#pragma once\n", "  #include <algorithm> // min\n"]
        ),
        st.sampled_from(HEADERS).flatmap(
            lambda h: st.sampled_from(
                [
                    f"#include <{h}>\n",
                    f'#include "{h}"\n',
                    f"#  include <{h}>  // for the runtime\n",
                    f"/* #include <{h}> */\n",
                    f"// #include <{h}>\n",
                    f"#ifndef USE_ROCM\n#include <{h}>\n#else\n#include <hip/hip_runtime.h>\n#endif\n",
                    f"#ifdef USE_ROCM\n#include <hip/hip_fp16.h>\n#else\n#include <{h}>\n#endif\n",
                    f"#if defined(__HIP_PLATFORM_AMD__)\n#else\n#include <{h}>\n#endif\n",
                    f"#if 1\n#include <{h}>\nint b;\n#endif\n",
                ]
            )
        ),
    )
    return "".join(draw(st.lists(piece, min_size=1, max_size=8)))


@given(kernels())
@settings(max_examples=60, deadline=None)
def test_a_guard_hides_from_rocm_what_it_lacks_and_leaves_cuda_as_it_was(text):
    made, found = rocm_guard.guarded(text, METADATA)
    assert defects.missing_header(METADATA, ((METADATA, made),)) == ""
    assert bool(found) == bool(defects.missing_header(METADATA, ((METADATA, text),)))
    assert rocm_guard.seen(made, METADATA, rocm_guard.CUDA) == rocm_guard.seen(text, METADATA, rocm_guard.CUDA)
    assert rocm_guard.guarded(made, METADATA) == (made, set()), "again: nothing to change"
    kept = [line for line in made.splitlines() if line not in text.splitlines()]
    assert all(line.startswith(("#ifndef", "#else", "#endif", "#include <hip/")) for line in kept)


@given(st.text(alphabet='#include<>"\n cuda_rtime.h/*if0end\\', max_size=200))
@settings(max_examples=60, deadline=None)
def test_a_guard_takes_any_text_or_refuses_it(text):
    try:
        made, found = rocm_guard.guarded(text, "x.cuh")
    except Refused:
        return
    assert found or made == text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("#include <cutlass/cutlass.h>\n", "no counterpart"),
        ("#define H <cuda_runtime.h>\n#include H\n", "can't be wrapped"),
        ("#ifdef USE_ROCM\n#include <cuda_runtime.h>\n#endif\n", ""),
        ("#include <cub/block/block_scan.cuh>\r\nint a;\r\n", ""),
        ("#include <cuda_runtime.h>", ""),
    ],
)
def test_odd_includes_are_wrapped_or_refused(text, why):
    if why:
        with pytest.raises(Refused, match=why):
            rocm_guard.guarded(text, METADATA)
        return
    made, found = rocm_guard.guarded(text, METADATA)
    assert found and defects.missing_header(METADATA, ((METADATA, made),)) == ""
    assert ("\r\n" in text) == ("#endif\r\n" in made)


def test_the_file_that_the_compiler_names_is_found_and_what_stands_beside_it():
    folder = "sglang/python/sglang/jit_kernel/csrc/moe"
    tree = {
        f"{folder}/topk.cuh": '#include "helper.h"\n#include <cooperative_groups.h>\n',
        f"{folder}/helper.h": "#include <cuda_fp16.h>\n",
        METADATA: KERNEL,
    }
    found = rocm_guard.change(Files(tree), {}, "topk.cuh:2:10: fatal error: 'cooperative_groups.h' file not found")
    assert set(found.files) == {f"{folder}/topk.cuh", f"{folder}/helper.h"}, "and nothing that nobody named"
    assert set(rocm_guard.change(Files(tree), {}, "").files) == {METADATA}, "without evidence: the known one"
    del tree[METADATA]
    assert rocm_guard.change(Files({f"{folder}/other.cuh": KERNEL}), {}, "").files, "an unknown one, when it is alone"
    with pytest.raises(Refused, match="nothing to change"):
        rocm_guard.change(Files({METADATA: "#pragma once\n"}), {}, EVIDENCE)


# -- the names of draft layers -----------------------------------------------------------------------------------------


def test_the_table_moves_to_where_the_configuration_is_and_serves_every_model():
    text = mended(MAPPER, config())
    assert not wrong(text, config()) and not wrong(text, config(layers=61)), (
        "the model that it was made for stays served"
    )
    space: dict = {}
    exec(text, space)  # the codemod's own output over our own text
    asked = type("Config", (), {"num_hidden_layers": 46})
    assert space["checkpoint_name"]("model.decoder.mlp.gate", asked) == "model.layers.46.mlp.gate"
    assert space["checkpoint_name"]("model.eh_proj", asked) == "model.layers.46.eh_proj"


MODULES = ("eh_proj", "enorm", "hnorm", "shared_head.head", "mlp.gate", "mlp.experts", "self_attn.kv_b_proj")
HEADS = ("model.layers", "model.language_model.layers", "layers")


@st.composite
def mappers(draw):
    """Tables of draft prefixes as people write them: other numbers, prefixes, forms, places and company."""
    number = draw(st.integers(0, 130))
    head, quote = draw(st.sampled_from(HEADS)), draw(st.sampled_from("\"'"))
    keys = draw(
        st.sampled_from([("model", "model.decoder"), ("model.decoder",), ("model",), ("model", "other", "x.y")])
    )
    entries = [f"{quote}{key}{quote}: {quote}{head}.{number}{quote}" for key in keys]
    form = draw(st.sampled_from(["lines", "one", "annotated", "function", "unread"]))
    inner = ",\n    ".join(entries)
    table = f"DRAFT_PREFIXES = {{{', '.join(entries)}}}"
    read = "def name(m, config):\n    return DRAFT_PREFIXES.get(m, m)\n"
    return {
        "lines": f"import os\n\nDRAFT_PREFIXES = {{\n    {inner},\n}}\n\n\n{read}",
        "one": f"{table}\n\n{read}",
        "annotated": f"# where\nDRAFT_PREFIXES: dict[str, str] = {{\n    {inner}\n}}\nx = 1\n\n{read}",
        "function": f"def name(m, config):\n    {table}  # ünïcode\n    return DRAFT_PREFIXES.get(m, m)\n",
        "unread": f"{table}\n",
    }[form]


@given(mappers(), st.integers(1, 130), st.lists(st.sampled_from(MODULES), min_size=1, unique=True))
@settings(max_examples=150, deadline=None)
def test_after_the_change_every_excluded_module_is_found_and_again_there_is_nothing_to_change(text, layers, modules):
    asked = config(layers, modules)
    before = wrong(text, asked)
    try:
        made = mended(text, asked)
    except Refused as refused:
        assert not before, refused.reason
        return
    ast.parse(made)
    assert before and not wrong(made, asked)
    with pytest.raises(Refused, match="nothing to change"):
        mended(made, asked)


@given(mappers(), st.sampled_from(HEADS[1:]), st.integers(1, 130))
@settings(max_examples=40, deadline=None)
def test_other_prefixes_of_checkpoints_are_taken_as_they_are(text, head, layers):
    asked = config(layers, ("eh_proj", "mlp.gate"), head)
    try:
        made = mended(text, asked)
    except Refused:
        made = text
    table = defects.draft_mapper(made, layers)
    assert table["model"] == table["model.decoder"] == f"{head}.{layers}"


WEIGHTS_MAPPER = """\
class DeepseekNextN:
    # names of one published checkpoint
    hf_to_sglang_mapper = WeightsMapper(
        orig_to_new_substr={
            "model.layers.61": "model.decoder",
        },
    )
"""


@given(st.integers(1, 130), st.lists(st.sampled_from(MODULES), min_size=1, unique=True))
@settings(max_examples=40, deadline=None)
def test_a_mapper_of_checkpoint_names_gets_entries_that_lead_home(layers, modules):
    asked = config(layers, modules)
    try:
        made = mended(WEIGHTS_MAPPER, asked)
    except Refused:
        assert layers == 61 and not set(modules) & {"eh_proj", "enorm", "hnorm", "shared_head.head"}
        return
    (table,) = [ast.literal_eval(n) for n in ast.walk(ast.parse(made)) if isinstance(n, ast.Dict)]
    for module in modules:
        name = f"model.layers.{layers}.{module}"
        for part, new in table.items():
            name = name.replace(part, new, 1) if part in name else name
        own = module.split(".")[0] in {"eh_proj", "enorm", "hnorm", "shared_head"}
        assert name == (f"model.{module}" if own else f"model.decoder.{module}")
    assert '"model.layers.61": "model.decoder"' in made, "what it knew it still knows"


@pytest.mark.parametrize(
    ("text", "asked", "why"),
    [
        (MAPPER, {"num_hidden_layers": 78}, "nothing of a draft layer"),
        (MAPPER, config(modules=()), "nothing of a draft layer"),
        ("x = 1\n", config(), "no table"),
        ("DRAFT_PREFIXES = {", config(), "no table"),
        ('DRAFT_PREFIXES = {**OTHER, "model": "model.layers.61"}\n', config(), "made of other tables"),
        (MAPPER.replace("61", "78"), config(), "nothing to change"),
    ],
)
def test_what_can_not_be_mended_is_refused_with_the_reason(text, asked, why):
    with pytest.raises(Refused, match=why):
        mended(text, asked)


def test_s76_a_build_that_translates_the_names_itself_is_left_alone():
    own = """
class GlmMoeDsaForCausalLMNextN(DeepseekV3ForCausalLMNextN):
    def resolve(self, config, quant):
        prefix = f"model.layers.{config.num_hidden_layers}."
        return [name for name in quant.exclude_layers if name.startswith(prefix)]
"""
    asked = config() | {"architectures": ["GlmMoeDsaForCausalLM"]}
    files = Files({WEIGHTS: MAPPER, "sglang/python/sglang/srt/models/glm4_moe.py": own})
    with pytest.raises(Refused, match=r"already upstream \(sglang PR 30265\)"):
        nextn_prefixes.change(files, asked, "")
    assert nextn_prefixes.change(files, config() | {"architectures": ["Other"]}, "").files
    guarded = rocm_guard.change(Files(TREE), {}, "").files
    with pytest.raises(Refused, match=r"already upstream \(sglang PR 29373\)"):
        rocm_guard.change(Files({**TREE, **guarded}), {}, "")


def test_a_table_that_another_file_reads_stays_where_it_is():
    files = Files({WEIGHTS: MAPPER, "sglang/python/sglang/srt/user.py": "from x import DRAFT_PREFIXES\n"})
    made = nextn_prefixes.change(files, config(), "").files[WEIGHTS]
    assert '\nDRAFT_PREFIXES = {\n    "model": "model.layers.78",\n' in made and not wrong(made, config())


# -- the registry ------------------------------------------------------------------------------------------------------


def test_every_codemod_answers_a_known_issue_that_names_it():
    issues = {issue.id for issue in known_issues()}
    for name, entry in CODEMODS.items():
        assert entry.name == name and entry.issue in issues and codemod_of(entry.issue) == name


def test_an_unknown_codemod_names_the_nearest():
    with pytest.raises(Refused, match="the nearest is rocm-guard"):
        codemod("rocm-gard")


def test_a_source_under_patches_is_read_and_searched_as_they_leave_it():
    over = Over(Files({"a.py": "one", "b.py": "one"}), {"a.py": "two", "c.py": "one"})
    assert (over("a.py"), over("b.py"), over("d.py")) == ("two", "one", None)
    assert over.holding("one", "*.py") == ("b.py", "c.py")
