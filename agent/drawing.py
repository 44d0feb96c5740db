"""Small charts as values, and as SVG text. Pure; every text in it is escaped. `painting` makes PNG files of them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 720, 380
LEFT, RIGHT, TOP, BOTTOM = 70, 190, 28, 48
COLOURS = ("#1f6feb", "#1a7f37", "#8250df", "#9a6700", "#57606a", "#bf3989")
"""of series in their order; red is the limit's"""


@dataclass(frozen=True)
class Series:
    """Points in order; `joined` draws a line through them. `notes` are shown when one points at them."""

    name: str
    points: tuple[tuple[float, float], ...]
    joined: bool = True
    faint: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Mark:
    """A place on the x axis with a name, and the interval it may lie in; `series` is the number of the one it is of."""

    x: float
    name: str
    low: float | None = None
    high: float | None = None
    series: int = 0


@dataclass(frozen=True)
class Chart:
    """Axes from 0; `limit` is a horizontal line with a name, `wall` a vertical one. `label` stands inside the picture
    (`simulated`, say).
    """

    title: str
    x: str
    y: str
    series: Sequence[Series]
    limit: tuple[float, str] | None = None
    wall: tuple[float, str] | None = None
    marks: Sequence[Mark] = ()
    label: str = ""

    @property
    def shown(self) -> tuple[Series, ...]:
        """The series that have points."""
        return tuple(s for s in self.series if s.points)

    def ends(self) -> tuple[float, float]:
        """Where the axes end. Far beyond a limit nobody needs exact values: those points lie at the upper edge."""
        xs = [x for s in self.shown for x, _ in s.points]
        ys = [y for s in self.shown for _, y in s.points]
        top = max(ys) if self.limit is None else min(max(ys), 3 * self.limit[0])
        right = max([*xs, *([self.wall[0]] if self.wall else [])])
        return nice(right), nice(max([top, *([1.05 * self.limit[0]] if self.limit else [])]))

    def svg(self) -> str:
        """The picture; empty where there is nothing to draw."""
        shown = self.shown
        if not shown:
            return ""
        place = _Place(*self.ends())
        parts = [*_axes(self, place)]
        if self.limit is not None:
            y = place.y(self.limit[0])
            parts.append(f'<line x1="{LEFT}" y1="{y}" x2="{WIDTH - RIGHT}" y2="{y}" class="limit"/>')
            parts.append(_text(WIDTH - RIGHT - 4, y - 5, self.limit[1], "end"))
        if self.wall is not None:
            x = place.x(self.wall[0])
            parts.append(f'<line x1="{x}" y1="{TOP}" x2="{x}" y2="{HEIGHT - BOTTOM}" class="limit"/>')
            parts.append(_text(x + 4, HEIGHT - BOTTOM - 6, self.wall[1], "start"))
        for mark in self.marks:
            parts += _marked(mark, colour(mark.series), place)
        if self.label:
            parts.append(_text(WIDTH - RIGHT - 4, TOP + 12, self.label, "end", "sim"))
        for number, one in enumerate(shown):
            parts += _drawn(one, colour(number), place)
            parts += _legend(one.name, colour(number), number)
        label = escape(self.title, quote=True)
        body = "\n".join(parts)
        return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">\n{body}\n</svg>'


@dataclass(frozen=True)
class _Place:
    right: float
    high: float

    def x(self, value: float) -> float:
        return round(LEFT + (WIDTH - LEFT - RIGHT) * min(value / self.right, 1.0), 1)

    def y(self, value: float) -> float:
        return round(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * min(value / self.high, 1.0), 1)


def nice(value: float) -> float:
    """The least of 1, 1.5, 2, 3, 4, 5, 6, 8, 10 times a power of ten that is not below a positive value."""
    if value <= 0:
        return 1.0
    unit = 10.0 ** math.floor(math.log10(value))
    return next(step * unit for step in (1, 1.5, 2, 3, 4, 5, 6, 8, 10, 15) if step * unit >= value)


def _axes(chart: Chart, place: _Place) -> Iterator[str]:
    yield _text(LEFT, 16, chart.title, "start", "title")
    for step in range(5):
        x, y = place.right * step / 4, place.high * step / 4
        yield f'<line x1="{LEFT}" y1="{place.y(y)}" x2="{WIDTH - RIGHT}" y2="{place.y(y)}" class="grid"/>'
        yield _text(place.x(x), HEIGHT - BOTTOM + 16, f"{x:.4g}", "middle")
        yield _text(LEFT - 6, place.y(y) + 4, f"{y:.4g}", "end")
    yield _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, chart.x, "middle")
    middle = (TOP + HEIGHT - BOTTOM) / 2
    yield f'<text x="14" y="{middle}" text-anchor="middle" transform="rotate(-90 14 {middle})">{escape(chart.y)}</text>'


def colour(number: int) -> str:
    """Of a series."""
    return COLOURS[number % len(COLOURS)]


def _marked(mark: Mark, shade: str, place: _Place) -> Iterator[str]:
    if mark.low is not None and mark.high is not None:
        left, right = place.x(mark.low), place.x(mark.high)
        size = f'width="{max(1.0, right - left):.1f}" height="{HEIGHT - TOP - BOTTOM}"'
        yield f'<rect x="{left}" y="{TOP}" {size} fill="{shade}" opacity="0.12"/>'
    x = place.x(mark.x)
    yield f'<line x1="{x}" y1="{TOP}" x2="{x}" y2="{HEIGHT - BOTTOM}" stroke="{shade}" stroke-dasharray="2 3"/>'
    at = TOP + 26 + 14 * mark.series
    yield _text(x - 4, at, mark.name, "end") if x > WIDTH / 2 else _text(x + 4, at, mark.name, "start")


def _drawn(one: Series, shade: str, place: _Place) -> Iterator[str]:
    faint = ' opacity="0.45"' if one.faint else ""
    if one.joined and len(one.points) > 1:
        path = " ".join(f"{place.x(x)},{place.y(y)}" for x, y in one.points)
        yield f'<polyline points="{path}" fill="none" stroke="{shade}" stroke-width="2"{faint}/>'
    for number, (x, y) in enumerate(one.points):
        note = escape(one.notes[number] if number < len(one.notes) else one.name)
        spot = f'cx="{place.x(x)}" cy="{place.y(y)}" r="4" fill="{shade}"{faint}'
        yield f"<circle {spot}><title>{note}</title></circle>"


def _legend(name: str, shade: str, number: int) -> Iterator[str]:
    y = TOP + 16 * number
    yield f'<rect x="{WIDTH - RIGHT + 12}" y="{y}" width="10" height="10" fill="{shade}"/>'
    yield _text(WIDTH - RIGHT + 28, y + 9, name if len(name) <= 26 else name[:25] + "…", "start")


def _text(x: float, y: float, text: str, anchor: str, kind: str = "") -> str:
    of = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{of}>{escape(text)}</text>'
