"""Charts: round ticks, gaps, one point alone, and the table behind them."""

from __future__ import annotations

import json
import math
from itertools import pairwise

import pytest

from app.web import formatting
from app.web.charts import axis, heat_map, line_plot, stacked_bars
from app.web.charts.line_plot import Series


def test_whole_numbers_get_whole_ticks() -> None:
    plot = line_plot.lines(
        [Series(name="a", points=[(float(x), 1.0) for x in range(14)])], x_label="turn", y_label="y"
    )
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
    assert [row[1] for row in plot.rows] == ["1", "3", "4"]  # a place without any value is no row


def test_speeds_stand_on_a_logarithmic_axis() -> None:
    points = [(0.1 * 1.2**n, n / 40) for n in range(40)]
    plot = line_plot.lines(
        [Series(name="a", points=points)], x_label="x", y_label="y", log_x=True, marks=False
    )
    assert plot is not None
    at = {tick.label: tick.at for tick in plot.x_ticks}
    assert at["1"] - at["0.1"] == pytest.approx(at["10"] - at["1"], abs=0.3)
    assert plot.lines[0].marks == ()


@pytest.mark.parametrize("speedups", [[0.2], [0.5, 0.5], [0.5, 0.5000000000000001], [1e-9], [7.0]])
def test_one_speed_has_a_place_on_a_logarithmic_axis(speedups: list[float]) -> None:
    points = [(speedup, 1.0) for speedup in speedups]
    plot = line_plot.lines([Series(name="a", points=points)], x_label="x", y_label="y", log_x=True)
    assert plot is not None
    assert all(0 < mark.x < axis.ACROSS for mark in plot.lines[0].marks)


def test_bars_stack_to_the_top_and_leave_out_what_never_occurs() -> None:
    stack = stacked_bars.plot(
        [("a", {"x": 3, "y": 1}), ("b", {"x": 1})], ["x", "y", "z"], x_label="h", words=str.upper
    )
    assert stack is not None
    assert stack.names == ("X", "Y")
    foot = line_plot.HEIGHT - axis.BOTTOM
    middle = foot - 0.75 * (foot - axis.TOP)
    assert stack.layers == (
        (
            f"M4.0,{foot:.1f}V{middle}H46.0V{foot:.1f}Z"
            f"M54.0,{foot:.1f}V{foot - 0.25 * (foot - axis.TOP)}H96.0V{foot:.1f}Z"
        ),
        f"M4.0,{middle}V{axis.TOP:.1f}H46.0V{middle}Z",
    )
    assert stack.rows == (("a", "3", "1"), ("b", "1", "0"))


@pytest.mark.parametrize(
    ("share", "expected"), [(None, ""), (0.0, "heat-0"), (0.999, "heat-7"), (1.0, "heat-7")]
)
def test_shades(share: float | None, expected: str) -> None:
    assert heat_map.shade(share) == expected


def test_few_points_and_points_alone_are_drawn_where_lines_are_not_marked() -> None:
    gaps: list[tuple[float, float | None]] = [(float(x), 1.0 if x % 2 else None) for x in range(40)]
    for points in ([(1.0, 0.5)], [(1.0, 0.5), (2.0, 0.7)], gaps):
        plot = line_plot.lines(
            [Series(name="a", points=points)], x_label="x", y_label="y", marks=False
        )
        assert plot is not None
        assert len(plot.lines[0].marks) == sum(y is not None for _, y in points)


def test_more_than_two_intervals_are_said_and_not_stacked() -> None:
    def areas(number: int) -> list[bool]:
        band = [(0.4, 0.6), (0.5, 0.7)]
        series = [
            Series(name=str(n), points=[(0.0, 0.5), (1.0, 0.6)], band=band) for n in range(number)
        ]
        plot = line_plot.lines(series, x_label="x", y_label="y")
        assert plot is not None
        assert all("95 % CI 0.4 to 0.6" in line.marks[0].title for line in plot.lines)
        return [bool(line.area) for line in plot.lines]

    assert areas(2) == [True, True]
    assert areas(4) == [False] * 4


def test_labels_without_room_are_left_out_and_those_of_a_narrow_chart_are_spare() -> None:
    stack = stacked_bars.plot(
        [(f"{n:02}:00", {"x": 1}) for n in range(24)], ["x"], x_label="h", words=str
    )
    assert stack is not None
    assert len(stack.x_ticks) < 24
    for width, ticks in (
        (axis.USUAL, stack.x_ticks),
        (axis.NARROW, [tick for tick in stack.x_ticks if not tick.is_spare]),
    ):
        gaps = [(b.at - a.at) / axis.ACROSS * width for a, b in pairwise(ticks)]
        assert min(gaps) >= 5 * axis.CHARACTER
    assert sum(tick.is_spare for tick in stack.x_ticks) > 0


