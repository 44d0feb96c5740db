"""Runs when Python starts in this environment (through the .pth file), before anything imports torch.

PyPI's torchvision is built against CUDA's torch. Beside a torch without CUDA its extension can't be loaded, and the
import fails at operators that only the extension declares; declaring them first lets it pass. SGLang imports
torchvision for image inputs only.
"""

from __future__ import annotations

import importlib.abc
import os
import sys
from typing import Any

# this environment computes on the processor: a GPU in the machine must not change what is measured
for _name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"):
    os.environ.setdefault(_name, "")
if "DAY0_CACHE_JIT" in os.environ:
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", os.environ["DAY0_CACHE_JIT"])


class _DeclareFirst(importlib.abc.MetaPathFinder):
    """Finds nothing; steps in once, when torchvision is about to be imported."""

    library: Any = None

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        """Declares torchvision's operators where torch has no CUDA."""
        if name != "torchvision":
            return
        sys.meta_path.remove(self)
        import torch

        if torch.version.cuda is None:
            library = torch.library.Library("torchvision", "DEF")
            for operator in ("nms", "qnms"):
                library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
            _DeclareFirst.library = library  # the declarations live as long as the object


sys.meta_path.insert(0, _DeclareFirst())
