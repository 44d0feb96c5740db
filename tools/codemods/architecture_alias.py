"""`architecture-alias`: an architecture that the engine does not know, served by the class of its nearest relative.

New models are often an old class under a new name. The relative is found in the engine's own sources, not in a list of
models: among the classes that a file registers (`EntryClass`), the one with the nearest name, and only if the
checkpoint's configuration has everything that the relative's own configuration class or model reads without a default.
The alias is a subclass in the relative's file. Whether it serves right is for the ladder to say: answers, accuracy.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from day0.runs.errors import Refused
from day0.tools.codemods.base import Change, Codemod, Source, holding

MODELS = "sglang/python/sglang/srt/models/"
NEAR = 0.65
"""share of a name that must be the same: `Glm5NextForCausalLM` is near `Glm5ForCausalLM`, not `GemmaForCausalLM`"""
TAILS = ("ForCausalLM", "ForConditionalGeneration")
MAX_CHARS, MOST = 1 << 20, 400
GIVEN = frozenset({
    "architectures", "model_type", "num_hidden_layers", "hidden_size", "vocab_size", "torch_dtype", "dtype", "update",
    "quantization_config", "pad_token_id", "bos_token_id", "eos_token_id", "tie_word_embeddings", "to_dict",
    "get_text_config", "text_config",
})  # fmt: skip
"""what every configuration object has, whatever stands in the file"""


@dataclass(frozen=True)
class Relative:
    """A registered class and the file in which it stands."""

    path: str
    name: str
    text: str


def change(source: Source, config: Mapping[str, Any], evidence: str) -> Change:
    """An alias for each architecture of the checkpoint that no file registers.

    Raises `Refused`: none is missing, none is near, or the nearest reads what the configuration has not.
    """
    del evidence
    wanted = [str(name) for name in config.get("architectures") or ()]
    missing = [name for name in wanted if not holding(source, f"class {name}(", "*.py")]
    if not missing:
        raise Refused(
            f"the engine knows {', '.join(wanted) or 'no architecture of this checkpoint'}: nothing to change"
        )
    known = list(_registered(source))
    if not known:
        raise Refused("no file of the engine registers model classes: nothing to be related to")
    new: dict[str, str] = {}
    for name in missing:
        relative = _nearest(name, known)
        lacking = sorted(_needs(relative) - set(config) - GIVEN)
        if lacking:
            raise Refused(
                f"{relative.name} is nearest to {name}, but reads {', '.join(lacking[:5])} of a configuration, "
                "and this one has no such key"
            )
        text = new.get(relative.path, relative.text)
        new[relative.path] = _with_alias(text, relative, name)
    return Change(new, tuple(f"'{name}'] are not supported" for name in missing))


def _registered(source: Source) -> Iterator[Relative]:
    for path in holding(source, "EntryClass", "*.py")[:MOST]:
        text = source(path)
        if text is None or len(text) > MAX_CHARS or not path.startswith(MODELS):
            continue
        try:
            module = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError):
            continue
        for node in module.body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "EntryClass":
                listed = node.value.elts if isinstance(node.value, (ast.List, ast.Tuple)) else [node.value]
                yield from (Relative(path, item.id, text) for item in listed if isinstance(item, ast.Name))


def _nearest(name: str, known: list[Relative]) -> Relative:
    """Of the same kind (`ForCausalLM` ...), by the rest of the name. Raises `Refused`."""
    tail = next((tail for tail in TAILS if name.endswith(tail)), "")
    alike = [r for r in known if r.name.endswith(tail)]
    if not tail or not alike:
        raise Refused(f"{name} is of a kind that no class of the engine is")

    def near(relative: Relative) -> float:
        one, two = (n.removesuffix(tail).lower() for n in (name, relative.name))
        return difflib.SequenceMatcher(None, one, two, autojunk=False).ratio()

    best = max(alike, key=lambda r: (near(r), r.name))
    if near(best) < NEAR:
        raise Refused(f"the nearest that the engine knows to {name} is {best.name}, which is another model")
    return best


def _needs(relative: Relative) -> set[str]:
    """Keys that the relative's classes read of `config` by attribute; `getattr` with a default is no need."""
    module = ast.parse(relative.text)
    guarded = {
        node.args[1].value
        for node in ast.walk(module)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in {"getattr", "hasattr"}
        and len(node.args) > 1 and isinstance(node.args[1], ast.Constant)
    }  # fmt: skip
    loads = (n for n in ast.walk(module) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Load))
    read = {node.attr for node in loads if ast.unparse(node.value) in {"config", "self.config"}}
    return {name for name in read - guarded if not name.startswith("_")}


def _with_alias(text: str, relative: Relative, name: str) -> str:
    """The file with the subclass in front of its registration, and in it."""
    if not name.isidentifier():
        raise Refused(f"{name[:80]!r} is no name of a class")
    module = ast.parse(text)
    entry = next(n for n in module.body if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "EntryClass")
    lines = text.splitlines(keepends=True)
    start, end = entry.lineno - 1, entry.end_lineno or entry.lineno
    listed = entry.value.elts if isinstance(entry.value, (ast.List, ast.Tuple)) else [entry.value]
    names = [ast.unparse(item) for item in listed] + [name]
    alias = f'class {name}({relative.name}):\n    """The same layers under another name."""\n\n\n'
    one = f"EntryClass = [{', '.join(names)}]\n"
    told = one if len(one) <= 89 else "EntryClass = [\n" + "".join(f"    {n},\n" for n in names) + "]\n"
    made = "".join(lines[:start]) + alias + told + "".join(lines[end:])
    ast.parse(made)
    return made


CODEMOD = Codemod(
    name="architecture-alias",
    title="Serve an architecture by the class of its nearest relative",
    upstream="",
    issue="architecture-unknown",
    change=change,
)
