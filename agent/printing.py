"""How commands print: lines, JSON, tables; figures of a simulated node are labelled wherever they stand."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence

from day0.agent.policy.untrusted import line

SIMULATED = " (simulated)"
"""stands wherever a figure of the twin is shown"""


def say(text: str = "") -> None:
    """A line of output."""
    sys.stdout.write(text + "\n")


def say_json(value: object) -> None:
    """JSON, indented, keys as they are made."""
    say(json.dumps(value, indent=2, ensure_ascii=False))


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A table as wide as the terminal; cells are text, never markup."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    made = Table(title=title, title_justify="left", expand=False)
    for column in columns:
        made.add_column(column, overflow="fold")
    for row in rows:
        made.add_row(*(Text("" if cell is None else line(str(cell), 400)) for cell in row))
    console = Console()
    if not console.is_terminal:
        console.width = 160
    console.print(made)


def number(value: float | None) -> str:
    """Four digits; nothing for None."""
    return "" if value is None else f"{value:.4g}"


def pct(value: float | None) -> str:
    """A gain; nothing for None."""
    return "" if value is None else f"{value:+.1%}"


def short(attempt: str) -> str:
    """An attempt's ID within its run: `1.3`."""
    return attempt.rpartition("-")[2]
