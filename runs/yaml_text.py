"""YAML as documents use it: plain values only, each with its line; no tags, anchors, duplicate keys, odd booleans.

Scalars follow YAML 1.2's core schema: `yes`, `on`, `1:30` and dates are text. The writer quotes whatever either
schema would read as something else than text, so that written text is always read back as it was.
"""

from __future__ import annotations

import math
import re
from typing import Any, cast

import yaml

Path = tuple[str | int, ...]
Lines = dict[Path, int]

_BOOL = re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$")
_INT = re.compile(r"^[-+]?[0-9]+$")
_FLOAT = re.compile(
    r"^(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
)
_NULL = re.compile(r"^(?:~|null|Null|NULL|)$")
_MAX_DEPTH = 40


class Malformed(Exception):
    """Text that is no document; `line` counts from 1."""

    def __init__(self, line: int, why: str) -> None:
        super().__init__(why)
        self.line, self.why = line, why


class _Loader(yaml.SafeLoader):
    """Refuses aliases, anchors and tags before anything is built from them."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            raise Malformed(_at(event.start_mark), "anchors and aliases are not allowed")
        if event.tag is not None:
            raise Malformed(_at(event.start_mark), f"the tag {event.tag} is not allowed")
        return super().compose_node(parent, index)


def parse(text: str) -> tuple[Any, Lines]:
    """Plain values and the line on which each path's key (or list item) stands. Raises `Malformed`."""
    try:
        root = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        raise Malformed(_at(error.problem_mark or error.context_mark), str(error.problem or error.context)) from None
    except yaml.reader.ReaderError as error:
        line = text[: error.position].count("\n") + 1
        raise Malformed(line, f"a character that YAML does not allow: U+{error.character:04X}") from None
    lines: Lines = {(): 1}
    return (None if root is None else _value(root, (), lines)), lines


def _at(mark: Any) -> int:
    return mark.line + 1 if mark else 1


def _value(node: yaml.Node, path: Path, lines: Lines) -> Any:
    if len(path) > _MAX_DEPTH:
        raise Malformed(_at(node.start_mark), "nested too deeply")
    lines.setdefault(path, _at(node.start_mark))
    if isinstance(node, yaml.MappingNode):
        return _mapping(node, path, lines)
    if isinstance(node, yaml.SequenceNode):
        return [_value(item, (*path, number), lines) for number, item in enumerate(node.value)]
    return _scalar(cast("yaml.ScalarNode", node))


def _mapping(node: yaml.MappingNode, path: Path, lines: Lines) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key_node, value_node in node.value:
        line = _at(key_node.start_mark)
        if not isinstance(key_node, yaml.ScalarNode):
            raise Malformed(line, "a key must be text")
        key = str(key_node.value)
        if key in out:
            raise Malformed(line, f"`{key}` stands here twice")
        lines[(*path, key)] = line
        out[key] = _value(value_node, (*path, key), lines)
    return out


def _scalar(node: yaml.ScalarNode) -> Any:
    text, line = str(node.value), _at(node.start_mark)
    if node.style is not None:  # quoted or block text
        return text
    if _NULL.match(text):
        return None
    if _BOOL.match(text):
        return text.lower() == "true"
    if _INT.match(text):
        if len(text) > 40:
            raise Malformed(line, "a number of more than 40 digits")
        return int(text)
    if _FLOAT.match(text):
        return _finite(text, line)
    return text


def _finite(text: str, line: int) -> float:
    number = float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
    if not math.isfinite(number):
        raise Malformed(line, f"{text} is not a finite number")
    return number


class _Writer(yaml.SafeDumper):
    """Quotes what any of the two schemas takes for a number, boolean or null."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def _text(writer: _Writer, value: str) -> yaml.Node:
    ambiguous = any(pattern.match(value) for pattern in (_INT, _FLOAT, _BOOL, _NULL))
    style = '"' if ambiguous or not value.isprintable() else None
    return writer.represent_scalar("tag:yaml.org,2002:str", value, style=style)


def _float(writer: _Writer, value: float) -> yaml.Node:
    digits = repr(value)
    if "e" in digits and "." not in digits:  # 1e+16: YAML 1.1 readers want a point
        digits = digits.replace("e", ".0e")
    return writer.represent_scalar("tag:yaml.org,2002:float", digits)


_Writer.add_representer(str, _text)
_Writer.add_representer(float, _float)


def write(value: Any) -> str:
    """YAML of plain values: keys in their order, no line breaks inside scalars; equal values give equal bytes."""
    text: str = yaml.dump(
        value, Dumper=_Writer, sort_keys=False, allow_unicode=True, width=2**20, default_flow_style=False
    )
    return text
