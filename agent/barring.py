"""The waterfall of accepted changes as a picture: a value, and its SVG text. Pure; every text in it is escaped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from day0.agent.drawing import nice

WIDTH, ROW, LEFT, TOP, BOTTOM = 860, 46, 300, 34, 46
NAME = 46
"""characters of a change that stand beside its bar"""
BAR, FALL = "#1f6feb", "#d1242f"
NOTHING = "no figure yet"
"""where a change did not work before the next one came"""


@dataclass(frozen=True)
class Bar:
    """One change: the gain over the baseline before and after it, and to what the winner falls back without it.

    Gains are relative, 0.1 = 10 % more; None where nothing was measured.
    """

    name: str
    begin: float | None
    end: float | None
    without: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Waterfall:
    """Bars from the baseline (0) to the winner, in their order."""

    title: str
    bars: Sequence[Bar]
    label: str = ""

    @property
    def total(self) -> float:
        """The winner's gain as measured."""
        return next((b.end for b in reversed(self.bars) if b.end is not None), 0.0)

    @property
    def x(self) -> str:
        """What the axis says."""
        return "knee over the baseline's, %"

    def right(self) -> float:
        """Where the axis ends, in %."""
        seen = [v for b in self.bars for v in (b.begin, b.end, b.without) if v is not None]
        return nice(100 * max([*seen, 0.01]))

    def svg(self) -> str:
        """The picture; empty where there is nothing to draw."""
        if not self.bars:
            return ""
        height = TOP + ROW * len(self.bars) + BOTTOM
        parts = [_text(LEFT, 18, self.title, "start", "title")]
        if self.label:
            parts.append(_text(WIDTH - 12, 18, self.label, "end", "sim"))
        for step in range(5):
            value = self.right() * step / 4
            x = self._x(value / 100)
            parts.append(f'<line x1="{x}" y1="{TOP}" x2="{x}" y2="{height - BOTTOM}" class="grid"/>')
            parts.append(_text(x, height - BOTTOM + 16, f"{value:+.4g}", "middle"))
        parts.append(_text((LEFT + WIDTH) / 2, height - 8, self.x, "middle"))
        for number, bar in enumerate(self.bars):
            parts += self._bar(bar, TOP + ROW * number)
        label = escape(self.title, quote=True)
        body = "\n".join(parts)
        return f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{label}">\n{body}\n</svg>'

    def _x(self, gain: float) -> float:
        return round(LEFT + (WIDTH - LEFT - 40) * min(max(100 * gain / self.right(), 0.0), 1.0), 1)

    def _bar(self, bar: Bar, y: float) -> Iterator[str]:
        yield _text(LEFT - 8, y + 20, cut(bar.name), "end")
        if bar.end is not None:
            yield _box(self._x(bar.begin or 0.0), self._x(bar.end), y + 8, 16, BAR, 1.0)
        else:
            yield _text(LEFT + 5, y + 20, NOTHING, "start", "note")
        if bar.without is not None:
            yield _box(self._x(bar.without), self._x(self.total), y + 26, 6, FALL, 0.55)
        yield _text(LEFT - 8, y + 35, bar.note, "end", "note")


def cut(name: str) -> str:
    """A change as far as it fits beside its bar."""
    return name if len(name) <= NAME else name[: NAME - 1] + "…"


def _box(left: float, right: float, y: float, height: float, shade: str, strength: float) -> str:  # noqa: PLR0917
    left, right = min(left, right), max(left, right)
    width = max(1.0, round(right - left, 1))
    size = f'width="{width}" height="{height}"'
    return f'<rect x="{left}" y="{y}" {size} fill="{shade}" opacity="{strength}"/>'


def _text(x: float, y: float, text: str, anchor: str, kind: str = "") -> str:
    of = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{of}>{escape(text)}</text>'
