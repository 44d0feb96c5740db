"""A released engine's source: unpacked from its archive, and what a simulated node makes of its real layout."""

import io
import tarfile
import zipfile

import pytest
from day0.runs.errors import Infrastructure, UserError
from day0.sandboxes.spec import SandboxSpec
from day0.sandboxes.twin import checkpoint, defects
from day0.sandboxes.twin.node import TwinNode
from day0.sandboxes.twin.realsource import RealSource
from day0.sandboxes.twin.sourced import draft_class, sourced
from day0.sandboxes.twin.world import world
from day0.tools import codemods, engine_source, patch

WORLD = world("glm-5.2")
KERNEL = "sglang/jit_kernel/csrc/elementwise/fused_metadata_copy.cuh"
CONFIG = """
class ModelConfig:
    def _config_draft_model(self):
        if is_draft_model and self.hf_config.architectures[0] in ["DeepseekV3ForCausalLM", "GlmMoeDsaForCausalLM"]:
            self.hf_config.architectures[0] = "DeepseekV3ForCausalLMNextN"
        if is_draft_model and self.hf_config.architectures[0] == "Glm4MoeForCausalLM":
            self.hf_config.architectures[0] = "Glm4MoeForCausalLMNextN"
"""
MODEL = """
class DeepseekModelNextN(nn.Module):
    pass


class DeepseekV3ForCausalLMNextN(DeepseekV3ForCausalLM):
    hf_to_sglang_mapper = WeightsMapper(
        orig_to_new_substr={
            "model.layers.61": "model.decoder",
        },
    )

    def __init__(self, config, quant_config):
        if should_ignore_layer(f"model.layers.{config.num_hidden_layers}", quant_config.exclude_layers):
            quant_config = None
"""
LATER = """
class GlmMoeDsaForCausalLMNextN(DeepseekV3ForCausalLMNextN):
    hf_to_sglang_mapper = WeightsMapper()

    def _resolve_nextn_quant_config(self, config, quant_config):
        layer_prefix = f"model.layers.{config.num_hidden_layers}"
        quant_config.exclude_layers.extend(
            name.replace(layer_prefix, "model.decoder", 1) for name in quant_config.exclude_layers
        )
        return quant_config
"""
FILES = {
    KERNEL: "#pragma once\n#include <algorithm>\n#include <cuda_runtime.h>\n__global__ void copy() {}\n",
    "sglang/srt/configs/model_config.py": CONFIG,
    "sglang/srt/models/deepseek_nextn.py": MODEL,
}
OLD, NEW = "sglang==0.5.1", "sglang==0.5.2"


