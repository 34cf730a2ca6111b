"""Means over seeds with 95 % intervals (Student's t), and plots as SVG."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from statistics import fmean
from typing import Any

from app.domain import intervals

Rows = Sequence[Mapping[str, Any]]
"""Figures of the steps of one training."""

LAST = 10
"""Steps at the end over which methods are compared."""
LEFT, RIGHT = 58, 706
"""Ends of a plotting area in pixels: the chart's own places across are percentages of it."""
DASHES = ("", "7 4", "2 3", "9 3 2 3")
COLOURS = ("#1f5fa8", "#b4541a", "#2f7d4f", "#7a3f9d")


def interval(values: Sequence[float]) -> tuple[float, float] | None:
    """95 % interval of a mean; None of fewer than two values.  Welch's with a side
    that is constantly zero is it.
    """
    found = intervals.mean_difference(values, [0.0, 0.0])
    return None if found is None else (found.low, found.high)


def curve(trainings: Sequence[Rows], name: str) -> dict[str, list[Any]]:
    """Mean of a figure over the trainings (seeds), with its interval, by step."""
    steps = [row["step"] for row in trainings[0]]
    found: dict[str, list[Any]] = {"step": steps, "mean": [], "interval": []}
    for at in range(len(steps)):
        values = [float(rows[at].get(name, 0.0)) for rows in trainings]
        known = [value for value in values if not math.isnan(value)]
        found["mean"].append(fmean(known) if known else None)
        found["interval"].append(interval(known))
    return found


def at_end(rows: Rows, name: str, last: int = LAST) -> float:
    """Mean of a figure over the last steps of a training."""
    return fmean(float(row.get(name, 0.0)) for row in rows[-last:])


def at_ends(trainings: Sequence[Rows], name: str) -> dict[str, Any]:
    """The same over seeds, with its interval."""
    values = [at_end(rows, name) for rows in trainings]
    return {"mean": fmean(values), "interval": interval(values), "seeds": values}


def paired(
    first: Sequence[Rows], second: Sequence[Rows], name: str, last: int = LAST
) -> dict[str, Any]:
    """Difference of two methods over the last steps, first minus second, of pairs of one seed."""
    pairs = zip(first, second, strict=True)
    values = [at_end(one, name, last) - at_end(other, name, last) for one, other in pairs]
    return {"mean": fmean(values), "interval": interval(values)}


def save_plot(
    path: Path,
    curves: Mapping[str, Mapping[str, Sequence[Any]]],
    *,
    title: str,
    y_label: str,
    top: float | None = None,
) -> None:
    """A line a method, with its interval as an area, as SVG.  `top`: upper end of the axis;
    no area goes beyond it, nor below 0 where it is 1, the largest share.  Needs the packages
    of the web UI for its geometry.
    """
    from app.web.charts import line_plot

    if top == 1.0:
        curves = {
            name: {
                **one,
                "interval": [
                    ends and tuple(min(1.0, max(0.0, end)) for end in ends)
                    for ends in one["interval"]
                ],
            }
            for name, one in curves.items()
        }
    ends = [end for one in curves.values() for ends in one["interval"] if ends for end in ends]
    ends += [value for one in curves.values() for value in one["mean"] if value is not None]
    span = (min(0.0, *ends), top if top is not None else max(ends) * 1.06)
    plots = []
    for name, one in curves.items():
        series = line_plot.Series(
            name=name,
            points=list(zip(map(float, one["step"]), one["mean"], strict=True)),
            band=one["interval"],
        )
        plot = line_plot.lines(
            [series], x_label="training step", y_label=y_label, y_range=span, marks=False
        )
        assert plot is not None
        plots.append(plot)
    path.write_text(_svg(plots, title))


def _svg(plots: Sequence[Any], title: str) -> str:
    first, height = plots[0], 280 + 18 * len(plots)
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 {height}"'
            ' font-family="sans-serif" font-size="12">'
        ),
        f"<title>{escape(title)}</title>",
        f'<rect width="720" height="{height}" fill="#fff"/>',
    ]
    for tick in first.y_ticks:
        parts.append(
            f'<line x1="{LEFT}" x2="{RIGHT}" y1="{tick.at}" y2="{tick.at}" stroke="#ddd"/>'
        )
        parts.append(f'<text x="52" y="{tick.at + 4}" text-anchor="end">{tick.label}</text>')
    parts += [
        f'<text x="{_pixels(tick.at)}" y="252" text-anchor="middle">{tick.label}</text>'
        for tick in first.x_ticks
    ]
    parts.append(f'<text x="382" y="272" text-anchor="middle">{escape(first.x_label)}</text>')
    parts.append(f'<text x="2" y="14">{escape(first.y_label)}</text>')
    for number, plot in enumerate(plots):
        if area := plot.lines[0].area:
            parts.append(
                f'<polygon points="{_stretched(area)}" fill="{COLOURS[number]}"'
                ' fill-opacity="0.15"/>'
            )
    for number, plot in enumerate(plots):
        look = (
            f'fill="none" stroke="{COLOURS[number]}" stroke-width="1.8"'
            f' stroke-dasharray="{DASHES[number]}"'
        )
        parts += [f'<polyline points="{_stretched(path)}" {look}/>' for path in plot.lines[0].paths]
        y = 286 + 18 * number
        parts.append(f'<polyline points="62,{y} 102,{y}" {look}/><text x="110" y="{y + 4}">')
        parts.append(f"{escape(plot.lines[0].name)}</text>")
    return "\n".join([*parts, "</svg>"]) + "\n"


def _pixels(across: float) -> float:
    """Place across in pixels, of a percentage."""
    return round(LEFT + across / 100 * (RIGHT - LEFT), 1)


def _stretched(points: str) -> str:
    """Points of a polyline with their places across in pixels."""
    pairs = (point.split(",") for point in points.split())
    return " ".join(f"{_pixels(float(x))},{y}" for x, y in pairs)
