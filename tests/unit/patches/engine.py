"""A small engine's source with the two defects of a GLM-5.2 on an image of June 2026, and its checkpoint's config."""

METADATA = "sglang/python/sglang/jit_kernel/csrc/elementwise/fused_metadata_copy.cuh"
WEIGHTS = "sglang/python/sglang/srt/models/nextn_weights.py"

KERNEL = """\
// Copies metadata for all draft steps in one launch.
#pragma once

#include <cstddef>
#include <cuda_runtime.h>

template <typename T>
__global__ void fused_metadata_copy(const T* __restrict__ from, T* __restrict__ to, std::size_t count) {
  const std::size_t index = blockIdx.x * blockDim.x + threadIdx.x;
  if (index < count) to[index] = from[index];
}
"""
MAPPER = '''\
"""Names of a draft layer's weights."""

# run-time prefix of a module -> its prefix in the checkpoint
DRAFT_PREFIXES = {
    "model": "model.layers.61",
    "model.decoder": "model.layers.61",
}


def checkpoint_name(module: str, config) -> str:
    """The name under which quantisation looks a module up."""
    for known, stored in sorted(DRAFT_PREFIXES.items(), reverse=True):
        if module.startswith(known + "."):
            return stored + module[len(known):]
    return module
'''
TREE = {METADATA: KERNEL, WEIGHTS: MAPPER}
EVIDENCE = "fused_metadata_copy.cuh:5:10: fatal error: 'cuda_runtime.h' file not found"


def config(layers=78, modules=("eh_proj", "shared_head.head", "mlp.gate"), head="model.layers"):
    exclude = ["lm_head", *(f"{head}.{layers}.{module}" for module in modules)]
    return {"num_hidden_layers": layers, "quantization_config": {"quant_method": "quark", "exclude": exclude}}
