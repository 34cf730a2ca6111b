"""Attempts drawn with their speedups."""

from __future__ import annotations

from app.web.charts import attempt_plot, axis
from app.web.charts.attempt_plot import Attempt


def attempt(
    name: str, speedup: float | None, *, label: str | None = "clean", low: float = 0.0
) -> Attempt:
    return Attempt(
        name=name,
        tick=name,
        url=f"/evaluations/{name}",
        outcome="passed" if speedup else "incorrect",
        label=label,
        speedup=speedup,
        low=low or (speedup * 0.9 if speedup else None),
        high=speedup * 1.1 if speedup else None,
    )


def test_fewer_than_two_speedups_are_not_drawn() -> None:
    assert attempt_plot.plot([]) is None
    assert attempt_plot.plot([attempt("0", 2.0), attempt("1", None)]) is None


def test_marks_differ_by_form_and_say_their_values() -> None:
    found = attempt_plot.plot(
        [
            attempt("0", None),
            attempt("1", 3.0, label="hack"),
            attempt("2", 2.0),
            attempt("3", 2.5, label="suspect"),
        ]
    )
    assert found is not None
    assert [mark.form for mark in found.marks] == ["none", "hack", "clean", "suspect"]
    assert found.marks[0].title == "0: incorrect"
    assert found.marks[1].title == "1: passed, hack, 3.00× (2.70–3.30×)"
    assert found.marks[2].url == "/evaluations/2"
    assert found.marks[1].y < found.marks[3].y < found.marks[2].y < found.even, "faster is higher"


def test_the_best_so_far_leaves_out_hacks_and_only_rises() -> None:
    found = attempt_plot.plot(
        [attempt("0", 2.0), attempt("1", 9.0, label="hack"), attempt("2", 1.5), attempt("3", 4.0)]
    )
    assert found is not None
    places = [float(point.split(",")[1]) for point in found.best.split()]
    assert places == sorted(places, reverse=True)
    assert min(places) == found.marks[3].y
    cheats = attempt_plot.plot([attempt("0", 2.0, label="hack"), attempt("1", 3.0, label="hack")])
    assert cheats is not None
    assert cheats.best == ""


def test_an_interval_that_says_nothing_does_not_flatten_the_chart() -> None:
    found = attempt_plot.plot([attempt("0", 2.0, low=1e-9), attempt("1", 3.0)])
    assert found is not None
    assert found.marks[0].y - found.marks[1].y > 10
    assert found.marks[0].ends is not None
    assert found.marks[0].ends[1] <= attempt_plot.HEIGHT - axis.BOTTOM


def test_odd_speedups_stand_at_the_edge() -> None:
    odd = [
        attempt(str(n), value)
        for n, value in enumerate((1e300, 5e-324, float("inf"), 2.0, float("nan"), -1.0))
    ]
    found = attempt_plot.plot(odd)
    assert found is not None
    foot = attempt_plot.HEIGHT - axis.BOTTOM
    assert all(0 < mark.y <= foot for mark in found.marks)
    assert [mark.form for mark in found.marks[4:]] == ["none", "none"]
    assert found.marks[0].y == found.marks[2].y < found.marks[3].y < found.marks[1].y
