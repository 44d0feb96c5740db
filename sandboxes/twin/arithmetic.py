"""What a small function of engine source gives, found by reading it: nothing of the file is ever run by Python.

Numbers, texts and lists, `if`, `for`, `while`, `return`, assignments, arithmetic, comprehensions and a few built-in
functions; no attributes, classes or files. Steps, sizes and depth are limited. What is not understood is `Unclear`.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

MAX_BYTES = 1 << 20
STEPS, DEPTH, LARGEST, LONGEST = 20_000, 12, 1 << 62, 4096
BINARY: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.RShift: operator.rshift,
    ast.LShift: lambda a, b: operator.lshift(a, min(b, 64)),
    ast.Pow: lambda a, b: operator.pow(a, b) if abs(a) < 1024 and 0 <= b < 64 else LARGEST * 2,
}
COMPARE: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
}
UNARY: Mapping[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Not: operator.not_,
    ast.Invert: operator.invert,
}
FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "abs": abs,
    "bool": bool,
    "divmod": divmod,
    "enumerate": lambda items: tuple(enumerate(items)),
    "float": float,
    "int": int,
    "len": len,
    "list": tuple,
    "max": max,
    "min": min,
    "round": round,
    "sorted": sorted,
    "sum": sum,
    "tuple": tuple,
    "zip": lambda *items: tuple(zip(*items, strict=False)),
    "math.ceil": math.ceil,
    "math.floor": math.floor,
}
FAILURES = (TypeError, ValueError, ArithmeticError, LookupError, RecursionError)


class Unclear(Exception):
    """A function that is not there, not understood, or does not come to an end."""


class _Return(Exception):
    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


class _Break(Exception):
    pass


class _Continue(Exception):
    pass


@lru_cache(maxsize=256, typed=True)
def value(text: str, function: str, args: tuple[Any, ...]) -> Any:
    """What `function` of the file `text` gives for these arguments. Raises `Unclear`."""
    try:
        module = ast.parse(text[:MAX_BYTES])
    except (SyntaxError, ValueError, RecursionError) as error:
        raise Unclear(f"{function} can't be read: {error}") from None
    return _Reader(module).call(function, args, 0)


class _Reader:
    """One module: its functions, its constants, the steps that are left."""

    def __init__(self, module: ast.Module) -> None:
        self.functions = {n.name: n for n in module.body if isinstance(n, ast.FunctionDef)}
        self.steps, self.depth = STEPS, 0
        self.globals: dict[str, Any] = {}
        for node in module.body:
            if isinstance(node, (ast.Assign, ast.AnnAssign)):
                try:
                    self.run([node], self.globals)
                except (Unclear, *FAILURES):
                    continue  # what needs it says so

    def call(self, name: str, args: Sequence[Any], depth: int) -> Any:
        """A function of the module. Raises `Unclear`."""
        made = self.functions.get(name)
        if made is None:
            raise Unclear(f"there is no function {name}")
        if depth > DEPTH:
            raise Unclear(f"{name} calls itself without end")
        known = [a.arg for a in (*made.args.posonlyargs, *made.args.args)]
        defaults = made.args.defaults
        names = dict(zip(known, args, strict=False))
        for left, node in zip(known[len(known) - len(defaults) :], defaults, strict=True):
            names.setdefault(left, self.of(node, self.globals))
        if len(args) > len(known) or set(known) - set(names):
            raise Unclear(f"{name} takes {', '.join(known)}")
        self.depth = depth
        try:
            self.run(made.body, names)
        except _Return as done:
            return done.value
        except (_Break, _Continue):
            raise Unclear(f"{name} is no Python") from None
        except Unclear:
            raise
        except FAILURES as error:
            raise Unclear(f"{name} fails: {type(error).__name__}: {error}") from None
        finally:
            self.depth = depth
        return None

    def run(self, body: Sequence[ast.stmt], names: dict[str, Any]) -> None:
        """Statements, one after the other."""
        for node in body:
            self._step()
            if isinstance(node, ast.Return):
                raise _Return(None if node.value is None else self.of(node.value, names))
            if isinstance(node, (ast.Break, ast.Continue)):
                raise _Break if isinstance(node, ast.Break) else _Continue
            if isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
                self._assign(node, names)
            elif isinstance(node, ast.If):
                self.run(node.body if self.of(node.test, names) else node.orelse, names)
            elif isinstance(node, (ast.For, ast.While)) and not node.orelse:
                self._loop(node, names)
            elif not isinstance(node, (ast.Pass, ast.Import)) and not _is_text(node):
                raise Unclear(f"line {node.lineno}: {type(node).__name__} is not understood")

    def _loop(self, node: ast.For | ast.While, names: dict[str, Any]) -> None:
        try:
            for _ in self._rounds(node, names):
                try:
                    self.run(node.body, names)
                except _Continue:
                    continue
        except _Break:
            return

    def _rounds(self, node: ast.For | ast.While, names: dict[str, Any]) -> Iterator[None]:
        if isinstance(node, ast.While):
            while self.of(node.test, names):
                yield
            return
        for item in self.of(node.iter, names):
            self._put(node.target, item, names)
            yield

    def _assign(self, node: ast.Assign | ast.AnnAssign | ast.AugAssign, names: dict[str, Any]) -> None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if len(targets) != 1 or node.value is None:
            raise Unclear(f"line {node.lineno}: one assignment at a time is understood")
        found, target = self.of(node.value, names), targets[0]
        if isinstance(node, ast.AugAssign):
            found = self._binary(node.op, self.of(target, names), found)
        self._put(target, found, names)

    def _put(self, target: ast.expr, value: Any, names: dict[str, Any]) -> None:
        if isinstance(target, ast.Name):
            names[target.id] = value
            return
        if not isinstance(target, (ast.Tuple, ast.List)) or len(target.elts) != len(value):
            raise Unclear(f"line {target.lineno}: only names are assigned to")
        for one, part in zip(target.elts, value, strict=True):
            self._put(one, part, names)

    def of(self, node: ast.expr | None, names: Mapping[str, Any]) -> Any:
        """An expression's value."""
        self._step()
        read = getattr(self, f"_{type(node).__name__.lower()}", None)
        if node is None or read is None:
            raise Unclear(f"line {getattr(node, 'lineno', 0)}: {type(node).__name__} is not understood")
        return read(node, names)

    def _constant(self, node: ast.Constant, _: Mapping[str, Any]) -> Any:
        if node.value is None or isinstance(node.value, (bool, int, float, str)):
            return node.value
        raise Unclear(f"line {node.lineno}: {type(node.value).__name__} is not understood")

    def _tuple(self, node: ast.Tuple | ast.List, names: Mapping[str, Any]) -> Any:
        return tuple(self.of(item, names) for item in node.elts)

    _list = _tuple

    def _listcomp(self, node: ast.ListComp | ast.GeneratorExp, names: Mapping[str, Any]) -> Any:
        inner, found = dict(names), []
        if len(node.generators) != 1:
            raise Unclear(f"line {node.lineno}: one `for` at a time is understood")
        (made,) = node.generators
        for item in self.of(made.iter, inner):
            self._put(made.target, item, inner)
            if all(self.of(test, inner) for test in made.ifs):
                found.append(self.of(node.elt, inner))
        return tuple(found)

    _generatorexp = _listcomp

    def _dict(self, node: ast.Dict, names: Mapping[str, Any]) -> Any:
        pairs = zip(node.keys, node.values, strict=True)
        return {self.of(key, names): self.of(item, names) for key, item in pairs}

    def _unaryop(self, node: ast.UnaryOp, names: Mapping[str, Any]) -> Any:
        return UNARY[type(node.op)](self.of(node.operand, names))

    def _ifexp(self, node: ast.IfExp, names: Mapping[str, Any]) -> Any:
        return self.of(node.body if self.of(node.test, names) else node.orelse, names)

    def _boolop(self, node: ast.BoolOp, names: Mapping[str, Any]) -> Any:
        found = None
        for part in node.values:
            found = self.of(part, names)
            if bool(found) == isinstance(node.op, ast.Or):
                break
        return found

    def _compare(self, node: ast.Compare, names: Mapping[str, Any]) -> Any:
        left = self.of(node.left, names)
        for op, part in zip(node.ops, node.comparators, strict=True):
            right = self.of(part, names)
            if not COMPARE[type(op)](left, right):
                return False
            left = right
        return True

    def _subscript(self, node: ast.Subscript, names: Mapping[str, Any]) -> Any:
        return self.of(node.value, names)[self.of(node.slice, names)]

    def _binop(self, node: ast.BinOp, names: Mapping[str, Any]) -> Any:
        return self._binary(node.op, self.of(node.left, names), self.of(node.right, names))

    def _name(self, node: ast.Name, names: Mapping[str, Any]) -> Any:
        for known in (names, self.globals):
            if node.id in known:
                return known[node.id]
        raise Unclear(f"{node.id} is not known")

    def _call(self, node: ast.Call, names: Mapping[str, Any]) -> Any:
        if node.keywords:
            raise Unclear(f"line {node.lineno}: only arguments without names are understood")
        called, args = ast.unparse(node.func), [self.of(part, names) for part in node.args]
        if called in self.functions:
            return self.call(called, args, self.depth + 1)
        if called == "range":
            made = range(*args)
            if len(made) > LONGEST:
                raise Unclear(f"line {node.lineno}: too long a range")
            return made
        if called not in FUNCTIONS:
            raise Unclear(f"line {node.lineno}: {called} is not understood")
        return FUNCTIONS[called](*args)

    def _binary(self, op: ast.operator, left: Any, right: Any) -> Any:
        if type(op) not in BINARY or not isinstance(left, (int, float)) or not isinstance(right, (int, float)):
            raise Unclear(f"{type(op).__name__} of {type(left).__name__} and {type(right).__name__} is not understood")
        found = BINARY[type(op)](left, right)
        if abs(found) > LARGEST:
            raise Unclear("a number that is too large")
        return found

    def _step(self) -> None:
        self.steps -= 1
        if self.steps < 0:
            raise Unclear("it does not come to an end")


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
