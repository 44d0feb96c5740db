"""Runs when Python starts in this environment (through the .pth file), before anything imports torch.

PyPI's torchvision is built against CUDA's torch. Beside a torch without CUDA its extension can't be loaded, and the
import fails at operators that only the extension declares; declaring them first lets it pass. SGLang imports
torchvision for image inputs only.

Three processes import the engine, and what they import lives as long as they do: looking for garbage among it took a
quarter of each import. Python's own thresholds are back before the engine starts a process or runs in one.
"""

from __future__ import annotations

import gc
import importlib.abc
import os
import sys
from multiprocessing.process import BaseProcess
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


class _Importing:
    """Collects seldom until a process is started, or runs what it was started for."""

    SELDOM = 100_000
    """Of new objects that are alive, between two looks; Python's own number is 700."""

    def __init__(self) -> None:
        self.usual, self.ways = gc.get_threshold(), (BaseProcess.start, BaseProcess.run)
        gc.set_threshold(self.SELDOM, *self.usual[1:])
        start, run = self.ways

        def started(process: BaseProcess) -> None:
            self.over()
            start(process)

        def ran(process: BaseProcess) -> None:
            self.over()
            run(process)

        BaseProcess.start, BaseProcess.run = started, ran  # type: ignore[method-assign,assignment]

    def over(self) -> None:
        """Everything as it was."""
        gc.set_threshold(*self.usual)
        BaseProcess.start, BaseProcess.run = self.ways  # type: ignore[method-assign]


_Importing()
