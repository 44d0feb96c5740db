"""The platform: what SGLang may do on a processor without its kernel library."""

from __future__ import annotations

from typing import Any

from day0_sglang_cpu import compiled
from sglang.srt.platforms.cpu import CpuDeviceMixin
from sglang.srt.platforms.device_mixin import PlatformEnum
from sglang.srt.platforms.interface import PlatformCapabilities, SRTPlatform


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

    def post_load_model(self, model: Any) -> None:
        """`--enable-torch-compile`: the element-wise operators of the model are compiled.

        SGLang's own compile path records device graphs, which a processor does not have.
        """
        if compiled.asked():
            compiled.install(model)
