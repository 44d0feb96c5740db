"""SGLang on an ordinary processor: plain PyTorch, no compiled kernel library.

Two entry points, both SGLang's own plug-in interface: `activate` names the platform, `register` adds the attention
backend `torch_grouped` to the choices of `--attention-backend`. Neither imports torch before SGLang does.
"""

from __future__ import annotations

ATTENTION = "torch_grouped"


def activate() -> str:
    """The platform's class; SGLang imports it when it first needs a platform."""
    return "day0_sglang_cpu.platform.CpuPlatform"


def register() -> None:
    """Adds our attention backend; called in every process of the server, before its arguments are parsed."""
    from sglang.srt.layers.attention.attention_registry import register_attention_backend
    from sglang.srt.server_args import ATTENTION_BACKEND_CHOICES, add_attention_backend_choices

    if ATTENTION not in ATTENTION_BACKEND_CHOICES:
        add_attention_backend_choices([ATTENTION])

    def create(runner: object) -> object:
        from day0_sglang_cpu.attention import GroupedAttention

        return GroupedAttention(runner)

    register_attention_backend(ATTENTION)(create)
