"""`nextn-prefixes`: the engine finds the draft layer of this checkpoint in its exclude list.

A checkpoint names the modules of its multi-token-prediction layer `model.layers.N.X`, the engine at run time `model.X`
or `model.decoder.X`. A table in the engine's source leads from one to the other; where it knows only another model's
layer number, layers that the checkpoint left unquantised are loaded as quantised ones. Two forms are mended: a
dictionary run-time prefix -> checkpoint prefix (`DRAFT_PREFIXES`), and a `WeightsMapper` of parts of checkpoint names
-> run-time names. Where the model's configuration is at hand the number is taken from there, so that every model is
served; else it is written out. SGLang's own repair of the same kind: pull request 30265.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from day0.runs.errors import Refused
from day0.tools.codemods import nextn_tables
from day0.tools.codemods.base import Change, Codemod, Source, holding
from day0.tools.codemods.draft_names import Draft, draft_of

LISTED = (
    "sglang/python/sglang/srt/models/deepseek_nextn.py",
    "sglang/python/sglang/srt/models/glm4_moe_nextn.py",
    "sglang/python/sglang/srt/models/nextn_weights.py",
)
TELLING = ("DRAFT_PREFIXES", '"model.decoder"', "'model.decoder'")
MAX_FILES, MAX_CHARS = 16, 1 << 20
GONE = ("no exclude entry for model.",)
UPSTREAM = "sglang PR 30265"


def change(source: Source, config: Mapping[str, Any], evidence: str) -> Change:
    """The files whose table does not lead from this checkpoint's names to the engine's, mended.

    Raises `Refused`: the checkpoint excludes nothing of a draft layer, the build translates the names itself, no table
    is there, all lead there already.
    """
    del evidence
    draft = draft_of(config)
    if not draft.modules:
        raise Refused("the checkpoint's exclude list names nothing of a draft layer: there is nothing to translate")
    if own := _translates(source, config):
        raise Refused(
            f"already upstream ({UPSTREAM}): {own} of this build translates the names itself: nothing to change"
        )
    seen, new = 0, {}
    for path in _files(source):
        text = source(path)
        if text is None or len(text) > MAX_CHARS:
            continue
        found = nextn_tables.tables(text)
        seen += len(found)
        made = _mended(text, path, draft, shared=_shared(source, path, found))
        if made != text:
            new[path] = made
    if not seen:
        raise Refused("no table of draft prefixes is in the engine's source")
    if not new:
        raise Refused("the engine's tables lead to every excluded module of the draft layer already: nothing to change")
    return Change(new, GONE)


def _translates(source: Source, config: Mapping[str, Any]) -> str:
    """The draft class of the checkpoint's architecture, where it takes layer number and exclude list into account."""
    for architecture in config.get("architectures") or ():
        name = f"{architecture}NextN"
        for path in holding(source, f"class {name}", "*.py"):
            try:
                module = ast.parse(source(path) or "")
            except (SyntaxError, ValueError, RecursionError):
                continue
            for node in ast.walk(module):
                if isinstance(node, ast.ClassDef) and node.name == name:
                    words = {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}
                    if {"num_hidden_layers", "exclude_layers"} <= words:
                        return name
    return ""


def _files(source: Source) -> list[str]:
    found = {path for text in TELLING for path in holding(source, text, "*.py")}
    found |= {path for path in LISTED if source(path) is not None}
    return sorted(found)[:MAX_FILES]


def _shared(source: Source, path: str, found: list[nextn_tables.Table]) -> bool:
    """Whether another file may read a table of this one: then it has to stay where it is."""
    names = {table.name for table in found if table.kind == "forward"}
    return any(other != path for name in sorted(names) for other in holding(source, name, "*.py"))


def _mended(text: str, path: str, draft: Draft, *, shared: bool) -> str:
    """The text with all its tables mended, one after the other: each changes positions of what follows."""
    for number in range(len(nextn_tables.tables(text))):
        found = nextn_tables.tables(text)
        if number >= len(found):
            break
        table = found[number]
        if not nextn_tables.missed(table, draft):
            continue
        text = nextn_tables.mended(text, table, draft, shared=shared)
        try:
            ast.parse(text)
        except SyntaxError as error:
            raise Refused(f"{path} would not be Python any more: {error.msg}") from None
        same = [t for t in nextn_tables.tables(text) if t.name == table.name]
        if left := [name for t in same for name in nextn_tables.missed(t, draft)]:
            raise Refused(f"{path} would still miss {left[0]} after the change")
    return text


CODEMOD = Codemod(
    name="nextn-prefixes",
    title="Find the draft layer in the quantisation excludes as the checkpoint names it",
    upstream=UPSTREAM,
    issue="quant-half-width",
    change=change,
)
