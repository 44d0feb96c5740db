"""The real clang-tidy and HIP headers of a Triton wheel, on the real file of sglang 0.5.13.post1: no GPU, no ROCm."""

import pytest
from day0.agent.settings import load
from day0.runs.errors import Infrastructure, UserError
from day0.sandboxes.isolation import grants_network_namespace
from day0.sandboxes.local import LocalNode
from day0.tools import engine_source, hip_check, patch
from day0.tools.codemods.base import Files, Over
from day0.tools.environments import checks_of

from tests.unit.patches.engine import KERNEL, METADATA, TREE, config

OLD = "sglang==0.5.13.post1"
GUARD = "#ifndef USE_ROCM\n#include <cuda_runtime.h>\n#else\n#include <hip/hip_runtime.h>\n#endif\n"
GUARDED = KERNEL.replace("#include <cuda_runtime.h>\n", GUARD)

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def checker():
    environment, headers = checks_of(load().home)
    if not (environment and headers):
        pytest.skip("no clang-tidy with HIP's headers here: day0 engine install checks")
    if not grants_network_namespace():
        pytest.skip("this system grants no network namespace to a job")
    return hip_check.Checker.at(environment, headers)


@pytest.fixture
def node(tmp_path):
    return LocalNode("n1", tmp_path / "nodes", cancel=lambda: False)


def checked(node, checker, before, text):
    source = Files({METADATA: before})
    texts = hip_check.texts_of(source, Over(source, {METADATA: text}), [METADATA])
    return hip_check.check(node, checker, texts, "r1.1")


def test_a_raw_cuda_header_fails_and_the_guarded_kernel_passes_for_both_architectures_and_the_host(node, checker):
    raw = checked(node, checker, KERNEL, KERNEL + "\n")
    assert (raw.outcome, raw.why) == ("fails", f"{METADATA}:5: 'cuda_runtime.h' file not found")
    good = checked(node, checker, KERNEL, GUARDED)
    assert (good.outcome, good.why) == ("passes", "gfx942, gfx950 and the host")
    broken = checked(node, checker, KERNEL, GUARDED.replace("from[index]", "form[index]"))
    assert broken.outcome == "fails" and "undeclared identifier 'form'" in broken.why
    assert checked(node, checker, KERNEL, GUARDED + "#include <ATen/ATen.h>\n").outcome == "not checked"


def test_the_shipped_repair_of_the_real_file_compiles_and_the_file_as_it_was_shipped_does_not(node, checker, tmp_path):
    try:
        engine_source.fetch(node, tmp_path, OLD)
    except (Infrastructure, UserError) as error:
        pytest.skip(f"{OLD} can't be fetched here: {error}")
    folder = engine_source.folder_of(tmp_path, OLD)

    def source(path):
        file = folder / path
        return file.read_text() if file.is_file() else None

    made = patch.made("rocm-guard", source, build="b", config=config())
    after = Over(source, patch.applied([made], source))
    assert METADATA in made.after and TREE
    as_shipped = hip_check.texts_of(source, source, made.after)
    told = hip_check.check(node, checker, as_shipped, "r1.1")
    assert told.outcome == "fails" and "cuda_runtime.h" in told.why
    repaired = hip_check.check(node, checker, hip_check.texts_of(source, after, made.after), "r1.1")
    assert repaired.outcome == "passes", repaired.why
