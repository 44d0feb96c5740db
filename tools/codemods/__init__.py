"""Source repairs that day0 ships, by name: pure, idempotent, derived from what is found and not from a model."""

from __future__ import annotations

import difflib

from day0.runs.errors import Refused
from day0.tools.codemods import nextn_prefixes, rocm_guard
from day0.tools.codemods.base import Codemod

CODEMODS: dict[str, Codemod] = {codemod.name: codemod for codemod in (nextn_prefixes.CODEMOD, rocm_guard.CODEMOD)}


def codemod(name: str) -> Codemod:
    """The codemod of that name. Raises `Refused` naming the nearest."""
    found = CODEMODS.get(name)
    if found is None:
        near = difflib.get_close_matches(name, CODEMODS, n=1)
        hint = f"; the nearest is {near[0]}" if near else f"; there are {', '.join(sorted(CODEMODS))}"
        raise Refused(f"there is no codemod {name!r}{hint}")
    return found


__all__ = ["CODEMODS", "Codemod", "codemod"]
