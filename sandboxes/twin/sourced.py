"""A world whose first image is made of a released engine's real source instead of the world's own small files.

Its defects are looked for in the real files: a condition that names a file of the world's tree is led to where that
release has it, or falls away where the release has no such file.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from day0.runs.errors import UserError
from day0.sandboxes.twin.realsource import ENGINE
from day0.sandboxes.twin.world import Fault, World

PACKAGE = "source"
"""key among a build's packages: `sglang==VERSION sha256:...`"""
MODEL_CONFIG = "sglang/python/sglang/srt/configs/model_config.py"
MODELS = "sglang/python/sglang/srt/models/"


def sourced(found: World, source: Mapping[str, str], *, spec: str, version: str, digest: str) -> World:
    """The world on that source. `digest` is the archive's: it becomes part of the build's own."""
    first = found.builds[0]
    kept = {path: text for path, text in first.tree.items() if not path.startswith(ENGINE)}
    packages = {**first.packages, PACKAGE: f"{spec} {digest}"}
    build = first.model_copy(update={"version": version, "packages": packages, "tree": kept, "repaired": {}})
    faults = tuple(f for fault in found.faults if (f := _led(fault, found.model.config, source)) is not None)
    return found.model_copy(update={"builds": (build, *found.builds[1:]), "faults": faults})


def _led(fault: Fault, config: Mapping[str, Any], source: Mapping[str, str]) -> Fault | None:
    when, changed = fault.when, {}
    if when.header is not None and when.header.startswith(ENGINE):
        changed["header"] = _same_name(when.header, source)
    if when.drafts is not None and when.drafts.startswith(ENGINE):
        changed["drafts"] = draft_file(config, source)
    if when.result is not None or when.source:
        raise UserError(
            f"fault {fault.name!r} of this world is about its own small files: it can't be judged on a wheel"
        )
    if any(place is None for place in changed.values()):
        return None
    return fault.model_copy(update={"when": when.model_copy(update=changed)})


def _same_name(path: str, source: Mapping[str, str]) -> str | None:
    name = path.rpartition("/")[2]
    found = [path] if path in source else sorted(p for p in source if p.endswith(f"/{name}"))
    return found[0] if found else None


def draft_file(config: Mapping[str, Any], source: Mapping[str, str]) -> str | None:
    """Where the engine has the class that serves the draft layer of this model; None: it has none."""
    for architecture in config.get("architectures") or ():
        wanted = draft_class(str(architecture), source.get(MODEL_CONFIG, ""))
        for path in source:
            if path.startswith(MODELS) and path.endswith(".py") and f"class {wanted}(" in source[path]:
                return path
    return None


def draft_class(architecture: str, text: str) -> str:
    """The class that the engine's own `model_config.py` puts in place of an architecture for its draft layer."""
    try:
        module = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return f"{architecture}NextN"
    for node in ast.walk(module):
        if isinstance(node, ast.If) and _asks(node.test, architecture):
            for step in ast.walk(ast.Module(body=node.body, type_ignores=[])):
                if isinstance(step, ast.Assign) and isinstance(step.value, ast.Constant):
                    value = step.value.value
                    if isinstance(value, str) and value.endswith("NextN"):
                        return value
    return f"{architecture}NextN"


def _asks(test: ast.expr, architecture: str) -> bool:
    words = {n.id for n in ast.walk(test) if isinstance(n, ast.Name)}
    texts = {n.value for n in ast.walk(test) if isinstance(n, ast.Constant)}
    return "is_draft_model" in words and architecture in texts


__all__ = ["PACKAGE", "draft_class", "draft_file", "sourced"]
