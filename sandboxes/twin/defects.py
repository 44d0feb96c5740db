"""Defects of engine source that are found by looking, not declared: a header that ROCm does not have, and names of
draft layers that the checkpoint's exclude list does not know. Both read the files as they are on the node, patched or
not; nothing of them is run.
"""

from __future__ import annotations

import ast
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

PROVIDED = ("hip/", "hipcub/", "rocprim/", "torch/", "ATen/", "c10/", "tvm/", "dlpack/")
STANDARD = frozenset(
    (
        "algorithm",
        "array",
        "atomic",
        "cassert",
        "cfloat",
        "climits",
        "cmath",
        "cstddef",
        "cstdint",
        "cstdio",
        "cstdlib",
        "cstring",
        "functional",
        "initializer_list",
        "iostream",
        "limits",
        "map",
        "memory",
        "numeric",
        "optional",
        "sstream",
        "stdexcept",
        "string",
        "tuple",
        "type_traits",
        "utility",
        "vector",
        "assert.h",
        "float.h",
        "limits.h",
        "math.h",
        "stddef.h",
        "stdint.h",
        "stdio.h",
        "stdlib.h",
        "string.h",
    )
)
ROCM = ("USE_ROCM 1", "__HIP_PLATFORM_AMD__ 1", "__HIP__ 1", "__HIPCC__ 1")
MAX_BYTES = 1 << 20
KERNELS = (".cuh", ".cu", ".h", ".hpp", ".hip", ".inl", ".c", ".cc", ".cpp")
"""Endings of files that an include can name."""
DRAFT_OWN = ("eh_proj", "enorm", "hnorm", "shared_head")
"""Modules of a draft layer that stand beside its decoder block at run time."""


@lru_cache(maxsize=64)
def missing_header(path: str, files: tuple[tuple[str, str], ...]) -> str:
    """The compiler's message for the first include of `path` that ROCm lacks, preprocessed as for ROCm; empty: none.

    `files` are the source tree: an include that names one of them, or stands beside it, is read from there.
    """
    from pcpp import Preprocessor

    tree, name = dict(files), path.rsplit("/", 1)[-1]
    text = tree.get(path)
    if text is None:
        return f"{name}:1:1: fatal error: '{path}' file not found"
    found: list[str] = []

    class Rocm(Preprocessor):  # type: ignore[misc]
        """Opens no file: an include is only judged."""

        def include(self, tokens: list[Any], original_line: object) -> Iterator[Any]:
            spelt = "".join(str(token.value) for token in tokens)
            header = spelt.strip('<>"')
            known = header.startswith(PROVIDED) or header in STANDARD or inside(tree, path, header)
            if not found and not known:
                line = tokens[0].lineno if tokens else 0
                found.append(f"{name}:{line}:10: fatal error: '{header}' file not found")
            return iter(())

        def on_directive_unknown(self, directive: Any, toks: list[Any], *_: object) -> bool:
            if directive.value == "error" and not found:
                words = "".join(str(token.value) for token in toks).strip()
                found.append(f"{name}:{directive.lineno}:2: error: {words}")
            return True

        def on_error(self, file: str, line: int, msg: str) -> None:
            if not found:
                found.append(f"{name}:{line}:1: error: {msg}")

    rocm = Rocm()
    for macro in ROCM:
        rocm.define(macro)
    rocm.parse(text[:MAX_BYTES], path)
    rocm.write(io.StringIO())
    return found[0] if found else ""


def inside(tree: Mapping[str, str], path: str, name: str) -> bool:
    """Whether an include is a file of the tree: beside the including one, or by the end of its path."""
    beside = path.rpartition("/")[0] + "/" + name
    return beside in tree or any(file.endswith("/" + name) for file in tree)


def draft_mapper(text: str, layers: int) -> dict[str, str]:
    """`DRAFT_PREFIXES` of a source file: run-time prefix -> checkpoint prefix, `num_hidden_layers` put in.

    Understands a dictionary of strings and f-strings; anything else there counts as an entry that matches nothing.
    """
    try:
        module = ast.parse(text[:MAX_BYTES])
    except (SyntaxError, ValueError, RecursionError):
        return {}
    out: dict[str, str] = {}
    for node in ast.walk(module):
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and isinstance(node.value, ast.Dict):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(t, ast.Name) and t.id == "DRAFT_PREFIXES" for t in targets):
                pairs = zip(node.value.keys, node.value.values, strict=True)
                spelt = ((_string(key, layers), _string(item, layers)) for key, item in pairs)
                out.update({known: mapped for known, mapped in spelt if known is not None and mapped is not None})
    return out


def _string(node: ast.expr | None, layers: int) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        inner = [v.value if isinstance(v, ast.FormattedValue) else v for v in node.values]
        parts = [_string(v, layers) for v in inner]
        return None if None in parts else "".join(filter(None, parts))
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return str(layers) if name == "num_hidden_layers" else None