def test_every_place_across_can_be_read() -> None:
    series = [
        Series(name="correct", points=[(0.0, 0.5), (1.0, None)], band=[(0.4, 0.6), None]),
        Series(name="fast", points=[(0.0, 0.25), (1.0, 0.75)]),
    ]
    plot = line_plot.lines(series, x_label="turn", y_label="y", y_range=(0.0, 1.0))
    assert plot is not None
    read = json.loads(plot.reading)
    assert read["names"] == ["correct", "fast"]
    assert [(at, label) for at, label, _ in read["stops"]] == [
        (0.0, "turn: 0"),
        (axis.ACROSS, "turn: 1"),
    ]
    assert [text for _, _, text in read["stops"][0][2]] == ["0.5 (95 % CI 0.4 to 0.6)", "0.25"]
    assert [(line, text) for line, _, text in read["stops"][1][2]] == [(1, "0.75")]


def test_values_that_hold_are_drawn_as_steps() -> None:
    series = [Series(name="a", points=[(0.0, 0.5), (1.0, None), (2.0, 0.0), (3.0, 1.0)])]
    plot = line_plot.lines(series, x_label="x", y_label="y", y_range=(0.0, 1.0), holds=True)
    assert plot is not None
    low, high = line_plot.HEIGHT - axis.BOTTOM, axis.TOP
    across = axis.ACROSS
    at_two = round(across * 2 / 3, 2)
    assert plot.lines[0].paths == (
        f"0.0,{(low + high) / 2}",
        f"{at_two},{low:.1f} {across},{low:.1f} {across},{high:.1f}",
    )


def test_bars_can_be_read() -> None:
    stack = stacked_bars.plot(
        [("a", {"x": 3, "y": 1}), ("b", {"x": 1})], ["x", "y"], x_label="h", words=str.upper
    )
    assert stack is not None
    read = json.loads(stack.reading)
    assert read["names"] == ["X", "Y"]
    assert read["stops"] == [
        [25.0, "a", [[0, 0.0, "3"], [1, 0.0, "1"]]],
        [75.0, "b", [[0, 0.0, "1"]]],
    ]


def test_a_ratio_can_be_drawn_on_both_scales() -> None:
    series = [Series(name="a", points=[(1.0, 0.0), (2.0, 1.0), (3.0, 10.0), (4.0, 100.0)])]
    plot = line_plot.on_both_scales(series, "y", x_label="step", y_label="speedup")
    assert plot is not None
    assert plot.other is not None
    assert (plot.scale, plot.other.scale) == ("linear", "logarithmic")
    assert len(plot.lines[0].marks) == 4
    ys = [mark.y for mark in plot.other.lines[0].marks]
    assert len(ys) == 3, "0 has no place on a logarithmic axis"
    assert ys[0] - ys[1] == pytest.approx(ys[1] - ys[2], abs=0.1)
    assert len(plot.rows) == 4


def test_nothing_above_zero_has_one_scale() -> None:
    plot = line_plot.on_both_scales(
        [Series(name="a", points=[(1.0, 0.0)])], "y", x_label="x", y_label="y"
    )
    assert plot is not None
    assert plot.other is None
    assert plot.scale == ""


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
def test_values_without_a_place_are_gaps(odd: float) -> None:
    points = [(0.0, 1.0), (1.0, odd), (2.0, 2.0)]
    plot = line_plot.lines(
        [Series(name="a", points=points, band=[None, (odd, 1.0), None])], x_label="x", y_label="y"
    )
    assert plot is not None
    assert [len(path.split()) for path in plot.lines[0].paths] == [1, 1]
    assert json.loads(plot.reading)["stops"][-1][1] == "x: 2"
    assert (
        line_plot.lines([Series(name="a", points=[(0.0, odd)])], x_label="x", y_label="y") is None
    )


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        ((0.0, 0.2, 1.0), ["0 %", "20 %", "100 %"]),
        ((0.0, 0.025), ["0.0 %", "2.5 %"]),
        ((-0.2, 0.0), ["−20 %", "0 %"]),
    ],
)
def test_ticks_have_no_needless_zeros(values: tuple[float, ...], labels: list[str]) -> None:
    found = axis.ticked(values, axis.Axis(-1, 1, 0, 100), formatting.percent)
    assert [tick.label for tick in found] == labels
