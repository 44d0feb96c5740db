"""What a candidate may ask for: value checks against an engine's own flags, and what would fake a result.

Pure. The reasons go back to whoever proposed the candidate, so each says what would be right.
"""

from __future__ import annotations

import difflib
import json
import math
import re
from collections.abc import Iterator, Mapping

from day0.runs.engine_facts import EngineFacts, FlagSpec
from day0.runs.errors import Refused
from day0.runs.workload import FlagValue

_INT = re.compile(r"[+-]?\d+\Z")
_SIZE = re.compile(r"[+-]?(\d+(\.\d+)?[kMGT]?|\d+[KMGT]i)\Z")  # SGLang: 25.6k, 1Ki; suffixes are case-sensitive
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}\Z")
_ENV_RESERVED = re.compile(
    r"(PATH|HOME|USER|SHELL|TMPDIR|CWD|PYTHON.*|LD_.*|PIP_.*|DAY0_.*|.*_PROXY|HF_HUB_.*|HF_HOME|TRANSFORMERS_OFFLINE"
    r"|BASH_ENV|ENV|GCONV_PATH|NODE_OPTIONS|.*(TOKEN|SECRET|PASSWORD|API_?KEY|CREDENTIAL).*)\Z",
    re.IGNORECASE,
)
_ALLOCATORS = re.compile(r"/usr/lib(64)?/[\w./-]*lib(tcmalloc(_minimal)?|jemalloc|mimalloc)\.so[\d.]*\Z")
_GEOMETRY = re.compile(
    r"layer|expert|top_?k|hidden|head|intermediate|vocab|max_(position|seq|window)|context|window|dim\b|_dim|rank|stride",
    re.IGNORECASE,
)


def words(text: str) -> frozenset[str]:
    """The blank-separated words of a text: tables that people read and edit."""
    return frozenset(text.split())


def size(value: FlagValue) -> int:
    """A whole number as SGLang's parser reads it: 25.6k = 25600, 1Ki = 1024. Raises `ValueError`."""
    units = {"k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
    text = str(value)
    unit = next((u for u in sorted(units, key=len, reverse=True) if text.endswith(u)), "")
    return int(float(text.removesuffix(unit)) * units.get(unit, 1))


def nearest(name: str, facts: EngineFacts, count: int = 3) -> tuple[str, ...]:
    """Existing flags whose names come closest, aliases included; the best first."""
    names = [n for flag in facts.flags for n in (flag.name, *flag.aliases)]
    return tuple(difflib.get_close_matches(name, names, n=count, cutoff=0.5))


def known_flag(name: str, facts: EngineFacts) -> FlagSpec:
    """The flag, or `Refused` with the nearest names."""
    flag = facts.flag(name)
    if flag is None:
        near = nearest(name, facts)
        hint = f"; the nearest are {', '.join('--' + n for n in near)}" if near else ""
        raise Refused(f"{facts.engine} {facts.version} has no flag --{name}{hint}")
    return flag


def check_value(flag: FlagSpec, value: FlagValue) -> None:
    """Raises `Refused` unless the engine's own parser would take the value."""
    if not flag.takes_value:
        if value is True or (value is False and flag.negatable):
            return
        either = "true or false" if flag.negatable else "true (leave it out to switch it off)"
        raise Refused(f"--{flag.name} is a switch: its value must be {either}, not {value!r}")
    if isinstance(value, bool) or value == "":
        raise Refused(f"--{flag.name} needs a value{_expects(flag)}, not {value!r}")
    for part in _parts(flag, value):
        _check_part(flag, part)


def _parts(flag: FlagSpec, value: FlagValue) -> list[str]:
    text = render(value)
    return text.split() if flag.many else [text]


def render(value: FlagValue) -> str:
    """A flag's value as the command line spells it."""
    return format(value, "g") if isinstance(value, float) and value == int(value) else str(value)


def _check_part(flag: FlagSpec, text: str) -> None:
    fits = {
        "int": lambda: bool(_INT.match(text)),
        "size": lambda: bool(_SIZE.match(text)),
        "float": lambda: _finite(text),
        "json": lambda: _json(text),
    }.get(flag.kind, lambda: True)()
    if not fits:
        raise Refused(f"--{flag.name} takes {_expects(flag) or 'another type'}, not {text!r}")
    if flag.choices and text not in flag.choices:
        near = difflib.get_close_matches(text, flag.choices, n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise Refused(f"--{flag.name} takes one of {', '.join(flag.choices)}, not {text!r}{hint}")
    # a value that looks like a flag would be read as one: refused, however harmless it may be
    if text.startswith("-") and not _finite(text):
        raise Refused(f"--{flag.name} can't take {text!r}: a value must not start with a dash")
    if any(ord(c) < 32 for c in text):
        raise Refused(f"--{flag.name} can't take control characters")


def _expects(flag: FlagSpec) -> str:
    kinds = {"int": "a whole number", "size": "a whole number (also 16k, 1Ki)", "float": "a number", "json": "JSON"}
    if flag.choices:
        return f" (one of {', '.join(flag.choices[:8])})"
    return kinds.get(flag.kind, "")


def _finite(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def check_env(env: Mapping[str, str], facts: EngineFacts, faking: re.Pattern[str]) -> None:
    """Raises `Refused` for variables that fake a result, that day0 sets, or that load code into the server.

    `LD_PRELOAD` is allowed for nothing but an allocator that this build's facts list.
    """
    allocators = {path for path in facts.capabilities.values() if _ALLOCATORS.match(path)}
    for name, value in env.items():
        if not _ENV_NAME.match(name) or "\0" in value or "\n" in value or len(value) > 4096:
            raise Refused(f"{name!r} is not a usable environment variable")
        if faking.match(name):
            raise Refused(f"{name} fakes or disturbs what is measured; it is banned while results count")
        if name == "LD_PRELOAD" and value in allocators:
            continue
        if _ENV_RESERVED.match(name):
            listed = f" (allowed: an allocator of this machine: {', '.join(sorted(allocators))})" if allocators else ""
            raise Refused(f"{name} is not a candidate's to set{listed if name == 'LD_PRELOAD' else ''}")


def geometry_keys(text: str) -> Iterator[str]:
    """Keys of a JSON override that would change how much the model computes or remembers."""

    def walk(value: object) -> Iterator[str]:
        if isinstance(value, dict):
            for key, inner in value.items():
                if _GEOMETRY.search(str(key)):
                    yield str(key)
                yield from walk(inner)
        elif isinstance(value, list):
            for inner in value:
                yield from walk(inner)

    try:
        yield from walk(json.loads(text))
    except ValueError:
        yield "(not JSON)"