def ignored(name: str, exclude: Sequence[str]) -> bool:
    """Quark's rule: the very name, or an entry `re:...` that matches from its beginning."""
    for entry in exclude:
        if entry.startswith("re:"):
            try:
                if re.match(entry[3:], name):
                    return True
            except re.error:
                continue
        elif entry == name:
            return True
    return False


def unrecognised(config: Mapping[str, Any], text: str) -> tuple[str, ...]:
    """Modules of the draft layer that the engine takes for quantised though the checkpoint left them alone.

    `text` is a table of draft prefixes, or the real engine's file of the draft class: its `hf_to_sglang_mapper`
    renames the entries of the exclude list (the longest part that matches, once), unless the class itself rewrites
    them by the model's own layer number.
    """
    layers = int(config.get("num_hidden_layers", 0))
    if "DRAFT_PREFIXES" in text or "hf_to_sglang_mapper" not in text:
        return mismatched_drafts(config, draft_mapper(text, layers))
    chosen = _draft_class(config, text)
    if chosen is None or _rewrites(chosen):
        return ()
    renames = _renames(chosen, layers)
    quant = config.get("quantization_config") or {}
    exclude = [str(e) for e in quant.get("exclude", [])] if isinstance(quant, Mapping) else []
    known = [_renamed(entry, renames) for entry in exclude]
    prefix, wrong = f"model.layers.{layers}.", []
    for entry in exclude:
        if entry.startswith(prefix):
            module = entry.removeprefix(prefix)
            name = f"{'model' if module.split('.')[0] in DRAFT_OWN else 'model.decoder'}.{module}"
            if not ignored(name, known):
                wrong.append(name)
    return tuple(wrong)


def _draft_class(config: Mapping[str, Any], text: str) -> ast.ClassDef | None:
    """The draft class of the architecture, else the first one with a mapper."""
    try:
        module = ast.parse(text[:MAX_BYTES])
    except (SyntaxError, ValueError, RecursionError):
        return None
    classes = [n for n in module.body if isinstance(n, ast.ClassDef) and n.name.endswith("NextN")]
    own = {f"{architecture}NextN" for architecture in config.get("architectures") or ()}
    mapping = [c for c in classes if any(_name(target) == "hf_to_sglang_mapper" for target in _targets(c))]
    return next((c for c in classes if c.name in own), mapping[0] if mapping else None)


def _targets(chosen: ast.ClassDef) -> list[ast.expr]:
    """What the class itself sets."""
    return [target for node in chosen.body if isinstance(node, ast.Assign) for target in node.targets]


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""


def _rewrites(chosen: ast.ClassDef) -> bool:
    """Whether a method puts a new exclude list in place, by the model's own layer number."""
    for method in chosen.body:
        if isinstance(method, ast.FunctionDef):
            reads = {n.attr for n in ast.walk(method) if isinstance(n, ast.Attribute)}
            stores = {n.attr for n in ast.walk(method) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store)}
            grows = {
                n.func.value.attr
                for n in ast.walk(method)
                if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)
                and n.func.attr in {"append", "extend"} and isinstance(n.func.value, ast.Attribute)
            }  # fmt: skip
            if "num_hidden_layers" in reads and "exclude_layers" in stores | grows:
                return True
    return False


def _renames(chosen: ast.ClassDef, layers: int) -> list[tuple[str, str]]:
    """Part of a checkpoint's name -> what stands for it, longest first."""
    found: list[tuple[str, str]] = []
    for node in ast.walk(chosen):
        if isinstance(node, ast.keyword) and node.arg == "orig_to_new_substr" and isinstance(node.value, ast.Dict):
            pairs = zip(node.value.keys, node.value.values, strict=True)
            spelt = ((_string(key, layers), _string(value, layers)) for key, value in pairs)
            found += [(key, value) for key, value in spelt if key is not None and value is not None]
    return sorted(found, key=lambda pair: -len(pair[0]))


def _renamed(entry: str, renames: Sequence[tuple[str, str]]) -> str:
    return next((entry.replace(part, new, 1) for part, new in renames if part in entry), entry)


def mismatched_drafts(config: Mapping[str, Any], mapper: Mapping[str, str]) -> tuple[str, ...]:
    """Modules of the draft layer that the checkpoint left unquantised and the engine takes for quantised.

    `exclude` names them `model.layers.N.X`; at run time they are `model.X` or `model.decoder.X`, and the engine finds
    them only if the list names them so or its mapper leads back to the checkpoint's name.
    """
    layers = int(config.get("num_hidden_layers", 0))
    quant = config.get("quantization_config") or {}
    exclude = [str(e) for e in quant.get("exclude", [])] if isinstance(quant, Mapping) else []
    prefix = f"model.layers.{layers}."
    wrong = []
    for entry in exclude:
        if entry.startswith(prefix):
            module = entry.removeprefix(prefix)
            at = "model" if module.split(".")[0] in DRAFT_OWN else "model.decoder"
            names = [f"{at}.{module}"]
            names += [f"{to}.{module}" for known, to in mapper.items() if known == at]
            if not any(ignored(name, exclude) for name in names):
                wrong.append(names[0])
    return tuple(wrong)
