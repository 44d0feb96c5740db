"""The platform: what SGLang may do on a processor without its kernel library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from day0_sglang_cpu import compiled
from sglang.srt.platforms.cpu import CpuDeviceMixin
from sglang.srt.platforms.device_mixin import PlatformEnum
from sglang.srt.platforms.interface import PlatformCapabilities, SRTPlatform

NGRAM = "NGRAM"


class CpuPlatform(CpuDeviceMixin, SRTPlatform):  # type: ignore[misc]
    """No Triton, no graphs; operators run in their plain PyTorch form ("native")."""

    _enum = PlatformEnum.OOT
    capabilities = PlatformCapabilities()

    def get_default_attention_backend(self) -> str:
        """The engine's own."""
        return "torch_native"

    def is_pin_memory_available(self, device: Any = None) -> bool:
        """There is no device to copy to."""
        return False

    def get_dispatch_key_name(self) -> str:
        """Which form of an operator is called."""
        return "native"

    def supports_speculative_algorithm(self, algorithm: str) -> bool:
        """N-grams need no draft model; drafts by a model would need its kernels, too."""
        return algorithm == NGRAM

    def get_speculative_worker_cls(self, algorithm: str) -> type | None:
        """`--speculative-algorithm NGRAM`: see `speculation`."""
        if algorithm != NGRAM:
            return None
        from day0_sglang_cpu import speculation

        worker: type = speculation.worker()
        return worker

    def get_speculative_cache_locs_fn(self) -> Callable[..., Any]:
        """Where the keys and values of drafts lie."""
        from day0_sglang_cpu import speculation

        places: Callable[..., Any] = speculation.places
        return places

    def get_kv_pool_cls(self, *, kind: Any) -> type | None:
        """The engine's own, unless accepted drafts have to be moved in it."""
        from sglang.srt.runtime_context import get_spec

        if kind != "mha" or get_spec().speculative_algorithm != NGRAM:
            return None
        from day0_sglang_cpu import speculation

        pool: type = speculation.pool()
        return pool

    def post_load_model(self, model: Any) -> None:
        """`--enable-torch-compile`: the element-wise operators of the model are compiled.

        SGLang's own compile path records device graphs, which a processor does not have.
        """
        if compiled.asked():
            compiled.install(model)
