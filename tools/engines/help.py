"""Reads the flags of a program from the `--help` text that Python's argparse prints.

Flags of serving engines are renamed within weeks; the help text of the build that will run is the only list
that is true for it. Types and defaults are not in the text: `with_types` adds them where an engine can be asked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from day0.runs.engine_facts import FlagSpec

_ENTRY = re.compile(r"^  (?P<call>-\S.*?)(?:  +(?P<help>\S.*))?$")
_NEXT_FLAG = re.compile(r", (?=-)")
_CHOICES = re.compile(r"\{([^{}]*)\}")
MAX_HELP_CHARS = 600
"""Help of one flag kept; longer texts are cut, they only tell people and models what a flag is for."""


def parse_help(text: str) -> tuple[FlagSpec, ...]:
    """All long flags of an argparse help text, in its order. Never raises: a line that is no flag is help of the last.

    Assumes argparse's layout: flags indented by two blanks, help in a column further right.
    """
    found: list[FlagSpec] = []
    call, help_lines = "", list[str]()
    for line in [*text.splitlines(), "end:"]:
        entry = _ENTRY.match(line)
        if entry is None and line.startswith("   "):
            help_lines.append(line.strip())
            continue
        if call:
            found.extend(_flag(call, " ".join(filter(None, help_lines))))
        call = entry["call"] if entry else ""
        help_lines = [entry["help"] or ""] if entry else []
    return tuple(found)


def _flag(call: str, text: str) -> list[FlagSpec]:
    """One entry such as `-f F, --flag F [F ...]`; nothing for --help and for flags without a long form."""
    names, value = list[str](), ""
    for part in _NEXT_FLAG.split(call):
        name, _, rest = part.partition(" ")
        names.append(name)
        value = rest.strip() or value
    longs = [name[2:] for name in names if name.startswith("--")]
    positive = [name for name in longs if not (name.startswith("no-") and name[3:] in longs)]
    if not positive or "help" in positive:
        return []
    choices = _CHOICES.search(value)
    return [
        FlagSpec(
            name=positive[0],
            aliases=tuple(positive[1:]),
            takes_value=bool(value),
            choices=tuple(filter(None, choices[1].split(","))) if choices else (),
            metavar="" if choices else value.strip("[]").split(" ")[0],
            many=value.endswith("...]"),
            negatable=len(positive) < len(longs),
            help=text[:MAX_HELP_CHARS],
        )
    ]


def with_types(flags: tuple[FlagSpec, ...], types: Mapping[str, Any]) -> tuple[FlagSpec, ...]:
    """Adds kind and default from `types`: flag name -> {"kind": str, "default": str | None}; others stay unknown."""
    out = []
    for flag in flags:
        known: Mapping[str, Any] = next((types[name] for name in (flag.name, *flag.aliases) if name in types), {})
        default = known.get("default")
        update = {"kind": str(known.get("kind", "")), "default": None if default is None else str(default)[:200]}
        out.append(flag.model_copy(update=update))
    return tuple(out)
