"""What clang-tidy's answers about a patched kernel mean; the real one is asked in `tests/engine`."""

import pytest
from day0.tools.codemods.base import Files, Over
from day0.tools.hip_check import Checker, Fault, check, faults, modes, reached, texts_of, verdict

from tests.unit.patches.engine import KERNEL, METADATA, TREE

SAID = """\
1 error generated.
Error while processing /w/after/sglang/k/a.cuh.
/w/after/sglang/k/a.cuh:5:10: error: 'cuda_runtime.h' file not found [clang-diagnostic-error]
    5 | #include <cuda_runtime.h>
      |          ^~~~~~~~~~~~~~~~
/opt/include/hip/x.h:3:1: fatal error: unknown type name 'foo' [clang-diagnostic-error]
/w/after/sglang/k/a.cuh:9:2: warning: unused variable 'x' [clang-diagnostic-unused-variable]
"""


def fault(said, path="a.cuh"):
    return Fault(path=path, line=1, said=said)


def test_errors_are_read_with_their_place_in_the_workspace():
    first, second = faults(SAID, "after")
    assert (first.path, first.line, first.missing) == ("sglang/k/a.cuh", 5, "cuda_runtime.h")
    assert (second.path, second.said, second.missing) == ("/opt/include/hip/x.h", "unknown type name 'foo'", "")


@pytest.mark.parametrize(
    ("after", "before", "outcome", "why"),
    [
        ((), (), "passes", ""),
        (("'cuda_runtime.h' file not found",), ("'cuda_runtime.h' file not found",), "fails", "cuda_runtime.h"),
        (("'cub/block.cuh' file not found",), (), "fails", "cub/block.cuh"),
        (("use of undeclared identifier 'x'",), (), "fails", "undeclared"),
        (("use of undeclared identifier 'x'",), ("use of undeclared identifier 'x'",), "not checked", "no better"),
        (("'ATen/ATen.h' file not found",), (), "not checked", "not all of ROCm's"),
        (("'hip/hip_fp16.h' file not found", "unknown type name '__half'"), (), "not checked", "hip_fp16.h"),
    ],
)
def test_a_cuda_header_or_a_new_error_fails_and_what_these_headers_lack_is_not_checked(after, before, outcome, why):
    told = verdict([fault(s) for s in after], [fault(s) for s in before])
    assert told.outcome == outcome and why in told.why


def test_what_a_kernel_includes_of_the_engines_own_comes_along_and_other_patches_are_none_of_its_business():
    beside, root = METADATA.replace("fused_metadata_copy.cuh", "beside.cuh"), "sglang/python/sglang/jit_kernel/include"
    texts = {
        METADATA: KERNEL + '#include "beside.cuh"\n#include <sgl/x.h>\n#include "../../../../../../../../etc/x.h"\n',
        beside: "#pragma once\n", f"{root}/sgl/x.h": '#include "beside.cuh"\n',
    }  # fmt: skip
    assert set(reached(Files(texts), (METADATA,))) == set(texts)
    after = Over(Files(texts), {METADATA: KERNEL})
    found = texts_of(Files(texts), after, {METADATA, "sglang/python/sglang/a.py"})
    assert found.changed == (METADATA,) and set(found.after) == {METADATA} and set(found.before) == set(texts)
    assert texts_of(Files(texts), after, {"sglang/python/sglang/a.py"}) is None


def test_both_architectures_and_the_host_are_compiled_for():
    lines = [" ".join(mode) for mode in modes("/h")]
    assert [("gfx942" in x, "gfx950" in x, "--offload-host-only" in x) for x in lines] == [
        (True, False, False), (False, True, False), (False, True, True),
    ]  # fmt: skip


def test_without_clang_tidy_or_headers_nothing_is_called_checked():
    texts = texts_of(Files(TREE), Files(TREE), {METADATA})
    for checker, lacks in ((Checker(), "no clang-tidy"), (Checker(environment="/e"), "no HIP's headers")):
        told = check(None, checker, texts, "r1.1")
        assert told.outcome == "not checked" and lacks in told.why and "day0 engine install checks" in told.why
