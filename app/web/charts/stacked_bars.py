"""BROWSE: stacked bars as geometry, drawn by `_plots.html` as inline SVG with the table behind it.

Places across are percentages of the plotting area.  Parts differ by their order and by name, never
by colour alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from app.web.charts import reading
from app.web.charts.axis import ACROSS, BOTTOM, TOP, Axis, Tick, spaced

HEIGHT = 280
"""Height in pixels, as of a chart of lines beside it."""
GAP = 0.08
"""Space at each side of a bar, as a share of its step."""

Bar = tuple[str, Mapping[str, int]]
"""Label of a bar, and counts by name."""


@dataclass(frozen=True, kw_only=True)
class StackedBars:
    """Everything that the template draws."""

    size: ClassVar = (HEIGHT, BOTTOM)
    layers: tuple[str, ...]
    """For each name the outline of its parts of all bars, in percent across and pixels down:
    one path in place of an element for each part, of which a chart has hundreds.
    """
    names: tuple[str, ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    reading: str
    """Values of every bar, as `reading.as_json` writes them."""


def plot(
    bars: Sequence[Bar], names: Sequence[str], *, x_label: str, words: Callable[[str], str]
) -> StackedBars | None:
    """Counts of each of `names`, bar by bar; None where all are zero.  Names that
    never occur are left out.
    """
    used = [name for name in names if any(counts.get(name) for _, counts in bars)]
    most = max((sum(counts.get(name, 0) for name in used) for _, counts in bars), default=0)
    if not most:
        return None
    vertical = Axis(0.0, float(most), HEIGHT - BOTTOM, TOP)
    ticks = [Tick(at=_middle(place, bars), label=label) for place, (label, _) in enumerate(bars)]
    shown = tuple(map(words, used))
    return StackedBars(
        layers=_layers(bars, used, vertical),
        names=shown,
        x_ticks=tuple(spaced(ticks)),
        y_ticks=tuple(Tick(at=vertical(y), label=f"{y:g}") for y in vertical.ticks(())),
        header=(x_label, *shown),
        rows=tuple((label, *(str(counts.get(name, 0)) for name in used)) for label, counts in bars),
        reading=reading.as_json(shown, _stops(bars, used)),
    )


def _middle(place: int, bars: Sequence[Bar]) -> float:
    return round((place + 0.5) / len(bars) * ACROSS, 2)


def _stops(bars: Sequence[Bar], names: Sequence[str]) -> list[reading.Stop]:
    """The counts of every bar that are not zero."""
    return [
        (
            _middle(place, bars),
            label,
            [
                (style, 0.0, str(counts[name]))
                for style, name in enumerate(names)
                if counts.get(name)
            ],
        )
        for place, (label, counts) in enumerate(bars)
    ]


def _layers(bars: Sequence[Bar], names: Sequence[str], vertical: Axis) -> tuple[str, ...]:
    """For each name the outline of its parts of the bars; they stand on those of the names
    before it.
    """
    step = ACROSS / len(bars)
    outlines: dict[str, list[str]] = {name: [] for name in names}
    for place, (_, counts) in enumerate(bars):
        below = 0
        for name in names:
            if not (number := counts.get(name, 0)):
                continue
            left, right = round(step * (place + GAP), 2), round(step * (place + 1 - GAP), 2)
            outlines[name].append(
                f"M{left},{vertical(below)}V{vertical(below + number)}H{right}V{vertical(below)}Z"
            )
            below += number
    return tuple("".join(each) for each in outlines.values())
