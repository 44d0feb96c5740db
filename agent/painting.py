"""The charts of a report as PNG files, drawn by matplotlib (extra `report`); no display and no browser is needed."""

from __future__ import annotations

import io
from typing import Any

from day0.agent.barring import BAR, FALL, NOTHING, Waterfall, cut
from day0.agent.drawing import Chart, colour
from day0.runs.errors import UserError

DPI = 150
STYLE: Any = {"text.parse_math": False, "font.size": 9.5, "axes.titlesize": 11, "axes.spines.top": False}
LIMIT, SIMULATED = "#d1242f", "#9a6700"
MISSING = "PNG files need the extra `report`: pip install 'day0[report]'"


class Missing(UserError):
    """What draws them is not installed."""


def png(picture: Chart | Waterfall) -> bytes | None:
    """The picture as a PNG file; None where there is nothing to draw. Raises `Missing` without matplotlib."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise Missing(MISSING) from None
    empty = not picture.shown if isinstance(picture, Chart) else not picture.bars
    if empty:
        return None
    out = io.BytesIO()
    with matplotlib.rc_context({**STYLE, "axes.spines.right": False}):
        if isinstance(picture, Chart):
            figure = Figure(figsize=(8.4, 4.6), dpi=DPI, layout="constrained")
            _chart(picture, figure)
        else:
            figure = Figure(figsize=(9.6, 1.5 + 0.62 * len(picture.bars)), dpi=DPI, layout="constrained")
            _waterfall(picture, figure)
        figure.savefig(out, format="png", metadata={"Software": "day0"})
    return out.getvalue()


def _chart(picture: Chart, figure: Any) -> None:
    axes = figure.add_subplot()
    right, high = picture.ends()
    for number, one in enumerate(picture.shown):
        xs, ys = [x for x, _ in one.points], [min(y, high) for _, y in one.points]
        look: dict[str, Any] = {"color": colour(number), "alpha": 0.35 if one.faint else 1.0}
        axes.plot(
            xs,
            ys,
            linestyle="-" if one.joined else "none",
            marker="o",
            markersize=4.5,
            label=one.name,
            zorder=2 if one.faint else 3,
            **look,
        )
        beyond = [(x, high) for x, y in one.points if y > high]
        if beyond:
            axes.plot(*zip(*beyond, strict=True), "^", color=colour(number), markersize=8, clip_on=False, zorder=4)
    if picture.limit is not None:
        axes.axhline(picture.limit[0], color=LIMIT, linestyle=(0, (5, 4)), linewidth=1.2)
        axes.annotate(
            picture.limit[1], (right, picture.limit[0]), (-4, 4), textcoords="offset points", ha="right", color=LIMIT
        )
    if picture.wall is not None:
        axes.axvline(picture.wall[0], color=LIMIT, linestyle=(0, (5, 4)), linewidth=1.2)
        axes.annotate(picture.wall[1], (picture.wall[0], 0), (5, 6), textcoords="offset points", color=LIMIT)
    for mark in picture.marks:
        if mark.low is not None and mark.high is not None:
            axes.axvspan(mark.low, min(mark.high, right), color=colour(mark.series), alpha=0.12, linewidth=0)
        axes.axvline(mark.x, color=colour(mark.series), linestyle=":", linewidth=1.2)
        side = -1 if mark.x > right / 2 else 1
        axes.annotate(
            mark.name,
            (mark.x, high),
            (4 * side, -14 - 13 * mark.series),
            textcoords="offset points",
            ha="left" if side > 0 else "right",
            color=colour(mark.series),
            fontsize=8.5,
        )
    axes.set(xlim=(0, right), ylim=(0, high), xlabel=picture.x, ylabel=picture.y)
    axes.set_title(picture.title, loc="left", fontweight="bold")
    axes.grid(visible=True, color="#e4e8ec", linewidth=0.8)
    axes.set_axisbelow(True)
    figure.legend(loc="outside right upper", frameon=False, fontsize=8.5)
    _label(picture.label, axes)


def _waterfall(picture: Waterfall, figure: Any) -> None:
    from matplotlib.patches import Patch

    axes = figure.add_subplot()
    for number, bar in enumerate(picture.bars):
        if bar.end is not None:
            begin = 100 * (bar.begin or 0.0)
            axes.barh(number - 0.12, 100 * bar.end - begin, left=begin, height=0.44, color=BAR, zorder=3)
            text = f"{(1 + bar.end) / (1 + (bar.begin or 0.0)) - 1:+.1%}"
            axes.annotate(
                text, (max(100 * bar.end, begin), number - 0.12), (5, -3), textcoords="offset points", fontsize=8.5
            )
        else:
            axes.annotate(
                NOTHING, (0, number - 0.12), (5, -3), textcoords="offset points", fontsize=8.5, color="#57606a"
            )
        if bar.without is not None:
            left = 100 * bar.without
            axes.barh(
                number + 0.25, 100 * picture.total - left, left=left, height=0.16, color=FALL, alpha=0.55, zorder=3
            )
    keys = [Patch(color=BAR, label="brought when it came"), Patch(color=FALL, alpha=0.55, label="lost without it")]
    figure.legend(handles=keys, loc="outside lower left", frameon=False, fontsize=8.5)
    names = [f"{cut(bar.name)}\n{bar.note}" for bar in picture.bars]
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.set(xlim=(0, 1.1 * picture.right()), ylim=(len(names) - 0.4, -0.6), xlabel=picture.x)
    axes.set_title(picture.title, loc="left", fontweight="bold")
    axes.grid(visible=True, axis="x", color="#e4e8ec", linewidth=0.8)
    axes.set_axisbelow(True)
    _label(picture.label, axes)


def _label(label: str, axes: Any) -> None:
    if label:
        axes.set_title(label, loc="right", color=SIMULATED, fontweight="bold", fontsize=10)