def wheel(folder, files):
    folder.mkdir(parents=True, exist_ok=True)
    place = folder / "sglang-0.5.1-py3-none-any.whl"
    with zipfile.ZipFile(place, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return place


def unpacked(home, spec, files):
    place = engine_source.folder_of(home, spec)
    for path, text in engine_source.texts(wheel(home / "got", files)):
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_text(text)
    return RealSource(place)


def on(source, spec):
    return sourced(WORLD, source, spec=spec, version=spec.partition("==")[2], digest="sha256:1")


def test_only_source_text_of_the_engine_is_taken_out_of_an_archive(tmp_path):
    files = FILES | {
        "sglang/../../evil.py": "x", "tools/other.py": "x", "sglang/lib.so": "x", "sglang-0.5.1.dist-info/RECORD": "x",
        "sglang/bad.py": b"\xff\xfe",
    }  # fmt: skip
    found = dict(engine_source.texts(wheel(tmp_path, files)))
    assert sorted(found) == sorted(f"sglang/python/{name}" for name in FILES)
    with tarfile.open(tmp_path / "s.tar.gz", "w:gz") as sdist:
        data = b"x = 1\n"
        member = tarfile.TarInfo("sglang-0.5.1/python/sglang/a.py")
        member.size = len(data)
        sdist.addfile(member, io.BytesIO(data))
    assert dict(engine_source.texts(tmp_path / "s.tar.gz")) == {"sglang/python/sglang/a.py": "x = 1\n"}
    (tmp_path / "b.whl").write_bytes(b"no zip")
    with pytest.raises(Infrastructure, match="can't be unpacked"):
        dict(engine_source.texts(tmp_path / "b.whl"))


@pytest.mark.parametrize(
    "spec", ["", "sglang", "vllm==1.0", "sglang==../..", "sglang==0.5.1 --index-url x", "sglang>=1"]
)
def test_what_is_no_release_is_one_sentence(spec, tmp_path):
    with pytest.raises(UserError, match="is no engine source"):
        engine_source.held(tmp_path, spec)


def test_both_blockers_are_found_in_a_real_layout_mended_and_gone(tmp_path):
    source = unpacked(tmp_path, OLD, FILES)
    own = on(source, OLD)
    assert own.builds[0].version == "0.5.1" and own.digest() != WORLD.digest()
    drafts, header = (f.when for f in own.faults[:2])
    assert drafts.drafts == "sglang/python/sglang/srt/models/deepseek_nextn.py"
    assert header.header == f"sglang/python/{KERNEL}"
    node = TwinNode("twin-0", tmp_path / "twin", own, cancel=lambda: False, sources=tmp_path / "sources")
    checkpoint.write(own, tmp_path / "models")
    build, config = own.builds[0], dict(own.model.config)
    with node.open(SandboxSpec("job", build.name, "r1.1")) as sandbox:
        base = patch.source_of(sandbox)
        assert base(f"sglang/python/{KERNEL}") == FILES[KERNEL] and base("sglang/python/nothing.py") is None
        made = [patch.made(name, base, build=build.name, config=config) for name in ("nextn-prefixes", "rocm-guard")]
        before = node.site.real(build)
        assert defects.unrecognised(config, before[drafts.drafts]) == ("model.eh_proj", "model.shared_head.head")
        patch.dress(sandbox, made, (), {})
        folder = type(tmp_path)(sandbox.root)
        after = node.site.tree(build, folder)
        assert len(after) == len(source) and "USE_ROCM" in after[header.header]
        assert defects.unrecognised(config, after[drafts.drafts]) == ()
        kernels = tuple((p, after[p]) for p in after if p.endswith(defects.KERNELS))
        assert defects.missing_header(header.header, kernels) == ""
    assert "USE_ROCM" not in source[header.header], "the source itself is never written"


def test_s76_a_release_that_has_both_says_already_upstream(tmp_path):
    later = FILES | {
        "sglang/srt/models/glm4_moe.py": LATER,
        "sglang/srt/configs/model_config.py": CONFIG.replace(', "GlmMoeDsaForCausalLM"', ""),
        KERNEL: FILES[KERNEL].replace(
            "#include <cuda_runtime.h>",
            "#ifndef USE_ROCM\n#include <cuda_runtime.h>\n#else\n#include <hip/x.h>\n#endif",
        ),
    }
    source = unpacked(tmp_path, NEW, later)
    own = on(source, NEW)
    assert own.faults[0].when.drafts == "sglang/python/sglang/srt/models/glm4_moe.py"
    assert defects.unrecognised(dict(own.model.config), source[own.faults[0].when.drafts]) == ()
    said = [line for line in codemods.outlook(source, dict(WORLD.model.config)) if "alias" not in line]
    assert len(said) == 2 and all("already upstream (sglang PR" in line for line in said)
    old = unpacked(tmp_path, OLD, FILES)
    said = [line for line in codemods.outlook(old, dict(WORLD.model.config)) if "alias" not in line]
    assert len(said) == 2 and all("would need it" in line for line in said)


def test_the_draft_class_is_read_from_the_engines_own_configuration():
    assert draft_class("GlmMoeDsaForCausalLM", CONFIG) == "DeepseekV3ForCausalLMNextN"
    assert draft_class("Glm4MoeForCausalLM", CONFIG) == "Glm4MoeForCausalLMNextN"
    assert draft_class("Other", CONFIG) == draft_class("Other", "no python (") == "OtherNextN"


def test_a_world_without_the_file_in_that_release_has_no_such_fault(tmp_path):
    fewer = {name: text for name, text in FILES.items() if name != KERNEL}
    assert len(on(unpacked(tmp_path, OLD, fewer), OLD).faults) == len(WORLD.faults) - 1
