"""The engines: how each is launched, known ready, asked, read and checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from day0.tools.engines.base import Engine

    ENGINES: dict[str, Callable[[frozenset[str]], Engine]]


def __getattr__(name: str) -> Any:
    """`ENGINES`: adapter name -> class, made with a person's consents; imported when it is first asked for."""
    if name == "ENGINES":
        from day0.tools.engines.sglang import Sglang

        return {"sglang": Sglang}
    raise AttributeError(name)


__all__ = ["ENGINES"]
