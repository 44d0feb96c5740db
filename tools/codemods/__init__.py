"""Source repairs that day0 ships, by name: pure, idempotent, derived from what is found and not from a model."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

from day0.runs.errors import Refused
from day0.tools.codemods import architecture_alias, nextn_prefixes, rocm_guard
from day0.tools.codemods.base import Codemod, Source

CODEMODS: dict[str, Codemod] = {
    codemod.name: codemod for codemod in (nextn_prefixes.CODEMOD, rocm_guard.CODEMOD, architecture_alias.CODEMOD)
}


def codemod(name: str) -> Codemod:
    """The codemod of that name. Raises `Refused` naming the nearest."""
    found = CODEMODS.get(name)
    if found is None:
        near = difflib.get_close_matches(name, CODEMODS, n=1)
        hint = f"; the nearest is {near[0]}" if near else f"; there are {', '.join(sorted(CODEMODS))}"
        raise Refused(f"there is no codemod {name!r}{hint}")
    return found


def outlook(source: Source, config: Mapping[str, Any]) -> Iterator[str]:
    """What each shipped repair finds in a source for a checkpoint, before anything is booted; a sentence each."""
    for name, shipped in sorted(CODEMODS.items()):
        try:
            change = shipped.change(source, config, "")
        except Refused as refused:
            yield f"{name}: {refused.reason}"
        else:
            files = ", ".join(path.rpartition("/")[2] for path in sorted(change.files))
            yield f"{name}: {files} of this source would need it ({shipped.upstream} came later)"


__all__ = ["CODEMODS", "Codemod", "codemod", "outlook"]
