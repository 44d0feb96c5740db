"""Small functions of engine source are evaluated by reading them: what they give, and what is never done."""

from __future__ import annotations

import pytest
from day0.sandboxes.twin.arithmetic import Unclear, value
from hypothesis import given
from hypothesis import strategies as st

SOURCE = '''
"""A module."""
import math
import os

LIMITS = (128, 256, 512)
SIZE: int = 64
OPEN = os.environ  # not understood, and nobody needs it


def ceil_div(a: int, b: int = SIZE) -> int:
    """Rounded up."""
    return -(-a // b)


def by_math(a, b):
    import math
    return math.ceil(a / b)


def bucket(n):
    for at, limit in enumerate(LIMITS):
        if n <= limit:
            return at
    return -1 if n > 512 else len(LIMITS)


def evens(n):
    total = 0
    for i in range(n):
        if i % 2:
            continue
        if i > 6:
            break
        total += i
    return total


def halve(n):
    steps = 0
    while n > 1 and not steps >= 40:
        n, steps = n // 2, steps + 1
    return steps


def shares(n, k):
    whole, rest = divmod(n, k)
    return [whole + (1 if i < rest else 0) for i in range(k)]


def spread(n, k):
    return max(shares(n, k)) - min(shares(n, k))


def total(n, k):
    return sum(x for x in shares(n, k) if x > 0)


def table(name):
    return {"a": 1, "b": 2 ** 5, "c": 1 << 3}[name]
'''


@pytest.mark.parametrize(
    ("function", "args", "gives"),
    [
        ("ceil_div", (65,), 2), ("ceil_div", (10, 3), 4), ("by_math", (10, 3), 4), ("bucket", (200,), 1),
        ("bucket", (999,), -1), ("evens", (9,), 12), ("halve", (1024,), 10), ("shares", (7, 3), (3, 2, 2)),
        ("spread", (7, 3), 1), ("total", (7, 9), 7), ("table", ("b",), 32), ("table", ("c",), 8),
    ],
)  # fmt: skip
def test_what_a_function_gives(function, args, gives):
    assert value(SOURCE, function, args) == gives


@given(st.integers(1, 10**6), st.integers(1, 999))
def test_it_gives_what_python_gives(a, b):
    scope: dict = {}
    exec(compile(SOURCE.replace("OPEN = os.environ", ""), "source", "exec"), scope)
    for function in ("ceil_div", "by_math"):
        assert value(SOURCE, function, (a, b)) == scope[function](a, b)
    assert value(SOURCE, "halve", (a,)) == scope["halve"](a)


@pytest.mark.parametrize(
    "body",
    [
        "return __import__('os').system('true')", "return open('/etc/passwd')", "return n.__class__", "return f(n)",
        "return eval('1')", "while True:\n        n += 1", "return [0] * 10 ** 9", "return 'x' * 9",
        "return 9 ** 9 ** 9",
        "return (lambda: 1)()", "import os\n    return os.getpid()", "global n\n    return 1", "return 1 / 0",
        "return (1, 2)[7]", "return sum(range(10 ** 9))", "return unknown", "return n[", "raise ValueError",
        "with n:\n        return 1", "return max()", "x = y = 1\n    return x", "return n << 400", "break",
        "return sum(i for i in range(4000) for j in range(4000))", "a, b = 1, 2, 3\n    return a",
    ],
)  # fmt: skip
def test_what_is_not_understood_is_unclear_and_nothing_is_run(body):
    with pytest.raises(Unclear):
        value(f"def f(n):\n    {body}\n", "f", (3,))


def test_a_function_that_is_not_there_or_takes_something_else_is_unclear():
    for function, args in (("nowhere", ()), ("ceil_div", ()), ("ceil_div", (1, 2, 3))):
        with pytest.raises(Unclear):
            value(SOURCE, function, args)
    with pytest.raises(Unclear):
        value("async def f(n):\n    return n\n", "f", (3,))
