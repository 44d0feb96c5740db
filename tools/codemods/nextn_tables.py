"""Tables of draft prefixes in Python source: finding them, judging them, rewriting them in place.

Positions come from the parsed syntax tree and all else of the file stays as it is, to the byte.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import Literal

from day0.runs.errors import Refused
from day0.tools.codemods.draft_names import OWN, RUNTIME, Draft, excluded

MAPPERS = ("orig_to_new_substr", "orig_to_new_prefix")
LAYER = "num_hidden_layers"
_NAME = re.compile(r"(?i)(draft|nextn|mtp).*prefix|prefix.*(draft|nextn|mtp)")


@dataclass(frozen=True)
class Table:
    """One dictionary. `forward`: run-time prefix -> checkpoint prefix; `mapper`: part of a checkpoint name -> new."""

    kind: Literal["forward", "mapper"]
    name: str
    node: ast.Dict
    statement: ast.stmt
    scope: tuple[ast.AST, ...]
    """enclosing functions and classes, outermost first"""


def tables(text: str) -> list[Table]:
    """All tables of a file in their order; none where it is no Python."""
    try:
        module = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return []
    found: list[Table] = []
    _walk(module, (), found)
    return found


def _walk(node: ast.AST, scope: tuple[ast.AST, ...], found: list[Table]) -> None:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.Assign, ast.AnnAssign)) and child.value is not None:
            target = child.targets[0] if isinstance(child, ast.Assign) else child.target
            name = target.id if isinstance(target, ast.Name) else ""
            if isinstance(child.value, ast.Dict) and _NAME.search(name):
                found.append(Table("forward", name, child.value, child, scope))
            elif isinstance(child.value, ast.Call):
                found += [
                    Table("mapper", name, word.value, child, scope)
                    for word in child.value.keywords
                    if word.arg in MAPPERS and isinstance(word.value, ast.Dict) and _decodes(word.value)
                ]
        inner = (*scope, child) if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) else scope
        _walk(child, inner, found)


def _decodes(node: ast.Dict) -> bool:
    return any(spelt(value, 0) == "model.decoder" for value in node.values)


def spelt(node: ast.expr | None, layers: int) -> str | None:
    """A string or an f-string with the layer count put in; None for anything else."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        parts = [spelt(v.value if isinstance(v, ast.FormattedValue) else v, layers) for v in node.values]
        return None if None in parts else "".join(part or "" for part in parts)
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return str(layers) if name == LAYER else None


def missed(table: Table, draft: Draft) -> list[str]:
    """Run-time names of excluded draft modules to which the table does not lead."""
    pairs = zip(table.node.keys, table.node.values, strict=True)
    given = [(spelt(key, draft.layers), spelt(value, draft.layers)) for key, value in pairs]
    known = [(key, value) for key, value in given if key is not None and value is not None]
    wrong = []
    if table.kind == "forward":
        leads = dict(known)
        for module in draft.modules:
            at = draft.runtime(module)
            names = [f"{at}.{module}"] + ([f"{leads[at]}.{module}"] if at in leads else [])
            if not any(excluded(name, draft.exclude) for name in names):
                wrong.append(names[0])
        return wrong
    told = [_renamed(entry, known) for entry in draft.exclude]
    for module in draft.modules:
        name = f"{draft.runtime(module)}.{module}"
        if not excluded(name, told):
            wrong.append(name)
    return wrong


def _renamed(entry: str, known: list[tuple[str, str]]) -> str:
    """As the engine applies its mapper: each part once, in order."""
    for part, new in known:
        if part in entry:
            entry = entry.replace(part, new, 1)
    return entry


def mended(text: str, table: Table, draft: Draft, *, shared: bool) -> str:
    """The file with the table leading to every excluded module of the draft layer. Raises `Refused`."""
    if any(key is None for key in table.node.keys):
        raise Refused(f"the table {table.name or 'of draft prefixes'} is made of other tables")
    if table.kind == "mapper":
        return _mapper(text, table, draft)
    expression = _config(table.scope)
    if expression is not None:
        return _forward(text, table, _literal(draft, expression))
    user = None if shared or table.scope else _only_user(text, table)
    if user is None:
        return _forward(text, table, _literal(draft, None))
    return _moved(text, table, draft, user)


def _literal(draft: Draft, config: str | None) -> str:
    """The checkpoint's prefix as source."""
    if config is None:
        return f'"{draft.prefix}"'
    head = draft.prefix.rpartition(".")[0]
    return f'f"{head}.{{{config}.{LAYER}}}"'


