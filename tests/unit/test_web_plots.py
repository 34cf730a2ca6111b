"""Charts: round ticks, gaps, one point alone, and the table behind them."""

from __future__ import annotations

from itertools import pairwise

import pytest

from app.web.charts import line_plot
from app.web.charts.line_plot import Series


def test_whole_numbers_get_whole_ticks() -> None:
    plot = line_plot.lines([Series(name="a", points=[(float(x), 1.0) for x in range(14)])], x_label="turn", y_label="y")
    assert plot is not None
    assert all(float(tick.label) == int(float(tick.label)) for tick in plot.x_ticks)


def test_one_point_is_drawn_at_its_own_tick() -> None:
    plot = line_plot.lines([Series(name="a", points=[(13.0, 0.5)])], x_label="day", y_label="y")
    assert plot is not None
    assert [tick.label for tick in plot.x_ticks] == ["13"]


def test_a_missing_value_is_a_gap_and_a_dash() -> None:
    points = [(0.0, 1.0), (1.0, None), (2.0, 3.0), (3.0, 4.0)]
    plot = line_plot.lines([Series(name="a", points=points)], x_label="x", y_label="y")
    assert plot is not None
    assert len(plot.lines[0].paths) == 2
    assert plot.header == ("x", "a")
    assert [row[1] for row in plot.rows] == ["1", "3", "4"]  # a place where nobody has a value is no row


def test_speeds_stand_on_a_logarithmic_axis() -> None:
    points = [(0.1 * 1.2**n, n / 40) for n in range(40)]
    plot = line_plot.lines([Series(name="a", points=points)], x_label="x", y_label="y", log_x=True, marks=False)
    assert plot is not None
    at = {tick.label: tick.at for tick in plot.x_ticks}
    assert at["1"] - at["0.1"] == pytest.approx(at["10"] - at["1"], abs=0.3)
    assert plot.lines[0].marks == ()


@pytest.mark.parametrize("speedups", [[0.2], [0.5, 0.5], [0.5, 0.5000000000000001], [1e-9], [7.0]])
def test_one_speed_has_a_place_on_a_logarithmic_axis(speedups: list[float]) -> None:
    points = [(speedup, 1.0) for speedup in speedups]
    plot = line_plot.lines([Series(name="a", points=points)], x_label="x", y_label="y", log_x=True)
    assert plot is not None
    assert all(0 < mark.x < line_plot.ACROSS for mark in plot.lines[0].marks)


def test_bars_stack_to_the_top_and_leave_out_what_never_occurs() -> None:
    stack = line_plot.stacked([("a", {"x": 3, "y": 1}), ("b", {"x": 1})], ["x", "y", "z"], x_label="h", words=str.upper)
    assert stack is not None
    assert stack.names == ("X", "Y")
    assert min(block.y for block in stack.blocks) == line_plot.TOP
    assert stack.rows == (("a", "3", "1"), ("b", "1", "0"))


@pytest.mark.parametrize(("share", "expected"), [(None, ""), (0.0, "heat-0"), (0.999, "heat-7"), (1.0, "heat-7")])
def test_shades(share: float | None, expected: str) -> None:
    assert line_plot.shade(share) == expected


def test_few_points_and_points_alone_are_drawn_where_lines_are_not_marked() -> None:
    gaps: list[tuple[float, float | None]] = [(float(x), 1.0 if x % 2 else None) for x in range(40)]
    for points in ([(1.0, 0.5)], [(1.0, 0.5), (2.0, 0.7)], gaps):
        plot = line_plot.lines([Series(name="a", points=points)], x_label="x", y_label="y", marks=False)
        assert plot is not None
        assert len(plot.lines[0].marks) == sum(y is not None for _, y in points)


def test_more_than_two_intervals_are_said_and_not_stacked() -> None:
    def areas(number: int) -> list[bool]:
        band = [(0.4, 0.6), (0.5, 0.7)]
        series = [Series(name=str(n), points=[(0.0, 0.5), (1.0, 0.6)], band=band) for n in range(number)]
        plot = line_plot.lines(series, x_label="x", y_label="y")
        assert plot is not None
        assert all("95 % CI 0.4 to 0.6" in line.marks[0].title for line in plot.lines)
        return [bool(line.area) for line in plot.lines]

    assert areas(2) == [True, True]
    assert areas(4) == [False] * 4


def test_labels_without_room_are_left_out_and_those_of_a_narrow_chart_are_spare() -> None:
    stack = line_plot.stacked([(f"{n:02}:00", {"x": 1}) for n in range(24)], ["x"], x_label="h", words=str)
    assert stack is not None
    assert len(stack.x_ticks) < 24
    for width, ticks in (
        (line_plot.USUAL, stack.x_ticks),
        (line_plot.NARROW, [tick for tick in stack.x_ticks if not tick.is_spare]),
    ):
        gaps = [(b.at - a.at) / line_plot.ACROSS * width for a, b in pairwise(ticks)]
        assert min(gaps) >= 5 * line_plot.CHARACTER
    assert sum(tick.is_spare for tick in stack.x_ticks) > 0
