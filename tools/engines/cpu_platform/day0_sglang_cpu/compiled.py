"""`--enable-torch-compile` on a processor: element-wise operators as generated C++ instead of chains of PyTorch calls.

Each operator is one function, compiled once for any number of tokens and shared by all layers. The first request
pays for the compiler (about 15 s for each function on one core); its output is cached.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import torch

logger = logging.getLogger(__name__)


def asked() -> bool:
    """Whether the server was started with --enable-torch-compile."""
    try:
        from sglang.srt.runtime_context import get_exec

        return bool(get_exec().graph.enable_torch_compile)
    except (ImportError, AttributeError):
        logger.warning("day0: this SGLang keeps its compile flag elsewhere; nothing is compiled")
        return False


def _norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    wide = x.float()
    return ((wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)) * weight).to(x.dtype)


def _add_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    wide = x.float() + residual.float()
    normed = (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)) * weight
    return normed.to(x.dtype), wide.to(x.dtype)


def _silu_and_mul(x: torch.Tensor) -> torch.Tensor:
    half = x.shape[-1] // 2
    gate = x[..., :half].float()
    return (gate * torch.sigmoid(gate)).to(x.dtype) * x[..., half:]


def install(model: Any) -> int:
    """Puts the compiled form into every operator that has one; returns how many.

    An operator with an option that the plain formula does not know keeps its own form.
    """
    norm, add_norm, silu = (torch.compile(f, dynamic=True) for f in (_norm, _add_norm, _silu_and_mul))
    count = 0
    for module in model.modules():
        kind = type(module).__name__
        if kind == "RMSNorm" and _plain(module):
            module._forward_method = _norm_of(module, norm, add_norm)
        elif kind == "SiluAndMul":
            module._forward_method = silu
        else:
            continue
        count += 1
    logger.info("day0: %d element-wise operators are compiled", count)
    return count


def _plain(norm: Any) -> bool:
    special = ("cast_x_before_out_mul", "fp32_residual", "override_orig_dtype", "variance_size_override")
    return bool(norm.has_weight) and not any(getattr(norm, name, None) for name in special)


def _norm_of(module: Any, norm: Callable[..., Any], add_norm: Callable[..., Any]) -> Callable[..., Any]:
    weight, eps, own = module.weight, module.variance_epsilon, module.forward_native

    def forward(x: torch.Tensor, residual: torch.Tensor | None = None, *rest: Any, **more: Any) -> Any:
        if rest or any(value is not None for value in more.values()):
            return own(x, residual, *rest, **more)
        return norm(x, weight, eps) if residual is None else add_norm(x, residual, weight, eps)

    return forward