def _config(scope: tuple[ast.AST, ...]) -> str | None:
    """How the innermost enclosing function names the model's configuration; None: it has none."""
    functions = [node for node in scope if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    if not functions:
        return None
    arguments = functions[-1].args
    names = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    return "config" if "config" in names else None


class _Edit:
    """Replacements in a text by positions of its syntax tree (columns are UTF-8 bytes)."""

    def __init__(self, text: str) -> None:
        self.data = text.encode()
        self.starts = [0]
        for line in self.data.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        self.changes: list[tuple[int, int, bytes]] = []

    def at(self, line: int, column: int) -> int:
        return self.starts[line - 1] + column

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self.at(node.lineno, node.col_offset), self.at(node.end_lineno, node.end_col_offset)

    def put(self, start: int, end: int, new: str) -> None:
        self.changes.append((start, end, new.encode()))

    def text(self) -> str:
        data = self.data
        for start, end, new in sorted(self.changes, reverse=True):
            data = data[:start] + new + data[end:]
        return data.decode()


def _forward(text: str, table: Table, literal: str) -> str:
    edit, node, have = _Edit(text), table.node, set()
    for key, value in zip(node.keys, node.values, strict=True):
        prefix = spelt(key, 0)
        if prefix in RUNTIME:
            have.add(prefix)
            edit.put(*edit.span(value), literal)
    _add(edit, node, [f'"{prefix}": {literal}' for prefix in RUNTIME if prefix not in have])
    return edit.text()


def _mapper(text: str, table: Table, draft: Draft) -> str:
    """New entries in front, special ones first: the engine applies all of them in order."""
    firsts = dict.fromkeys(module.split(".")[0] for module in draft.modules)
    entries = [f'"{draft.prefix}.{own}": "model.{own}"' for own in firsts if own in OWN]
    entries.append(f'"{draft.prefix}": "model.decoder"')
    edit, node, known = _Edit(text), table.node, {spelt(key, draft.layers) for key in table.node.keys}
    entries = [entry for entry in entries if ast.literal_eval("{" + entry + "}").keys().isdisjoint(known)]
    if not entries or not node.keys or node.keys[0] is None:
        raise Refused("the mapper of checkpoint names has entries of this layer that lead elsewhere")
    first = node.keys[0]
    before = edit.data[edit.starts[first.lineno - 1] : edit.at(first.lineno, first.col_offset)].decode()
    between = f",\n{before}" if not before.strip() else ", "
    start = edit.span(first)[0]
    edit.put(start, start, between.join(entries) + between)
    return edit.text()


def _add(edit: _Edit, node: ast.Dict, entries: list[str]) -> None:
    """Appends entries in the style of the dictionary: a line each, or behind the last."""
    if not entries:
        return
    if not node.values:
        start, end = edit.span(node)
        edit.put(start, end, "{" + ", ".join(entries) + "}")
        return
    last, key = node.values[-1], node.keys[-1]
    assert key is not None
    end = edit.span(last)[1]
    before = edit.data[edit.starts[key.lineno - 1] : edit.at(key.lineno, key.col_offset)].decode()
    between = f",\n{before}" if not before.strip() else ", "
    edit.put(end, end, between + between.join(entries))


def _only_user(text: str, table: Table) -> ast.FunctionDef | None:
    """The one function that reads a table of the module and has the model's configuration; None: not so."""
    module = ast.parse(text)
    users: list[ast.FunctionDef] = []
    reads = 0
    for node in module.body:
        inside = [n for n in ast.walk(node) if isinstance(n, ast.Name) and n.id == table.name]
        reads += len([n for n in inside if isinstance(n.ctx, ast.Load)])
        writes = [n for n in inside if not isinstance(n.ctx, ast.Load)]
        if writes and node.lineno != table.statement.lineno:
            return None
        if isinstance(node, ast.FunctionDef) and inside and _config((node,)):
            users.append(node)
    named = [n for n in ast.walk(module) if isinstance(n, ast.Constant) and n.value == table.name]
    if len(users) != 1 or named or reads != _reads(users[0], table.name):
        return None
    return users[0]


def _reads(function: ast.FunctionDef, name: str) -> int:
    return len([n for n in ast.walk(function) if isinstance(n, ast.Name) and n.id == name])


def _moved(text: str, table: Table, draft: Draft, user: ast.FunctionDef) -> str:
    """The module's table becomes the function's own, where the configuration tells the layer."""
    made = _forward(text, table, _literal(draft, "config"))
    again = next(t for t in tables(made) if t.name == table.name and not t.scope)
    edit = _Edit(made)
    lines = made.splitlines(keepends=True)
    begin, end = again.statement.lineno, again.statement.end_lineno or again.statement.lineno
    while begin > 1 and lines[begin - 2].lstrip().startswith("#"):
        begin -= 1
    function = next(n for n in ast.parse(made).body if isinstance(n, ast.FunctionDef) and n.name == user.name)
    first = function.body[0]
    documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and len(function.body) > 1
    if first.lineno == function.lineno or len({s.lineno for s in function.body}) != len(function.body):
        return _forward(text, table, _literal(draft, None))
    place = function.body[1] if documented else first
    indent = lines[place.lineno - 1][: place.col_offset]
    block = [indent + line if line.strip() else line for line in lines[begin - 1 : end]]
    at = edit.at(place.lineno, 0)
    edit.put(at, at, "".join(block))
    if end < len(lines) and not lines[end].strip():
        while begin > 1 and not lines[begin - 2].strip():
            begin -= 1  # the blank lines that set the table off go with it
    edit.put(edit.at(begin, 0), edit.at(end + 1, 0), "")
    return edit.text()
